"""Build a Debian package of hushmq: `python deploy/debian/build_deb.py agent|site [--architecture ARCHITECTURE]`.

`hushmq-agent` is for a device, `hushmq-site` for the machine of broker and calibrator; the second contains the first
and replaces it. Debian 12 has older versions of our libraries than we need, so a package carries its own, below
/usr/lib/hushmq, from the wheels that constraints.txt names; it needs Debian's Python 3.11 and nothing else. That makes
it a package for one architecture. Wheels exist for amd64 and arm64, for armhf those of the agent (numpy has none), and
are put together on any machine: nothing is compiled and nothing of the other architecture is run. /usr/lib/hushmq is a
virtual environment of Debian's Python: processes that hushmq starts find the same modules, and no other program does.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path("usr/lib/hushmq")
PLATFORMS = {
    "amd64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "arm64": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    "armhf": ("manylinux_2_31_armv7l", "manylinux_2_17_armv7l", "manylinux2014_armv7l"),
}
"""By architecture of Debian: the wheels that run there; Debian 12 has glibc 2.36."""
EXTRAS = {"agent": "serial", "site": "demo,postgres,serial"}
UNITS = {"agent": ("agent",), "site": ("agent", "broker", "calibrator")}
SUMMARIES = {
    "agent": "privacy agent for sensors: noise on the device, MQTT out",
    "site": "broker, calibrator and agent of a hushmq site",
}
PYTHON = "/usr/lib/hushmq/bin/python3"
LAUNCHER = f"""#!{PYTHON} -I
import sys

from hushmq.__main__ import main

sys.exit(main())
"""


def build(name: str, architecture: str, out: Path) -> Path:
    """Build one package; return its file."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        _make_environment(name, architecture, Path(folder), tree / LIBRARY)
        _write(tree / "usr/bin/hushmq", LAUNCHER, mode=0o755)
        for unit in UNITS[name]:
            text = (ROOT / f"deploy/systemd/hushmq-{unit}.service").read_text(encoding="utf-8")
            _write(
                tree / f"usr/lib/systemd/system/hushmq-{unit}.service",
                text.replace("/opt/hushmq/bin/", "/usr/bin/"),
            )
        _write_manuals(name, tree)
        _write(tree / f"usr/share/doc/hushmq-{name}/copyright", (ROOT / "LICENSE").read_text("utf-8"))
        _write_control(name, architecture, tree)
        out.mkdir(parents=True, exist_ok=True)
        package = out / f"hushmq-{name}_{version('hushmq')}_{architecture}.deb"
        # Files belong to root in the package, whoever builds it.
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zzstd", "--build", tree, package],
            check=True,
            stdout=sys.stderr,
        )
        return package


def _make_environment(name: str, architecture: str, work: Path, environment: Path) -> None:
    """Make a virtual environment of Debian's Python with hushmq and the wheels that it needs on that architecture."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    # A used checkout has modules in build/ that were renamed since: the wheel is made from a copy without it.
    source, unpacked = work / "source", work / "unpacked"
    shutil.copytree(ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(".*", "build", "results"))
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", work, source], check=True)
    (wheel,) = work.glob("hushmq-*.whl")
    options = ["--only-binary=:all:", "--python-version=3.11", f"--constraint={ROOT / 'constraints.txt'}"]
    options += [f"--platform={platform}" for platform in PLATFORMS[architecture]]
    wanted = f"{wheel}[{EXTRAS[name]}]"
    subprocess.run([*pip, "install", f"--target={unpacked}", "--no-compile", *options, wanted], check=True)
    programs = environment / "bin"
    programs.mkdir(parents=True)
    (programs / "python3").symlink_to("/usr/bin/python3")
    if name == "site":
        shutil.move(unpacked / "bin" / "nats-server", programs / "nats-server")
    shutil.rmtree(unpacked / "bin", ignore_errors=True)
    packages = environment / "lib/python3.11/site-packages"
    packages.parent.mkdir(parents=True)
    shutil.move(unpacked, packages)
    _write(environment / "pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")


def _write_manuals(name: str, tree: Path) -> None:
    """Man pages and completion, from the parsers of the checkout that builds."""
    pages = tree / "usr/share/man/man1"
    subprocess.run([sys.executable, "-m", "hushmq.documents.man_pages", pages], check=True)
    for page in pages.iterdir():
        if name == "agent" and page.name not in {"hushmq.1", "hushmq-agent.1", "hushmq-keys.1"}:
            page.unlink()
            continue
        subprocess.run(["gzip", "--best", "--no-name", page], check=True)
    for shell, place in (
        ("bash", "bash-completion/completions/hushmq"),
        ("zsh", "zsh/vendor-completions/_hushmq"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "hushmq", "completion", shell], check=True, capture_output=True, text=True
        )
        _write(tree / "usr/share" / place, done.stdout)


def _write_control(name: str, architecture: str, tree: Path) -> None:
    size = sum(file.lstat().st_size for file in tree.rglob("*") if file.is_file()) // 1024
    other = (
        "Conflicts: hushmq-site\n"
        if name == "agent"
        else "Conflicts: hushmq-agent\nReplaces: hushmq-agent\nProvides: hushmq-agent\n"
    )
    _write(
        tree / "DEBIAN/control",
        f"Package: hushmq-{name}\nVersion: {version('hushmq')}\nArchitecture: {architecture}\n"
        "Maintainer: hushmq maintainers <maintainers@hushmq.invalid>\n"
        f"Installed-Size: {size}\nDepends: python3 (>= 3.11), python3 (<< 3.12), adduser\n{other}"
        "Section: net\nPriority: optional\n"
        f"Description: {SUMMARIES[name]}\n"
        " Adds calibrated noise to every sample before it leaves a device over MQTT, so that\n"
        " what anyone can infer about one instant stays within a stated budget.\n",
    )
    units = " ".join(f"hushmq-{unit}.service" for unit in UNITS[name])
    for script in ("postinst", "prerm", "postrm"):
        text = (ROOT / f"deploy/debian/{script}").read_text(encoding="utf-8")
        _write(tree / f"DEBIAN/{script}", text.replace("@UNITS@", units), mode=0o755)


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def main() -> int:
    """Build the package that the command line names and print its path."""
    parser = argparse.ArgumentParser(prog="build_deb.py", description="Build a Debian package of hushmq.")
    parser.add_argument(
        "name", choices=EXTRAS, help="agent: for a device; site: broker, calibrator and agent"
    )
    parser.add_argument(
        "--architecture", choices=PLATFORMS, default="amd64", help="Debian's name of it (default amd64)"
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build/deb", metavar="FOLDER", help="default build/deb"
    )
    args = parser.parse_args()
    print(build(args.name, args.architecture, args.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
