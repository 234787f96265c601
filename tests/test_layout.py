"""Dependencies point one way, sub-package by sub-package, and a device installs little."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("pufferfish", "broker", "agent", "calibrator", "console", "evaluation", "hushmq")
"""The folders of our code; `hushmq` is the front door, whose modules stand directly in the installed package."""
ALLOWED = {
    "pufferfish": {"pufferfish"},
    "broker": {"broker", "pufferfish"},
    "agent": {"agent", "broker", "pufferfish"},
    "calibrator": {"calibrator", "broker", "pufferfish"},
    "console": {"console", "calibrator", "broker", "pufferfish"},
    # The evaluation is another distribution: the front door names it, and imports it when it is asked for.
    "hushmq": {"hushmq", "agent", "calibrator", "console", "broker", "pufferfish"},
}
ORDER = {
    "pufferfish": [
        *("adversary", "bisection", "false_position", "optional_numpy", "coupling", "inference"),
        *("window_method", "timeline"),
        *(
            "protocols",
            "deceived_loss",
            "undecided",
            "mobius",
            "categorical",
            "quilt",
            "binary",
            "thinning",
            "regimes",
        ),
        *("noise", "witness", "papers"),
    ],
    "broker": ["contract", "mqtt", "service", "provision", "reference", "forecast", "commands"],
    "agent": [
        *("storage", "watch", "sources", "agent_config", "agent_reference", "discretise", "perturb"),
        *("device_windows", "accept_settings", "stream", "streams", "publish", "device_report"),
        *("device_status", "status_socket", "metrics_server", "daemon", "log_failure", "enroll_device"),
        "agent_commands",
    ],
    "calibrator": [
        *(
            "calibrator_config",
            "calibrator_reference",
            "store",
            "fleet_config",
            "fleet_reference",
            "policy",
            "roster",
            "models",
            "learning",
            "ledger",
        ),
        *(
            "settings",
            "windows",
            "ingest",
            "publish",
            "cohort",
            "health_report",
            "make_report",
            "health_server",
        ),
        *("serve_cohort", "work_loop", "daemon", "run_calibrator", "fleet"),
        "commands",
    ],
    "console": [
        *(
            "console_config",
            "console_reference",
            "pages_text",
            "access",
            "activity",
            "store",
            "state",
            "charts",
        ),
        *("background", "pages", "daemon", "init_console", "console_commands"),
    ],
    "evaluation": [
        *("section_report", "evaluation_progress", "section_list", "results_folder", "recordings", "fetch"),
        *("section_runner", "published_results", "results_page", "paper_document"),
        *("attackers", "replay", "estimation", "benchmarks", "sections"),
        *("attacks", "papers", "evaluate_command"),
    ],
    "hushmq": [
        *(
            "verify",
            "commands",
            "explain",
            "ledger_command",
            "audit",
            "plan",
            "capacity",
            "setup",
            "demo",
            "api",
            "releases_command",
            "__main__",
        ),
        "documents",
    ],
}
"""By part: its sub-packages and the modules beside them. Each may import those that stand before it, none after."""
EFFECTS = {"socket", "threading", "time", "logging", "structlog", "sqlite3", "subprocess", "tomllib", "paho"}
COMMON = {"__init__.py", "__main__.py", "daemon.py"}
"""File names that may stand more than once."""


def files(part: str) -> list[Path]:
    found = sorted((ROOT / part).rglob("*.py"))
    assert found, part
    return found


def imported(path: Path) -> set[str]:
    """The full names of everything that a file imports anywhere: modules, and names in them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def place(module: str) -> tuple[str, str] | None:
    """The part of our code that a module is in, and the sub-package or module of that part; None for a library."""
    top, *rest = module.split(".")
    if top != "hushmq" or not rest:
        return None
    part, below = (rest[0], rest[1:]) if rest[0] in PARTS else ("hushmq", rest)
    return part, below[0] if below else ""


def top(module: str) -> str:
    """The part of our code, or the library, that a module belongs to."""
    where = place(module)
    return where[0] if where else module.split(".", maxsplit=1)[0]


def graph(part: str) -> dict[str, set[str]]:
    """Which sub-packages and modules of a part each of them imports."""
    found: dict[str, set[str]] = {}
    for file in files(part):
        mine = file.relative_to(ROOT / part).parts[0].removesuffix(".py")
        targets = {where[1] for module in imported(file) if (where := place(module)) and where[0] == part}
        found.setdefault(mine, set()).update(targets - {mine})
    members = set(found)
    return {mine: targets & members for mine, targets in found.items() if mine != "__init__"}


