"""Witnesses against all paths of short chains."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss
from hushmq.pufferfish.witness.bit_witness import ObservedSide, Witness, best
from tests.pufferfish.oracles import local, path_probabilities, states

CHAINS = [
    (0.2, 0.2, BinaryNoise(0.1641457, 0.1641457)),
    (0.0893, 0.1092, BinaryNoise(0.35, 0.28)),
    (0.028, 0.402, BinaryNoise(0.4975, 0.0635)),
    (0.7, 0.6, BinaryNoise(0.2, 0.3)),
]
SIDES = [
    (ObservedSide(3), ObservedSide(3)),
    (ObservedSide(2, 1), ObservedSide(2, 1)),
    (ObservedSide(0, 0), ObservedSide(2)),
    (ObservedSide(1, 0), ObservedSide(2, 1)),
    (ObservedSide(0), ObservedSide(0)),
]
N, TICK = 7, 3


def enumerated(witness: Witness, noise: BinaryNoise, state: int) -> tuple[float, dict[bytes, float]]:
    """P(outputs | X_i = state, known), and the probability of each path through the ticks seen, from all paths."""
    x, probability = states(N), path_probabilities(witness.q, witness.r, N)
    first, last = TICK - witness.left.observed, TICK + witness.right.observed
    fits = x[TICK] == state
    for tick, known in ((first - 1, witness.left.known), (last + 1, witness.right.known)):
        fits &= (x[tick] == known) if known is not None else True
    weights = np.where(fits, probability, 0.0) / probability[fits].sum()
    noises = [(noise.rho0, noise.rho1) if first <= t <= last else None for t in range(N)]
    likelihood = local(noises)[int("".join(map(str, witness.outputs)), 2)]
    paths: dict[bytes, float] = {}
    for path, weight in zip(x.T, weights, strict=True):
        seen = bytes(path[first : last + 1].tolist())
        paths[seen] = paths.get(seen, 0.0) + float(weight)
    return float(likelihood @ weights), paths


@pytest.mark.parametrize(("q", "r", "noise"), CHAINS)
@pytest.mark.parametrize(("left", "right"), SIDES)
@pytest.mark.parametrize("state", [0, 1])
def test_likelihoods_and_paths(
    q: float, r: float, noise: BinaryNoise, left: ObservedSide, right: ObservedSide, state: int
) -> None:
    """Both likelihoods and the law of the paths are those of the full list of paths, to 1e-12."""
    witness = Witness(q, r, state, left, right)
    for given, found in zip((state, 1 - state), witness.likelihoods(noise), strict=True):
        expected, law = enumerated(witness, noise, given)
        assert found == pytest.approx(expected, rel=1e-12)
        paths, cumulated = witness.paths(given)
        assert cumulated[-1] == pytest.approx(1.0, abs=1e-12)
        for path, chance in zip(paths, np.diff(cumulated, prepend=0.0), strict=True):
            assert chance == pytest.approx(law[path], abs=1e-12)


@pytest.mark.parametrize(("q", "r", "noise"), CHAINS)
@pytest.mark.parametrize("adversary", ["prior", "informed"])
def test_a_witness_never_shows_more_than_the_loss_and_nearly_all_of_it(
    q: float, r: float, noise: BinaryNoise, adversary: Adversary
) -> None:
    """With no end of samples the best of thirteen ticks shows the loss to 2%; never more than it."""
    found = [
        best(q, r, noise, state, adversary, ticks=10**15, deviations=4.0).loss(noise) for state in (0, 1)
    ]
    whole = loss(BinaryTheta.point(q, r), tau0=noise.tau0, tau1=noise.tau1, adversary=adversary)
    assert 0.98 * whole < max(found) <= whole


def test_fewer_samples_see_fewer_ticks() -> None:
    """The length is what the samples can bear: a witness seen a hundred times beats one that is never seen."""
    lengths = [
        len(best(0.2, 0.2, BinaryNoise(0.4, 0.4), 0, "prior", ticks=10**power, deviations=3.0).outputs)
        for power in (3, 5, 7, 9)
    ]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


def test_the_cited_case() -> None:
    """docs/theory.md: θ=0.2, ε=4; zeros known three ticks away on both sides, outputs 1 in between: 4.3239."""
    witness = Witness(0.2, 0.2, 1, ObservedSide(2, 0), ObservedSide(2, 0))
    assert witness.outputs == b"\1\1\1\1\1"
    assert witness.loss(BinaryNoise(0.1641457, 0.1641457)) == pytest.approx(4.3239, abs=5e-5)
    assert math.isclose(sum(witness.likelihoods(BinaryNoise(0.5 - 1e-9, 0.5 - 1e-9))), 2 / 2**5, rel_tol=1e-6)
