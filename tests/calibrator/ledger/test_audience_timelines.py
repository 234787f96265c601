"""The public account: amplified once, within budget for ever, never under-charged."""

from __future__ import annotations

import itertools
import math

import pytest

from hushmq.broker.contract.messages import Assumption, Audiences, StreamPolicy, Threshold, Window
from hushmq.broker.contract.theta_message import BinaryTheta, theta_of
from hushmq.calibrator.ledger.audience_timelines import (
    NANO,
    Debit,
    price_public,
    public_timeline,
    scale_for,
    spending,
)
from hushmq.pufferfish.binary.amplification import amplified
from hushmq.pufferfish.binary.stream_loss import Box, Noise

THETA = Box(0.2, 0.3, 0.25, 0.35)
NOISE = Noise(0.3, 0.25)


def theta_message(box: Box) -> BinaryTheta:
    return theta_of(box)


def policy(*windows: int, public: float = 1.0, learning: float = 0.4) -> StreamPolicy:
    return StreamPolicy(
        states=("off", "on"),
        period_ms=1000,
        discretiser=Threshold(at=1.0),
        theta=Assumption(start=theta_message(THETA), floor=theta_message(THETA)),
        epsilon=Audiences(operator=4.0, public=public),
        windows={f"w{ticks}": Window(ticks=ticks) for ticks in windows},
        learning=learning,
    )


def exact_tilt(noise: Noise, *ws: float) -> float:
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
    lopsided = Noise(0.45, 0.1)
    (entry,) = public_timeline([Debit(10, 20, NANO // 5, lopsided), Debit(10, 20, NANO * 3 // 10, lopsided)])
    apart = amplified(lopsided, 0.2) + amplified(lopsided, 0.3)
    assert entry.tau0 == pytest.approx(exact_tilt(lopsided, 0.2, 0.3), rel=1e-9)
    assert apart < exact_tilt(lopsided, 0.2, 0.3) * 0.999


def test_overlaps_are_cut() -> None:
    """Two overlapping windows: three stretches, the middle one dearer than either."""
    one, two = Debit(0, 9, NANO // 10, NOISE), Debit(5, 14, NANO // 5, NOISE)
    left, middle, right = public_timeline([one, two])
    assert [(entry.first, entry.last) for entry in (left, middle, right)] == [(0, 4), (5, 9), (10, 14)]
    assert middle.tau0 > max(left.tau0, right.tau0)
    assert middle.tau0 == pytest.approx(exact_tilt(NOISE, 0.1, 0.2), rel=1e-9)


@pytest.mark.parametrize("windows", [(50,), (20, 60)])
def test_tumbling_windows_for_ever_cost_the_budget_once(windows: tuple[int, ...]) -> None:
    """What `spending` grants keeps a long tumbling sequence within ε, and uses nearly all of it."""
    stream = policy(*windows)
    debits = []
    for ticks in windows:
        spent = spending(stream, f"w{ticks}", theta=THETA, noises=[NOISE])
        debits += [Debit(n * ticks, (n + 1) * ticks - 1, spent.tilt, NOISE) for n in range(240 // ticks)]
    loss = price_public(debits, THETA, stream).epsilon
    assert loss <= stream.epsilon.public
    assert loss > 0.99 * stream.epsilon.public
    dearer = [Debit(d.first, d.last, d.tilt * 102 // 100, d.noise) for d in debits]
    assert price_public(dearer, THETA, stream).epsilon > stream.epsilon.public


def test_the_worst_noise_counts() -> None:
    """With two noise settings in a window, the tilt suits the one that protects least."""
    stream = policy(50)
    both = spending(stream, "w50", theta=THETA, noises=[NOISE, Noise(0.1, 0.1)])
    assert both.tilt == spending(stream, "w50", theta=THETA, noises=[Noise(0.1, 0.1)]).tilt
    assert both.tilt < spending(stream, "w50", theta=THETA, noises=[NOISE]).tilt


def test_a_scale_never_costs_more_than_its_tilt() -> None:
    """Rounding goes to more noise."""
    for tilt in (1, 7, 333_333_333, NANO, 5 * NANO + 1):
        assert 3 / scale_for(3, tilt) <= tilt / NANO