@pytest.mark.parametrize("part", ALLOWED)
def test_dependencies_point_one_way(part: str) -> None:
    """Agent and calibrator use broker and pufferfish, the console what the calibrator stored; nothing uses them."""
    for file in files(part):
        assert {top(module) for module in imported(file)} & set(PARTS) <= ALLOWED[part], file


@pytest.mark.parametrize("part", PARTS)
def test_sub_packages_are_in_order(part: str) -> None:
    """Each sub-package imports only those before it: there is no cycle, and a new one must be given its place."""
    order = ORDER[part]
    assert set(graph(part)) == set(order)
    for mine, targets in graph(part).items():
        assert targets <= set(order[: order.index(mine)]), mine


def test_the_order_is_checked() -> None:
    """A sub-package that imports one that imports it is found: the graph holds both directions of a cycle."""
    found = graph("evaluation")
    assert "attackers" in found["sections"]
    assert "sections" not in found["attackers"]


def test_one_top_level_module() -> None:
    """Nothing imports `agent`, `broker` and so on: they are installed below `hushmq`."""
    for folder in (*PARTS, "tests"):
        for file in files(folder):
            tops = {module.split(".")[0] for module in imported(file)}
            assert not tops & (set(PARTS) - {"hushmq"}), file


def test_a_file_name_stands_for_one_thing() -> None:
    """No two files of our code have the same name, but the few that every package has."""
    names = Counter(file.name for part in PARTS for file in files(part))
    assert {name for name, count in names.items() if count > 1} <= COMMON


def test_the_mathematics_is_pure() -> None:
    """Pufferfish has no clock, network, thread, log or configuration."""
    for file in files("pufferfish"):
        assert not {top(module) for module in imported(file)} & EFFECTS, file


def test_the_checker_stands_alone() -> None:
    """Whoever checks the mathematics must not use it: the standard library and Ed25519 alone, but for its command."""
    checker = [file for file in files("hushmq") if file.parent.name == "verify"]
    assert len(checker) > 10
    for file in checker:
        ours = {module for module in imported(file) if place(module)}
        libraries = {module.split(".")[0] for module in imported(file) - ours} - set(sys.stdlib_module_names)
        strangers = {module for module in ours if not module.startswith("hushmq.verify.")}
        if file.name == "verify_command.py":
            strangers -= {"hushmq.broker.contract.problem.Problem"}
        assert not strangers, file
        assert libraries <= {"cryptography"}, file


LIGHT = [
    "hushmq.pufferfish.binary.stream_loss",
    "hushmq.pufferfish.binary.binary_timeline",
    "hushmq.pufferfish.binary.binary_window",
    "hushmq.pufferfish.protocols",
    "hushmq.pufferfish.noise.perturber",
    "hushmq.pufferfish.noise.discrete_laplace",
    "hushmq.pufferfish.papers.cgssy",
    "hushmq.pufferfish.categorical.contraction",
    "hushmq.pufferfish.categorical.categorical_noise",
    "hushmq.pufferfish.categorical.categorical_window",
    "hushmq.pufferfish.categorical.categorical_timeline",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        *LIGHT,
        "hushmq.agent.agent_commands",
        "hushmq.agent.daemon",
        "hushmq.broker.commands.broker_commands",
        "hushmq.broker.mqtt.connection",
        "hushmq.__main__",
    ],
)
def test_what_a_device_runs_needs_no_numpy(module: str) -> None:
    """The agent and the mathematics it checks settings with import neither numpy nor anything of an extra."""
    heavy = ["numpy", "scipy", "opendp", "sqlalchemy", "matplotlib", "prometheus_client"]
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_calibrator_begins_without_numpy() -> None:
    """The daemon imports numpy and the chain models when a policy names a stream, and is there sooner."""
    code = "import sys, hushmq.calibrator.daemon; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"


def test_a_device_installs_four_packages() -> None:
    """MQTT, messages, events, signatures: everything else is an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {requirement.split(">")[0] for requirement in project["dependencies"]}
    assert names == {"paho-mqtt", "pydantic", "structlog", "cryptography"}
    assert {"calibrator", "postgres", "evaluation", "dev"} <= set(project["optional-dependencies"])
