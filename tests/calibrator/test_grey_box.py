"""A grey-box audit of the calibrator: what its noise is drawn for is recorded, and played back to a neighbour.

Two cohorts differ in one sanitized state. The first runs with real noise, and every call that adds noise is recorded:
exact counts, scale, result. The second is given the same results. Then

- it must make the same calls, with the same scales, so that nothing about the noise depends on the data;
- it must publish the same bytes, so that nothing is published that no noise was drawn for;
- the counts of both calls, over their scales, must differ by no more than the ledger has charged for that tick. And for
  some tick they must differ by all of it: a charge that is 1% too small is found.

The method is that of recording and playing back a mechanism's calls to its noise primitives, as DP auditors of
libraries do; here it covers whatever the calibrator does between a batch and a published byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from hushmq.broker.contract.policy_message import Window
from hushmq.calibrator.models import binary_model, categorical_model, draw_noise, pair_count
from hushmq.calibrator.models.binary import binary_count
from hushmq.calibrator.models.categorical import categorical_count
from hushmq.calibrator.store import tables as store
from tests.calibrator import test_more_states as more
from tests.calibrator.site import START, Desk, desk, from_device, policy, sqlite, states

WINDOWS, TICKS, DEVICES = 4, 20, 3
TABLE = {"moves": {"kind": "transitions", "window": "short", "share": 0.25}}
FREE = {
    "slide": {"kind": "sliding", "window": "short", "windows": 2},
    "lasts": {"kind": "dwell", "window": "short"},
}


ALIKE = next(tick for tick in range(1, TICKS - 1) if states(TICKS)[tick - 1] == states(TICKS)[tick + 1])
"""A tick of the first device between two equal states, where a change moves a table of transitions most."""


@dataclass
class Call:
    """One call that adds noise: to which counts, how much, and what came out."""

    counts: list[int]
    noise: tuple[Any, ...]
    result: list[int]


@dataclass
class Recorder:
    """Stands in for both functions that add noise; with `given` it returns what was recorded there."""

    given: Sequence[Call] | None = None
    calls: list[Call] = field(default_factory=list)

    def noisy(self, counts: Sequence[int], *, scale: float) -> list[int]:
        return self._call(counts, ("laplace", scale), lambda: _noisy(counts, scale=scale))

    def noisy_together(self, counts: Sequence[int], *, reach: Sequence[int], tilt: int) -> list[int]:
        return self._call(
            counts, ("joint", tuple(reach), tilt), lambda: _noisy_together(counts, reach=reach, tilt=tilt)
        )

    def _call(
        self, counts: Sequence[int], noise: tuple[Any, ...], draw: Callable[[], list[int]]
    ) -> list[int]:
        result = draw() if self.given is None else self.given[len(self.calls)].result
        self.calls.append(Call(list(counts), noise, result))
        return result


_noisy, _noisy_together = draw_noise.noisy, draw_noise.noisy_together


def cost(one: Call, other: Call) -> float:
    """What a change of the counts costs, in nano-nats, by the theorem that the noise stands on."""
    moved = [abs(a - b) for a, b in zip(one.counts, other.counts, strict=True)]
    if one.noise[0] == "laplace":
        return sum(moved) / one.noise[1] * 1e9
    _, reach, tilt = one.noise
    assert all(off <= most for off, most in zip(moved, reach, strict=True))
    return float(tilt) if any(moved) else 0.0


def run(
    folder: Path, recorder: Recorder, act: Callable[[Desk], None], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[tuple[str, bytes]], list[Any]]:
    """Everything a cohort has for readers after `act`, and its ledger's entries."""
    folder.mkdir()
    for module in (binary_count, categorical_count, pair_count, categorical_model, binary_model):
        for name in ("noisy", "noisy_together"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(recorder, name))
    with desk(sqlite(folder)) as here:
        act(here)
        with here.engine.begin() as db:
            releases = [(row.topic, row.payload) for row in db.execute(select(store.release))]
            settings = [(row.stream, row.payload) for row in db.execute(select(store.setting))]
            entries = list(db.execute(select(store.ledger)))
    return [*releases, *settings], entries


def two_states(flipped: int | None) -> Callable[[Desk], None]:
    def act(here: Desk) -> None:
        here.adopt(
            policy(windows={"short": Window(ticks=TICKS, scopes=("cohort", "device"))}, queries=TABLE | FREE)
        )
        for number in range(WINDOWS):
            first = START + number * TICKS
            here.clock.tick = first + TICKS + 1
            sent = []
            for device in range(DEVICES):
                found = bytearray(states(TICKS, seed=100 * number + device))
                if device == 0 and flipped is not None and first <= flipped < first + TICKS:
                    found[flipped - first] ^= 1
                sent.append(from_device(f"d{device}", first, bytes(found)))
            here.cohort.receive(sent)
            here.cohort.close_due()
            here.cohort.calibrate()

    return act


def more_states(flipped: int | None) -> Callable[[Desk], None]:
    def act(here: Desk) -> None:
        more.follow(here, queries=TABLE | FREE)
        for number in range(WINDOWS):
            first = more.START + number * more.TICKS
            here.clock.tick = first + more.TICKS + 1
            sent = []
            for device in range(DEVICES):
                found = bytearray(more.states(more.TICKS, seed=100 * number + device))
                if device == 0 and flipped is not None and first <= flipped < first + more.TICKS:
                    found[flipped - first] = (found[flipped - first] + 1) % more.K
                sent.append(more.sent(f"d{device}", first, bytes(found)))
            here.cohort.receive(sent)
            here.cohort.close_due()
            here.cohort.calibrate()

    return act


@pytest.mark.parametrize(
    ("act", "flips"),
    [
        (two_states, [START, START + ALIKE, START + 3 * TICKS - 1]),
        (more_states, [more.START, more.START + 7, more.START + more.TICKS - 1]),
    ],
)
def test_what_is_charged_is_what_noise_hides(
    act: Callable[[int | None], Callable[[Desk], None]],
    flips: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For each tick that may differ: same calls, same bytes, and a change that its entries paid for."""
    first = Recorder()
    published, entries = run(tmp_path / "one", first, act(None), monkeypatch)
    assert len(entries) >= WINDOWS
    assert len(first.calls) > len(entries)
    used = []
    for tick in flips:
        second = Recorder(first.calls)
        again, entries_again = run(tmp_path / f"without-{tick}", second, act(tick), monkeypatch)
        assert [one.noise for one in second.calls] == [one.noise for one in first.calls]
        assert again == published
        tilts = [(one.first, one.last, one.tilt) for one in entries]
        assert [(one.first, one.last, one.tilt) for one in entries_again] == tilts
        paid = sum(tilt for begin, end, tilt in tilts if begin <= tick <= end)
        spent = sum(cost(*both) for both in zip(first.calls, second.calls, strict=True))
        assert 0 < spent <= paid
        used.append(spent / paid)
    assert max(used) > (0.99 if act is two_states else 0.75)
