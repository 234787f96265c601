"""A black-box audit of released histograms: what draws show of two neighbours is within the charge.

Thousands of devices have the same states, and thousands of others have them with one changed. How often an outcome
occurs among the releases of either bounds the real tilt from below, whatever the code does in between. At an error of
1e-6 it must stay within what is charged; noise of a scale 30% too small must be refuted.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta

from hushmq.calibrator.models.binary import binary_count
from hushmq.calibrator.models.categorical import categorical_count
from hushmq.calibrator.policy.nano_nats import scale_for
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise

DEVICES = 12_000
TILT = 700_000_000
ERROR = 1e-6
ONE, OTHER = b"\0\1\0\1", b"\0\1\1\1"


def released(states: bytes, k: int) -> NDArray[np.int64]:
    """The noisy counts of many devices with these sanitized states."""
    pieces = {(f"d{number}", 1): [(0, states)] for number in range(DEVICES)}
    if k == 2:
        found = binary_count.count_binary(pieces).histograms({1: BinaryNoise(0.2, 0.3)}, tilt=TILT)
    else:
        noise = CategoricalNoise.response(k, 2.0)
        found = categorical_count.count_categorical(k, pieces).histograms({1: noise}, tilt=TILT)
    return np.array([one.counts for one in found.values()])


def shown(k: int) -> float:
    """The largest tilt that the outcomes `many 1s` and `few 1s`, and of k states also `few 0s`, prove together."""
    one, other = released(ONE, k), released(OTHER, k)
    often = (other[:, 1] >= 3) & ((other[:, 0] <= 1) | (k == 2))
    seldom = (one[:, 1] >= 3) & ((one[:, 0] <= 1) | (k == 2))
    at_least = beta.ppf(ERROR / 2, often.sum(), DEVICES - often.sum() + 1)
    at_most = beta.ppf(1 - ERROR / 2, seldom.sum() + 1, DEVICES - seldom.sum())
    return math.log(at_least / at_most)


@pytest.mark.parametrize("k", [2, 3])
def test_draws_show_no_more_than_is_charged(k: int) -> None:
    """And most of it: an audit that sees nothing proves nothing."""
    assert 0.5 * TILT / 1e9 < shown(k) <= TILT / 1e9


@pytest.mark.parametrize(("k", "module"), [(2, binary_count), (3, categorical_count)])
def test_noise_a_third_too_small_is_refuted(k: int, module: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same audit finds it."""
    monkeypatch.setattr(module, "scale_for", lambda sensitivity, tilt: 0.7 * scale_for(sensitivity, tilt))
    assert shown(k) > TILT / 1e9
