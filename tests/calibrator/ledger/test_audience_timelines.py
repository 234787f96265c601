"""The public timeline: tilts on the same states are added first and amplified once."""

from __future__ import annotations

import itertools
import math

import pytest

from hushmq.calibrator.ledger.audience_timelines import public_timeline
from hushmq.calibrator.ledger.debits import Debit
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

THETA = BinaryTheta(0.2, 0.3, 0.25, 0.35)
NOISE = BinaryNoise(0.3, 0.25)


def exact_tilt(noise: BinaryNoise, *ws: float) -> float:
    """By enumeration: the largest log-ratio that outputs with tilts w of ONE sanitized bit give about the true bit.

    Each thing published from the bit is modelled as a bit flipped with the probability that has tilt w.
    """
    emission = {0: (1 - noise.rho0, noise.rho0), 1: (noise.rho1, 1 - noise.rho1)}
    best = 0.0
    for outputs in itertools.product((0, 1), repeat=len(ws)):
        likelihood = []
        for true in (0, 1):
            total = 0.0
            for bit in (0, 1):
                factor = emission[true][bit]
                for output, w in zip(outputs, ws, strict=True):
                    keep = 1 / (1 + math.exp(-w))
                    factor *= keep if output == bit else 1 - keep
                total += factor
            likelihood.append(total)
        best = max(best, abs(math.log(likelihood[0] / likelihood[1])))
    return best


@pytest.mark.parametrize("ws", [(0.2,), (0.2, 0.3), (0.1, 0.1, 0.4), (1.0, 1.0)])
def test_things_counted_from_the_same_states_are_amplified_together(ws: tuple[float, ...]) -> None:
    """The ledger's tilt of overlapping entries is the enumerated one."""
    debits = [Debit(10, 20, round(w * NANO), NOISE) for w in ws]
    (entry,) = public_timeline(debits)
    assert entry.tau0 == pytest.approx(exact_tilt(NOISE, *ws), rel=1e-9)


def test_amplifying_each_alone_would_fall_short() -> None:
    """There is noise behind which two things together tell more than the sum of what each tells alone."""
    lopsided = BinaryNoise(0.45, 0.1)
    (entry,) = public_timeline([Debit(10, 20, NANO // 5, lopsided), Debit(10, 20, NANO * 3 // 10, lopsided)])
    apart = lopsided.amplified(0.2) + lopsided.amplified(0.3)
    assert entry.tau0 == pytest.approx(exact_tilt(lopsided, 0.2, 0.3), rel=1e-9)
    assert apart < exact_tilt(lopsided, 0.2, 0.3) * 0.999


def test_overlaps_are_cut() -> None:
    """Two overlapping windows: three stretches, the middle one dearer than either."""
    one, two = Debit(0, 9, NANO // 10, NOISE), Debit(5, 14, NANO // 5, NOISE)
    left, middle, right = public_timeline([one, two])
    assert [(entry.first, entry.last) for entry in (left, middle, right)] == [(0, 4), (5, 9), (10, 14)]
    assert middle.tau0 > max(left.tau0, right.tau0)
    assert middle.tau0 == pytest.approx(exact_tilt(NOISE, 0.1, 0.2), rel=1e-9)
