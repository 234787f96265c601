"""The LSTM attacker: a recurrent network trained on true states, without a model of the chain (CGSSY section 4.3).

It is trained on pairs of outputs and true states, which no real attacker has, so its success is optimistic. The network
is the paper's: each output of a window embedded in four dimensions, an LSTM, one linear layer on its last state.
PyTorch is an extra (`hushmq[lstm]`) and is imported only for training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from hushmq.evaluation.attackers.hidden import States

EMBEDDED = 4


@dataclass(frozen=True, slots=True)
class Training:
    """Training parameters. The window is odd; the network predicts the state in its middle.

    `steps` is the number of batches, independent of the length of the record.
    """

    window: int = 31
    width: int = 16
    steps: int = 600
    batch: int = 256
    rate: float = 0.02
    folds: int = 5


def available() -> bool:
    """Whether PyTorch is installed."""
    return find_spec("torch") is not None


def success(
    states: States,
    outputs: States,
    training: Training,
    *,
    seed: int,
    advance: Callable[[], None] = lambda: None,
) -> float:
    """The share of correct guesses by cross-validation over contiguous blocks.

    Shuffled ticks would have neighbours with nearly the same window in the training set. `advance` is called after
    each fold.
    """
    import torch  # noqa: PLC0415  # an extra, and slow to import

    torch.manual_seed(seed)
    torch.set_num_threads(1)  # faster for so small a network, and reproducible
    half = training.window // 2
    windows = np.ascontiguousarray(sliding_window_view(outputs, training.window))
    targets = states[half : len(states) - half]
    blocks = np.array_split(np.arange(len(targets)), training.folds)
    right = 0
    for block in blocks:
        rest = np.setdiff1d(np.arange(len(targets)), block, assume_unique=True)
        guess = _train(torch, windows[rest], targets[rest], training)
        right += int((guess(windows[block]) == targets[block]).sum())
        advance()
    return right / len(targets)


def _train(
    torch: Any, windows: NDArray[np.uint8], targets: States, training: Training
) -> Callable[[NDArray[np.uint8]], States]:
    """The trained network as a function from windows to guesses."""
    nn = torch.nn
    embed, lstm = nn.Embedding(2, EMBEDDED), nn.LSTM(EMBEDDED, training.width, batch_first=True)
    last = nn.Linear(training.width, 1)

    def score(rows: Any) -> Any:
        _, (state, _) = lstm(embed(rows))
        return last(state[0])[:, 0]

    parameters = [weight for layer in (embed, lstm, last) for weight in layer.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=training.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=training.rate, total_steps=training.steps
    )
    inputs, wanted = torch.from_numpy(windows.astype(np.int64)), torch.from_numpy(targets.astype(np.float32))
    for _ in range(training.steps):
        rows = torch.randint(len(targets), (training.batch,))
        error = nn.functional.binary_cross_entropy_with_logits(score(inputs[rows]), wanted[rows])
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
        schedule.step()

    def guess(rows: NDArray[np.uint8]) -> States:
        with torch.no_grad():
            found: States = (score(torch.from_numpy(rows.astype(np.int64))) > 0).numpy().astype(np.uint8)
        return found

    return guess
