"""REGIMES.json: a chain with hidden regimes."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hushmq.broker.contract.problem import Problem
from hushmq.commands.json_file import JsonObject, Numbers, read_json
from hushmq.pufferfish.regimes.regime_chain import RegimeChain


class ChainWithin(JsonObject):
    """The chain within one regime."""

    q: float = Field(gt=0, lt=1, description="a number above 0 and below 1, the chance per tick of 0→1")
    r: float = Field(gt=0, lt=1, description="a number above 0 and below 1, the chance per tick of 1→0")


class RegimesObject(JsonObject):
    """The regimes of one chain."""

    transition: list[Numbers] = Field(description="a list of rows, each a list of probabilities")
    chains: list[ChainWithin] = Field(description="a list of objects with q and r, one for each regime")

    def chain(self, where: str) -> RegimeChain:
        """The chain; Problem where it is none."""
        try:
            return RegimeChain.of(self.transition, [(one.q, one.r) for one in self.chains])
        except ValueError as error:
            raise Problem(f"{where}: regimes: {error}") from None


class RegimesFile(JsonObject):
    """The whole file."""

    regimes: RegimesObject = Field(description="an object with transition and chains")


def read_regimes(path: Path) -> RegimeChain:
    """The chain in a file; Problem, which names the field, where it is wrong."""
    return read_json(path, RegimesFile).regimes.chain(str(path))
