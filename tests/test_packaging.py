"""What is installed: one module, `hushmq`, without the evaluation; nothing here needs a package index."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.deploy.test_container import sources

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EVALUATION = tomllib.loads((ROOT / "evaluation" / "pyproject.toml").read_text())
LEFT_OVER = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist")


def run(*words: object, cwd: Path, code: int = 0) -> str:
    """Run a command with nothing of this environment but PATH; what it wrote, both outputs together."""
    environment = {"PATH": os.environ["PATH"], "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


def build(hook: str, source: Path, out: Path) -> Path:
    """Run one hook of the build backend (PEP 517) in a folder, as pip does; the file that it makes."""
    out.mkdir(exist_ok=True)
    program = f"from setuptools import build_meta; print('\\n' + build_meta.{hook}({str(out)!r}))"
    return out / run(sys.executable, "-P", "-c", program, cwd=source).splitlines()[-1]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the Containerfile copies from the repository, and the evaluation: no build/ left over from another time."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in sources() | {"MANIFEST.in", "evaluation"}:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=LEFT_OVER)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel made from the container's sources, which lack the evaluation."""
    folder = tmp_path_factory.mktemp("container")
    shutil.copytree(checkout, folder, symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(folder / "evaluation")
    return build("build_wheel", folder, folder / "dist")


@pytest.fixture(scope="module")
def evaluation_wheel(checkout: Path) -> Path:
    return build("build_wheel", checkout / "evaluation", checkout / "evaluation-dist")


def names(wheel: Path) -> set[str]:
    """The files of a wheel, without its metadata."""
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def in_checkout(package: str) -> set[str]:
    """The modules of a part of hushmq in the checkout, and its mark of being typed; links are not followed."""
    folder = ROOT / package
    found = (path for suffix in ("*.py", "py.typed") for path in folder.rglob(suffix))
    prefix = "hushmq" if package == "hushmq" else f"hushmq/{package}"
    return {f"{prefix}/{path.relative_to(folder)}" for path in found}


PARTS = ("agent", "broker", "calibrator", "console", "pufferfish")


def test_the_wheel_holds_every_module_of_hushmq_and_nothing_else(wheel: Path) -> None:
    """One name on top level; no evaluation, no tests; typed."""
    expected = {name for part in ("hushmq", *PARTS) for name in in_checkout(part)}
    assert {name for name in names(wheel) if name.endswith((".py", "py.typed"))} == expected
    assert {name.split("/")[0] for name in names(wheel)} == {"hushmq"}
    assert "hushmq/py.typed" in names(wheel)


def test_files_that_modules_need_are_in_the_wheel(wheel: Path) -> None:
    """Whatever git keeps beside the modules of a package, such as a template, is package data."""
    listed = subprocess.run(
        ["git", "ls-files", "hushmq", *PARTS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    kept = {name for name in listed.stdout.split() if not (ROOT / name).is_symlink()}
    prefixed = {name if name.startswith("hushmq/") else f"hushmq/{name}" for name in kept}
    assert prefixed - names(wheel) == set()


def test_the_revisions_of_the_database_run_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """Alembic finds its environment and every revision there: a new database has the newest."""
    shutil.unpack_archive(wheel, tmp_path / "installed", "zip")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'installed')!r})\n"
        "from hushmq.calibrator.store import open_database, revisions\n"
        "open_database.open_store('sqlite:///ledger.db').dispose()\n"
        "print(revisions.__file__, *revisions.OURS.numbers)"
    )
    file, *numbers = run(sys.executable, "-P", "-c", program, cwd=tmp_path).split()
    assert Path(file).is_relative_to(tmp_path / "installed")
    with sqlite3.connect(tmp_path / "ledger.db") as db:
        assert db.execute("SELECT version_num FROM alembic_version").fetchall() == [(numbers[-1],)]
    db.close()
    revisions = (ROOT / "calibrator/store/migrations/versions").glob("[0-9]*.py")
    assert numbers == sorted(path.name[:4] for path in revisions)


def test_the_source_distribution_makes_the_same_wheel(checkout: Path, wheel: Path) -> None:
    """Links are files there, and nothing of the tests or the evaluation is."""
    archive = build("build_sdist", checkout, checkout / "sdist")
    with tarfile.open(archive) as file:
        assert not [member.name for member in file if member.issym() or member.islnk()]
        assert not [name for name in file.getnames() if "/tests/" in name or "/evaluation/" in name]
        file.extractall(checkout / "unpacked", filter="data")
    (source,) = (checkout / "unpacked").iterdir()
    assert names(build("build_wheel", source, checkout / "from-sdist")) == names(wheel)


def test_the_evaluation_is_a_distribution_of_its_own(evaluation_wheel: Path) -> None:
    """It holds hushmq.evaluation whole and nothing else, for the version of hushmq it was made with."""
    assert names(evaluation_wheel) == in_checkout("evaluation")
    version = EVALUATION["project"]["version"]
    assert version == PROJECT["version"]
    assert f"hushmq[calibrator]=={version}" in EVALUATION["project"]["dependencies"]
    assert PROJECT["optional-dependencies"]["evaluation"] == [f"hushmq-evaluation=={version}"]


