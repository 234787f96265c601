"""CHAIN.json: a finite class of chains and how long the stream is."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from hushmq.fields import Fields, read_object
from hushmq.pufferfish.quilt.markov_chain import SUM_TOLERANCE, Chain

FORMAT = """CHAIN.json, one chain or several of which the worst counts; initial null is the stationary
distribution, length null an endless stream (which is stationary):
  {"chains": [{"transition": [[0.9, 0.1], [0.3, 0.7]], "initial": null}], "length": 3600}"""


class Chains(NamedTuple):
    """The chains of a file and the length of the stream; None: without end."""

    chains: list[Chain]
    length: int | None


def read_chains(path: Path) -> Chains:
    """Read and check a chain file."""
    fields = read_object(path)
    fields.only(("chains", "length"))
    length = (
        None
        if fields.values.get("length") is None
        else fields.whole("length", "a whole number of ticks, 1 or more, or null: without end", low=1)
    )
    listed = fields.objects("chains", "a list of chains")
    if not listed:
        fields.refuse("chains", "an empty list; give at least one chain")
    return Chains([_chain(one, endless=length is None) for one in listed], length)


def _chain(fields: Fields, *, endless: bool) -> Chain:
    fields.only(("transition", "initial"))
    transition = fields.table("transition", "a list of rows, each a list of probabilities")
    initial = (
        None
        if fields.values.get("initial") is None
        else fields.numbers("initial", "a list of probabilities, one for each state, or null: stationary")
    )
    try:
        chain = Chain(transition, initial)
        if chain.initial is not None and not endless:
            return chain
        stationary = chain.stationary()
    except ValueError as error:
        fields.fail(str(error))
    if chain.initial is not None and not np.allclose(chain.initial, stationary, rtol=0, atol=SUM_TOLERANCE):
        fields.refuse("initial", "an endless stream is stationary; give null, or give the stream a length")
    return Chain(transition)
