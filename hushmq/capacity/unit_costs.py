"""Unit costs: what one batch, window or release takes on a machine, as they were measured there."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.broker_process import write_private

FORMAT = 1
PUBLISHED = "unit_costs.json"
"""The file in this package."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and when costs were measured."""

    at: str
    processor: str
    cores: int
    system: str
    python: str
    hushmq: str

    def words(self) -> str:
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return f"{self.at[:10]} on {self.processor}, {cores}, {self.system}, Python {self.python}, hushmq {self.hushmq}"


@dataclass(frozen=True, slots=True)
class DatabaseCosts:
    """What the calibrator and its database take; seconds are those of a processor, `server_…` those of PostgreSQL's."""

    batch_s: float
    """To receive, count and acknowledge a batch, everything included but the transaction."""
    turn_s: float
    """For a transaction that counts batches, however many."""
    server_batch_s: float
    server_turn_s: float
    state_s: float
    """For each state in a batch beyond the first ones."""
    window_s: float
    """To close a window, whatever it counts."""
    window_device_s: float
    """For each device that a window of the cohort counts."""
    release_s: float
    """For each device of a window that has a release for each."""
    server_release_s: float
    entry_bytes: float
    """Of a ledger entry on disk, indexes included."""
    release_bytes: float
    """Of a release of two states, indexes included."""
    release_state_bytes: float
    """For each further state."""
    batch_bytes: float
    """Of a counted batch that windows still need, without its states."""
    device_bytes: float
    """Of the rows that a device has for ever, for each stream."""


@dataclass(frozen=True, slots=True)
class BrokerCosts:
    """What a broker takes."""

    batch_s: float
    """To carry a batch to the calibrator and `seen` back, with acknowledgements, stored on disk."""
    connection_bytes: float
    """Memory for each connected device."""


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """All of them."""

    machine: Machine
    databases: dict[str, DatabaseCosts]
    brokers: dict[str, BrokerCosts]
    worker_bytes: float
    """Memory of a calibrator before any device comes."""
    device_memory_bytes: float
    """Memory of a calibrator for each device."""
    archived_share: float
    """Size of a release in an archive, of its size in the database."""

    def as_tree(self) -> dict[str, Any]:
        return {"costs": FORMAT, **asdict(self)}


def from_tree(tree: Any) -> UnitCosts:
    """The costs in a tree; ValueError where it is none of ours, or has something that is no cost."""
    if not isinstance(tree, dict) or tree.get("costs") != FORMAT:
        raise ValueError("it has no unit costs of format 1")
    try:
        found = UnitCosts(
            Machine(**tree["machine"]),
            {name: DatabaseCosts(**one) for name, one in tree["databases"].items()},
            {name: BrokerCosts(**one) for name, one in tree["brokers"].items()},
            tree["worker_bytes"],
            tree["device_memory_bytes"],
            tree["archived_share"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it lacks a cost, or has one that nobody knows: {error}") from None
    for part in (tree, *tree["databases"].values(), *tree["brokers"].values()):
        for name, value in part.items():
            if name not in {"machine", "databases", "brokers"} and not _is_cost(value):
                raise ValueError(f"{name} is {value!r}, and not a number from 0 on")
    return found


def _is_cost(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def default_path() -> Path:
    """Where `--measure` writes: for this user and machine."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "hushmq" / "unit-costs.json"


def published_costs() -> UnitCosts:
    """Those that came with the package."""
    return from_tree(json.loads(files(__package__).joinpath(PUBLISHED).read_text(encoding="utf-8")))


def read_costs(path: Path | None) -> tuple[UnitCosts, str]:
    """The costs in a file, in this machine's, or published; and which, in words. Problem where a file is damaged."""
    chosen = path or default_path()
    if path is None and not chosen.is_file():
        return published_costs(), "published with hushmq, and not of this machine: hushmq capacity --measure"
    try:
        return from_tree(json.loads(chosen.read_text(encoding="utf-8"))), f"from {chosen}"
    except OSError as error:
        raise Problem(f"--costs: {chosen}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Problem(f"--costs: {chosen}: {error}: measure again with hushmq capacity --measure") from None


def write_costs(path: Path, costs: UnitCosts) -> None:
    """Replace a file of costs; Problem where that is not possible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, json.dumps(costs.as_tree(), indent=1) + "\n")
    except OSError as error:
        raise Problem(f"--costs: {path}: {error.strerror}") from None