def test_the_libraries_of_the_evaluation_are_those_of_a_checkout() -> None:
    """`pip install -e '.[dev]'` brings them without an index that has hushmq-evaluation."""
    dev = PROJECT["optional-dependencies"]["dev"]
    assert not [line for line in dev if "evaluation" in line]
    ours = {line for line in EVALUATION["project"]["dependencies"] if not line.startswith("hushmq")}
    assert ours <= set(dev)


def required(name: str) -> Iterator[str]:
    """The distributions that one needs, by way of others included."""
    yield name
    for line in distribution(name).requires or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield from required(requirement.name)


def offer(name: str, site: Path) -> None:
    """Let an environment have a distribution of this one, by links."""
    found = distribution(name)
    for top in {file.parts[0] for file in found.files or () if file.parts[0] not in {"..", "__pycache__"}}:
        if not (site / top).exists():
            (site / top).symlink_to(str(found.locate_file(top)))


class Environment:
    """A virtual environment without pip."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.folder, self.python = folder, folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python3*/site-packages")

    def install(self, *wheels: Path) -> None:
        run(
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"),
            *("--target", self.site, *wheels),
            cwd=self.folder,
        )

    def run(self, *words: str, code: int = 0) -> str:
        return run(self.python, *words, cwd=self.folder, code=code)


@pytest.fixture(scope="module")
def device(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with hushmq and what it requires without any extra."""
    environment = Environment(tmp_path_factory.mktemp("device"))
    environment.install(wheel)
    needed = {name for line in PROJECT["dependencies"] for name in required(Requirement(line).name)}
    for name in needed:
        offer(name, environment.site)
    return environment


def test_a_device_has_one_module_that_works(device: Environment) -> None:
    """With the four dependencies alone the command line and the agent load; parts have no names of their own."""
    assert "the daemon on a device" in device.run("-m", "hushmq", "--help")
    assert "run the daemon" in device.run("-m", "hushmq", "agent", "--help")
    device.run("-c", "import hushmq.agent.daemon, hushmq.pufferfish")
    for name in ("agent", "broker", "calibrator", "console", "evaluation", "pufferfish"):
        assert f"No module named {name!r}" in device.run("-c", f"import {name}", code=1)


def test_a_device_is_told_how_to_get_the_evaluation(device: Environment) -> None:
    """One line, exit code 2."""
    assert device.run("-m", "hushmq", "evaluate", code=2) == (
        "hushmq: 'hushmq evaluate' needs hushmq.evaluation, which is not installed: "
        "pip install 'hushmq[evaluation]'\n"
    )


def test_the_evaluation_joins_an_installed_hushmq(
    tmp_path: Path, wheel: Path, evaluation_wheel: Path
) -> None:
    """Both wheels in one environment: hushmq.evaluation is there beside the rest."""
    environment = Environment(tmp_path / "bench")
    environment.install(wheel, evaluation_wheel)
    program = "import hushmq.evaluation.papers, hushmq.pufferfish; print(hushmq.evaluation.__file__)"
    assert Path(environment.run("-c", program).strip()).parent == environment.site / "hushmq" / "evaluation"


def test_an_installed_calibrator_makes_its_database(tmp_path: Path, wheel: Path) -> None:
    """The migrations are found in the installed package, and a ledger opens."""
    environment = Environment(tmp_path / "server")
    environment.install(wheel)
    for line in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["calibrator"]):
        for name in required(Requirement(line).name):
            offer(name, environment.site)
    program = (
        "from hushmq import Ledger\nfrom hushmq.calibrator.store.open_database import open_store\n"
        "open_store('sqlite:///ledger.db').dispose()\nprint(Ledger('ledger.db').verify())"
    )
    assert environment.run("-c", program) == "[]\n"


def test_mypy_sees_an_editable_install_from_elsewhere(tmp_path: Path, checkout: Path) -> None:
    """A user's program is checked against hushmq's own types: no missing stubs, no Any."""
    environment = Environment(tmp_path / "editable")
    environment.install(build("build_editable", checkout, tmp_path / "dist"))
    program = tmp_path / "elsewhere" / "program.py"
    program.parent.mkdir()
    program.write_text(
        "from hushmq.agent.sources.parse_value import Reader\n"
        "from hushmq.pufferfish.noise.discrete_laplace import discrete_laplace\n"
        "reveal_type(Reader)\nreveal_type(discrete_laplace)\n"
    )
    said = run(
        *(sys.executable, "-m", "mypy", "--strict", "--python-executable", environment.python),
        *("--cache-dir", os.devnull, program.name),
        cwd=program.parent,
    )
    assert "Success" in said
    assert 'Revealed type is "def' in said
    assert "Any" not in said
