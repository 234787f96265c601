"""The simulation that measures coverage: it simulates what it says, and its table can fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hushmq.calibrator.learning.update_schedule import FIRST_UPDATE
from hushmq.evaluation.estimation.categorical_coverage import (
    THREE,
    CategoricalScenario,
    coverage,
    main,
    recorded,
    windows_used,
)
from hushmq.evaluation.estimation.sanitized_categorical import evidence, sanitized
from hushmq.evaluation.recordings import Recording
from hushmq.pufferfish.categorical.emission import randomized_response


def test_simulated_states_are_the_chain_through_the_noise() -> None:
    """Frequencies of states and pairs are those of the chain and the emission."""
    emission = np.array(randomized_response(3, 2.0))
    states = sanitized(np.repeat(THREE[None], 40, axis=0), emission, ticks=3000, rng=np.random.default_rng(1))
    pi = np.linalg.matrix_power(THREE, 200)[0]
    seen = np.bincount(states.ravel(), minlength=3) / states.size
    assert seen == pytest.approx(pi @ emission, abs=0.01)
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (states[:, :-1].ravel(), states[:, 1:].ravel()), 1 / states[:, 1:].size)
    assert pairs == pytest.approx(emission.T @ np.diag(pi) @ THREE @ emission, abs=0.01)


def test_the_noise_has_the_variance_it_states() -> None:
    """The charged noise on the counts is as wide as the evidence says, for each band as well."""
    states = np.zeros((400, 200), dtype=np.uint8)
    emission = np.array(randomized_response(3, 2.0))
    found = evidence([states], emission, scale=20.0, draws=3, rng=np.random.default_rng(2))
    assert found.counts[:, 1].var() == pytest.approx(found.variance[0], rel=0.3)
    assert found.pairs[:, 3, 1, 1].var() == pytest.approx(found.variance[0] * (27 * 2) ** 2, rel=0.3)


@pytest.mark.slow
def test_coverage_counts_what_is_held() -> None:
    """With much signal nearly every device is held, and fewer are where the intervals are cut by a quarter."""
    setting = CategoricalScenario("THREE", THREE, 8, 1, 0.3, devices=6)
    found = coverage(setting, cohorts=4, seed=1)
    assert found.own > 0.8
    assert found.narrower < found.own
    assert 0 < found.own_width < found.cohort_width


def test_an_update_uses_what_learning_kept() -> None:
    """The first update uses the windows up to it and one draw; the sixth the last 96, and a draw per change test."""
    assert windows_used(1) == (FIRST_UPDATE, 1)
    assert windows_used(3) == (12, 3 + 4)
    assert windows_used(6) == (96, 6 + 7)


@pytest.mark.slow
def test_recorded_chains_of_first_order_are_held_and_fit() -> None:
    """Recordings with gaps, sampled from chains: their transitions are covered, and there is no misfit."""
    rng = np.random.default_rng(3)
    same = np.eye(3)
    states = sanitized(np.repeat(THREE[None], 8, axis=0), same, ticks=20_000, rng=rng).astype(np.int64)
    group = [
        Recording(f"n{number}", 3, [row[:9000], row[9100:]], [0, 9100]) for number, row in enumerate(states)
    ]
    found = recorded(group, 8.0, window=7_200, rng=rng)
    assert found.misfit.shift == 0
    assert found.rows > 0.9
    assert found.width < 0.1


def test_recordings_that_are_not_there_are_said_to_be_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each cohort without its recordings is skipped by name."""
    assert main(["misfit", "--data", str(tmp_path)]) == 0
    told = capsys.readouterr().err
    assert "activity, 4 states: skipped: the recording extrasensory/labels_30users.csv.gz is not in" in told
    assert "heart rate, 3 bins: skipped" in told
