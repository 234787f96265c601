"""The LSTM attacker, where PyTorch is installed."""

from __future__ import annotations

import numpy as np
import pytest

from hushmq.evaluation.attackers import forward_backward, lstm, single_bit
from hushmq.evaluation.attackers.hidden import Hidden
from hushmq.evaluation.attackers.lstm import Training
from hushmq.pufferfish.binary.binary_noise import BinaryNoise

SMALL = Training(window=7, width=8, steps=300, batch=64, folds=2)


@pytest.mark.skipif(not lstm.available(), reason="PyTorch is not installed: pip install 'hushmq[lstm]'")
class TestWithTorch:
    def test_it_learns_to_use_the_neighbours(self) -> None:
        """On a slow chain it beats the single-bit attacker and comes near the best one, on ticks it has not seen."""
        hidden = Hidden(0.02, 0.03, BinaryNoise(0.3, 0.3))
        rng = np.random.default_rng(1)
        states = hidden.paths(1, 4000, rng)[0]
        outputs = hidden.sanitize(states, rng)
        found = lstm.success(states, outputs, SMALL, seed=1)
        best = float((forward_backward.guess(hidden, outputs[None])[0] == states).mean())
        assert single_bit.success(hidden) + 0.05 < found < best + 0.02

    def test_the_seed_decides_everything(self) -> None:
        """The same seed gives the same success, and progress is reported after each fold."""
        rng = np.random.default_rng(2)
        states = rng.integers(0, 2, 300).astype(np.uint8)
        told: list[int] = []
        found = {
            lstm.success(states, states, SMALL, seed=3, advance=lambda: told.append(1)) for _ in range(2)
        }
        assert len(found) == 1
        assert len(told) == 2 * SMALL.folds


def test_without_torch_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """`available` finds the package without importing it."""
    monkeypatch.setattr(lstm, "find_spec", lambda name: None)
    assert not lstm.available()
