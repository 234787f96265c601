"""No run is passed over whose loss exceeds the bound it was passed over for."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.changing_chain import changing_chains
from hushmq.pufferfish.mobius.changing_search import ChangingSearch, _largest_in_run
from hushmq.pufferfish.mobius.open_runs import OpenRuns
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, nats_of, to_nats


@pytest.mark.parametrize("adversary", ["prior", "informed"])
@pytest.mark.parametrize("q", [0.1, 1e-3, 1e-6])
def test_bounds_hold_in_runs_of_every_length(q: float, adversary: Adversary) -> None:
    """The bounds on all runs at once, and each by itself, are no less than the largest loss of the run.

    That they leave runs out is the use of them: the search looks at fewer than half, and finds the largest loss of all.
    """
    rng, theta = random.Random(5), BinaryTheta(q, 0.45, q, 0.45)
    scale, first, pieces = min(theta.largest_tilts(3.0, "prior")) * 2.0**60, 0, []
    for _ in range(120):
        length = round(10 ** rng.uniform(0, 6))
        tilt = int(scale * rng.uniform(0.3, 1.0))
        pieces.append((first, first + length - 1, tilt, tilt))
        first += length
    runs = TiltRuns(pieces)
    search = ChangingSearch(partial(changing_chains, theta, adversary)).up_to(runs.tilts)
    found = search.searched(runs)
    chain, one, maps = search._chains[0], found.passes[0], search._maps
    opened = OpenRuns(chain, maps, one.numbers, one.before, one.after, 0.0)
    bounds = opened._many_below_first_steps(np, np.arange(len(pieces)))
    truths = []
    for i, number in enumerate(one.numbers):
        tau, length = maps.shape(number)
        largest, _ = _largest_in_run(
            chain, tau, length - 1, one.before[i], one.after[i + 1], rising=opened.rising(i)
        )
        truths.append(tau + largest)
        assert truths[-1] <= bounds[i]
        assert not opened.rising(i) or truths[-1] <= opened._below_first_steps(i)
    assert max(truths) <= found.largest[0] + found.tolerance <= max(truths) * (1 + 1e-9)

    looked_at, loss = 0, max(truths)
    while (i := opened.next(loss)) is not None:
        looked_at += 1
        opened.searched(i, truths[i], loss)
    assert looked_at < len(pieces) / 2


def test_many_tilts_are_the_same_nats_as_each_by_itself() -> None:
    """Small and large ones, next to powers of two, and beyond the integers of numpy."""
    rng = random.Random(2)
    tilts = [0, 1, 2**53 + 1, 2**60 - 1, *(rng.getrandbits(rng.randint(1, 61)) for _ in range(200))]
    assert nats_of(tilts) == [to_nats(tilt) for tilt in tilts]
    tilts.append(2**70 + 1)
    assert nats_of(tilts) == [to_nats(tilt) for tilt in tilts]
