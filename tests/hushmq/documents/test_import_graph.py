"""The import graph: which folder uses which, and what is drawn of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.documents.import_graph import composed, drawn, folder_graph, frames, packages_graph

FILES = {
    "agent/daemon.py": "from hushmq.agent.storage.outbox import Outbox\nimport hushmq.broker.mqtt.link\n",
    "agent/tick.py": "",
    "agent/storage/outbox.py": "from hushmq.agent import tick\n",
    "broker/mqtt/link.py": "import socket\n",
    "hushmq/__main__.py": "def main():\n    from hushmq.agent.daemon import Agent\n",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of a few modules."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_folders_import_folders(repository: Path) -> None:
    """Imports anywhere in a module count; a module at the top that lies below a folder is a box of its own."""
    sizes, graph = folder_graph(repository)
    assert sizes == {"agent": 1, "agent/tick.py": 1, "agent/storage": 1, "broker/mqtt": 1, "hushmq": 1}
    assert graph == {
        "hushmq": {"agent"},
        "agent": {"agent/storage", "broker/mqtt"},
        "agent/storage": {"agent/tick.py"},
        "agent/tick.py": set(),
        "broker/mqtt": set(),
    }
    assert packages_graph(sizes, graph)[1] == {"hushmq": {"agent"}, "agent": {"broker"}, "broker": set()}
    packages, _, agent, *_ = frames(sizes, graph)
    assert '"agent" -> "broker"' in packages
    assert '"agent/storage" -> "agent/tick.py"' in agent


def test_what_follows_is_left_out_and_cycles_are_marked() -> None:
    """a → c follows from a → b → c; b and c would be a cycle with c → b, and then every arrow of it is drawn."""
    assert list(drawn({"a": {"b", "c"}, "b": {"c"}, "c": set()})) == [("a", "b", False), ("b", "c", False)]
    assert {("b", "c", True), ("c", "b", True)} <= set(drawn({"a": {"b", "c"}, "b": {"c"}, "c": {"b"}}))


def test_pictures_are_put_in_rows() -> None:
    """A picture that would be too far to the right begins a new row below the highest of the one before."""
    one = composed(['<svg width="60pt" height="40pt"></svg>'] * 3, width=130, gap=10)
    assert 'viewBox="0 0 130 90"' in one
    assert [(f'x="{x}" y="{y}"' in one) for x, y in ((0, 0), (70, 0), (0, 50))] == [True] * 3
