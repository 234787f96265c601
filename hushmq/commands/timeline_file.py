"""A timeline of releases in a JSON file: a chain, how many ticks there are, and what each entry tilts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from hushmq.broker.contract.problem import Problem
from hushmq.commands.json_file import JsonObject, read_json
from hushmq.commands.regime_file import RegimesObject
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.timeline.entry import Entry

FORMAT = """TIMELINE.json, ticks counted from 1; an entry tilts each of its ticks, and tilts at one tick add up:
  {"q": 0.0893, "r": 0.1092, "ticks": 120,
   "entries": [{"first": 1, "last": 60, "tau": 0.05},
               {"first": 31, "last": 90, "tau0": 0.04, "tau1": 0.03}]}
Instead of q and r it may have "regimes", as in a file for hushmq calibrate --regimes."""

TILT = "a tilt in nats, a finite number, 0 or more"
Tilt = Annotated[float, Field(ge=0, description=TILT)]


class EntryObject(JsonObject):
    """One entry of the file, with one tilt or with one for each direction."""

    first: int = Field(description="a tick")
    last: int = Field(description="a tick")
    tau: Tilt = 0.0
    tau0: Tilt = 0.0
    tau1: Tilt = 0.0

    def entry(self, where: str, ticks: int) -> Entry:
        """The entry; Problem where it lies outside the ticks, or has too many tilts or too few."""
        if not 1 <= self.first <= ticks:
            raise Problem(f"{where}: first: {self.first}; it must be a tick from 1 to {ticks}")
        if not self.first <= self.last <= ticks:
            raise Problem(
                f"{where}: last: {self.last}; it must be a tick from first, {self.first}, to {ticks}"
            )
        given = self.model_fields_set
        if "tau" in given and given & {"tau0", "tau1"}:
            raise Problem(f"{where}: give tau, or tau0 and tau1, not both")
        names = ("tau0", "tau1") if given & {"tau0", "tau1"} else ("tau", "tau")
        for name in names:
            if name not in given:
                raise Problem(f"{where}: {name}: missing; it must be {TILT}")
        return Entry(self.first, self.last, getattr(self, names[0]), getattr(self, names[1]))


class TimelineFile(JsonObject):
    """The whole file."""

    q: float | None = Field(
        default=None, gt=0, lt=1, description="a number above 0 and below 1, the chance per tick of 0→1"
    )
    r: float | None = Field(
        default=None, gt=0, lt=1, description="a number above 0 and below 1, the chance per tick of 1→0"
    )
    regimes: RegimesObject | None = Field(default=None, description="an object with transition and chains")
    ticks: int = Field(ge=1, description="a whole number, 1 or more")
    entries: list[EntryObject] = Field(description="a list of entries")


class History(NamedTuple):
    """A timeline as the file states it."""

    chain: BinaryTheta | RegimeChain
    ticks: int
    entries: list[Entry]


def read_history(path: Path) -> History:
    """The timeline in a file; Problem, which names the field, where it is wrong."""
    found = read_json(path, TimelineFile)
    entries = [one.entry(f"{path}: entries[{i}]", found.ticks) for i, one in enumerate(found.entries)]
    return History(_chain(path, found), found.ticks, entries)


def _chain(path: Path, found: TimelineFile) -> BinaryTheta | RegimeChain:
    if found.regimes is not None:
        if found.q is not None or found.r is not None:
            raise Problem(f"{path}: regimes: give either it, or q and r")
        return found.regimes.chain(str(path))
    if found.q is None or found.r is None:
        raise Problem(f"{path}: {'q' if found.q is None else 'r'}: missing; give q and r, or regimes")
    return BinaryTheta.point(found.q, found.r)
