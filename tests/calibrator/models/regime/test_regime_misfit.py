"""The misfit against two regimes: chance is not taken for one, and a third time scale is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hushmq.calibrator.models.regime.long_bands import LONG_BANDS
from hushmq.calibrator.models.regime.regime_evidence import RegimeEvidence
from hushmq.calibrator.models.regime.regime_fit import fit
from hushmq.calibrator.models.regime.regime_misfit import measure
from hushmq.pufferfish.binary.binary_noise import BinaryNoise

evaluation = pytest.importorskip("hushmq.evaluation.estimation.regime_coverage")
simulation = pytest.importorskip("hushmq.evaluation.estimation.sanitized_regimes")

NOISE = BinaryNoise(0.1, 0.1)
STRIDE, COUNT = 3, 40_000


def seen(states: NDArray[np.uint8], rng: np.random.Generator) -> RegimeEvidence:
    sums = simulation.counted(states, stride=STRIDE, window=STRIDE * COUNT)
    found: RegimeEvidence = simulation.evidence(
        sums, NOISE, charge=simulation.LearningCharge(2.0, 1), rng=rng
    )
    return found


def test_two_regimes_are_no_misfit() -> None:
    """Six sleepers' chains for a day: no band exceeds what chance explains, and those not counted say so."""
    rng = np.random.default_rng(6)
    chains = [evaluation.chain_of(evaluation.SLEEPERS[number]) for number in (0, 2, 4, 5, 9, 10)]
    observed = seen(simulation.sanitized(chains, NOISE, stride=STRIDE, count=COUNT, rng=rng), rng)
    found = fit(observed)
    assert found is not None
    misfit = measure(observed, found)
    assert misfit.worst is None
    assert [(band.first, band.last) for band in misfit.bands] == list(LONG_BANDS)
    assert misfit.bands[0].error > 100  # lag 1 is not published
    assert 0 < misfit.undetectable < 0.2


def test_a_third_time_scale_is_a_misfit() -> None:
    """Shares that change every 20, 300 and 4,000 ticks on average, independently: two regimes cannot have it all."""
    rng = np.random.default_rng(7)
    rows = []
    for _ in range(12):
        changes = (rng.random(COUNT) < STRIDE / lasting for lasting in (20, 300, 4_000))
        share = 0.5 + sum(0.16 * (-1.0) ** (np.cumsum(one) + rng.integers(2)) for one in changes)
        rows.append((rng.random(COUNT) < share).astype(np.uint8))
    observed = seen(np.array(rows), rng)
    found = fit(observed)
    assert found is not None
    assert measure(observed, found).worst is not None
