"""CHAIN.json: a finite Θ of chains and the length of the stream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from hushmq.broker.contract.problem import Problem
from hushmq.commands.json_file import JsonObject, Numbers, read_json
from hushmq.pufferfish.quilt.markov_chain import SUM_TOLERANCE, Chain

FORMAT = """CHAIN.json, one chain or several of which the worst counts; initial null is the stationary
distribution, length null an endless stream (which is stationary):
  {"chains": [{"transition": [[0.9, 0.1], [0.3, 0.7]], "initial": null}], "length": 3600}"""


class ChainObject(JsonObject):
    """One chain of the file."""

    transition: list[Numbers] = Field(description="a list of rows, each a list of probabilities")
    initial: Numbers | None = Field(
        default=None, description="a list of probabilities, one for each state, or null: stationary"
    )

    def chain(self, where: str, *, endless: bool) -> Chain:
        """The chain; Problem where it is none, or does not fit an endless stream."""
        if len({len(row) for row in self.transition}) > 1:
            raise Problem(
                f"{where}: transition: rows of different lengths; it must be square, one row and column per state"
            )
        try:
            chain = Chain(self.transition, self.initial)
            if chain.initial is not None and not endless:
                return chain
            stationary = chain.stationary()
        except ValueError as error:
            raise Problem(f"{where}: {error}") from None
        if chain.initial is not None and not np.allclose(
            chain.initial, stationary, rtol=0, atol=SUM_TOLERANCE
        ):
            raise Problem(
                f"{where}: initial: an endless stream is stationary; give null, or give the stream a length"
            )
        return Chain(self.transition)


class ChainFile(JsonObject):
    """The whole file."""

    chains: list[ChainObject] = Field(description="a list of chains")
    length: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="a whole number of ticks, 1 or more, or null: without end"
    )


class Chains(NamedTuple):
    """The chains of a file and the length of the stream; None if it is endless."""

    chains: list[Chain]
    length: int | None


def read_chains(path: Path) -> Chains:
    """The chains of a chain file; Problem, which names the field, where it is wrong."""
    found = read_json(path, ChainFile)
    if not found.chains:
        raise Problem(f"{path}: chains: an empty list; give at least one chain")
    endless = found.length is None
    return Chains(
        [one.chain(f"{path}: chains[{i}]", endless=endless) for i, one in enumerate(found.chains)],
        found.length,
    )
