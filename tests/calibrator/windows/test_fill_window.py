"""What a window publishes does not tell which ticks arrived (docs/theory-world.md, Theorem 12)."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from hushmq.broker.contract.messages import Release, decode
from hushmq.broker.contract.policy_message import Window
from hushmq.calibrator.ledger.issued_noise import issued_noises
from hushmq.calibrator.models import binary_model, stand_ins
from hushmq.calibrator.models.stand_ins import perturbed_bits, perturbed_categories
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.windows.count_window import count_window
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.noise.perturber import threshold, word_counts
from tests.calibrator.site import START, STREAM, Desk, desk, from_device, policy, sqlite, states

ABSENT = None
STAND_IN = 1
NOISE = BinaryNoise(0.2, 0.3)


def emitted(state: int | None, output: int) -> float:
    """The probability of a sanitized state, a filled one where there is none."""
    real = STAND_IN if state is ABSENT else state
    flip = NOISE.rho1 if real else NOISE.rho0
    return flip if output != real else 1 - flip


def view_law(path: Sequence[int | None], windows: Sequence[tuple[int, int, float]]) -> dict[Any, float]:
    """The probability of everything that the public sees: of each window its ticks and its noisy count of ones.

    Noise P(k) ∝ e^(−w|k|) on a count of n ticks, with all results beyond −1 … n+1 as one: their ratios are the same.
    """
    law: dict[Any, float] = Counter()
    for sanitized in itertools.product((0, 1), repeat=len(path)):
        chance = math.prod(emitted(state, z) for state, z in zip(path, sanitized, strict=True))
        drawn = []
        for first, last, w in windows:
            ones, n = sum(sanitized[first : last + 1]), last - first + 1
            top = (1 - math.exp(-w)) / (1 + math.exp(-w))
            tail = math.exp(-w) / (1 + math.exp(-w))
            law_of_count = {(n, y): top * math.exp(-w * abs(y - ones)) for y in range(n + 1)}
            law_of_count[n, -1] = math.exp(-w * ones) * tail
            law_of_count[n, n + 1] = math.exp(-w * (n - ones)) * tail
            drawn.append(law_of_count)
        for seen in itertools.product(*drawn):
            law[seen] += chance * math.prod(one[result] for one, result in zip(drawn, seen, strict=True))
    assert sum(law.values()) == pytest.approx(1.0)
    return law


WINDOWS = [
    [(0, 3, 0.7)],
    [(0, 3, 0.4), (0, 1, 0.9), (2, 3, 0.9)],
]


@pytest.mark.parametrize("windows", WINDOWS)
def test_a_missing_tick_costs_what_a_state_costs(windows: list[tuple[int, int, float]]) -> None:
    """Over all paths with absent ticks and all results: another value of one tick, absent or not, costs its tilt.

    And not a little less: some result reaches the bound. An absent tick has the very law of a stand-in.
    """
    paths = list(itertools.product((0, 1, ABSENT), repeat=4))
    laws = {path: view_law(path, windows) for path in paths}
    for path in paths:
        recorded = tuple(STAND_IN if state is ABSENT else state for state in path)
        assert laws[path] == pytest.approx(laws[recorded], rel=1e-12)
    for tick in range(4):
        bound = NOISE.amplified(sum(w for first, last, w in windows if first <= tick <= last))
        worst = 0.0
        for path, value in itertools.product(paths, (0, 1, ABSENT)):
            other = laws[*path[:tick], value, *path[tick + 1 :]]
            worst = max(worst, *(math.log(laws[path][seen] / other[seen]) for seen in other))
        assert 0.999 * bound < worst <= bound * (1 + 1e-12)


def recorded_sums(here: Desk, span: Span) -> tuple[object, ...]:
    """All that a window is made of: everything public is drawn from it."""
    with here.engine.begin() as db:
        found = count_window(db, span, here.cohort.policy.streams[span.stream], ["d0"]).count
        result = tuple(
            (one.device, one.noise, one.ticks, tuple(one.starts), tuple(map(tuple, one.groups)))
            for one in sorted(found.statistics(), key=lambda one: one.noise)
        )
        db.rollback()
    return result


def outcomes(rho: float, state: int, count: int) -> Iterator[tuple[bytes, float]]:
    for draw in itertools.product((0, 1), repeat=count):
        flips = sum(one != state for one in draw)
        yield bytes(draw), rho**flips * (1 - rho) ** (count - flips)


@pytest.mark.parametrize("stand_in", ["still", "moving"])
@pytest.mark.parametrize("missing", [(0, 2), (3, 5), (7, 10), (0, 10)])
def test_the_law_of_a_missing_tick_is_that_of_a_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: str, missing: tuple[int, int]
) -> None:
    """The exact distribution of a window's counts: over all draws of the filled ticks, and over all states that a
    device which sends stand-ins could have sent.
    """
    span = Span(STREAM, "short", START, START + 9)
    state, length = ("still", "moving").index(stand_in), missing[1] - missing[0]
    arrived = [0, 1, 1, 0, 0, 1, 0, 1, 1, 1]
    law_absent: dict[object, float] = Counter()
    law_sent: dict[object, float] = Counter()

    def folder(name: object) -> str:
        place = tmp_path / str(name)
        place.mkdir()
        return sqlite(place)

    with desk(folder("absent")) as here:
        here.adopt(policy(windows={"short": Window(ticks=10)}, stand_in=stand_in))
        rho = here.cohort.calibrate()[STREAM].message.noise.noise.as_tree()[f"rho{state}"]
        for low, high in ((0, missing[0]), (missing[1], 10)):
            if low < high:
                here.cohort.receive([from_device("d0", START + low, arrived[low:high])])
        for draw, chance in outcomes(rho, state, length):
            with monkeypatch.context() as patch:
                patch.setattr(binary_model, "perturbed_bits", _giving(draw, rho, state))
                law_absent[recorded_sums(here, span)] += chance
    for draw, chance in outcomes(rho, state, length):
        sent = [*arrived[: missing[0]], *draw, *arrived[missing[1] :]]
        with desk(folder(f"sent-{draw.hex()}")) as here:
            here.adopt(policy(windows={"short": Window(ticks=10)}, stand_in=stand_in))
            here.cohort.receive([from_device("d0", START, sent)])
            law_sent[recorded_sums(here, span)] += chance
        if length > 3:
            break
    if length > 3:  # the whole window: 1,024 databases would say no more than one
        assert set(law_sent) <= set(law_absent)
        assert {found[0][2:4] for found in law_absent} == {found[0][2:4] for found in law_sent}
    else:
        assert law_absent == pytest.approx(law_sent)


def _giving(draw: bytes, rho: float, state: int) -> object:
    def drawn(asked_rho: float, asked_state: int, count: int) -> bytes:
        assert (asked_rho, asked_state, count) == (rho, state, len(draw))
        return draw

    return drawn


def released(here: Desk) -> list[Release]:
    return [decode(Release, one.payload) for one in here.cohort.unsent()]


def test_a_device_that_misses_half_its_ticks_does_not_show(tmp_path: Path) -> None:
    """Devices, ticks and the sum of the counts are those of the schedule, for the cohort and for the device itself."""
    windows = {"short": Window(ticks=20, scopes=("cohort", "device"))}
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows=windows))
        here.window(0, devices=3)
        here.cohort.close_due()
        here.clock.tick = START + 41
        here.cohort.receive(
            [from_device("d0", START + 20, states(20)), from_device("d1", START + 27, states(9))]
        )
        here.cohort.close_due()
        first = [(one.scope, one.devices, one.ticks, sum(one.counts)) for one in released(here)[:4]]
        second = [(one.scope, one.devices, one.ticks, sum(one.counts)) for one in released(here)[4:]]
        assert second == first
        assert first[0] == ("cohort", 3, 60, 60)
        assert sum(here.cohort.filled.values()) == 31


def test_a_window_of_which_nothing_arrived_is_released_all_the_same(tmp_path: Path) -> None:
    """It exists because the schedule says so, with the devices and ticks of any other."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window(0, devices=2)
        here.cohort.close_due()
        here.clock.tick = START + 41
        (one,) = here.cohort.close_due().windows
        assert (one.filled, one.refusal) == (40, None)
        assert [(one.devices, one.ticks) for one in released(here)] == [(2, 40), (2, 40)]


def test_one_tick_has_one_draw_in_all_windows(tmp_path: Path) -> None:
    """A long window counts the stand-ins that the short ones drew, also where the states have come in the meantime."""
    windows = {"short": Window(ticks=20), "long": Window(ticks=40)}
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows=windows))
        here.cohort.receive([from_device("d0", START, states(5))])
        here.clock.tick = START + 21
        here.cohort.close_due()
        with here.engine.begin() as db:
            (drawn,) = db.execute(select(store.filled)).all()
        assert (drawn.first, drawn.last) == (START + 5, START + 19)
        here.cohort.receive([from_device("d0", START + 5, [1 - one for one in drawn.states] + [0] * 20)])
        assert here.seen("d0").streams[STREAM].highest == START + 39, "it is counted, and late"
        with here.engine.begin() as db:
            found = count_window(
                db, Span(STREAM, "long", START, START + 39), policy(windows=windows).streams[STREAM], ["d0"]
            )
        assert found.filled == 0
        (sums,) = found.count.statistics()
        assert sums.ticks == 40
        assert sums.groups[0] == [sum(states(5)) + sum(drawn.states)]
        here.clock.tick = START + 41
        here.cohort.close_due()
        with here.engine.begin() as db:
            assert db.execute(select(store.filled)).all() == [], "pruned with the states"


def test_filled_ticks_carry_the_version_that_the_device_used(tmp_path: Path) -> None:
    """Before a missing tick, or after it if it can have had it; with no tick at all the newest issued by then."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        narrow = here.cohort.policy.streams[STREAM].theta.model_copy(
            update={"start": here.cohort.policy.streams[STREAM].theta.floor}
        )
        here.adopt(policy(2, theta=narrow))
        here.clock.tick = START + 21
        here.cohort.receive(
            [
                from_device("lags", START, states(15), noise=1),
                from_device("starts", START + 5, states(15), noise=1),
                from_device("changes", START, states(5), noise=1),
                from_device("changes", START + 15, states(5), noise=2),
            ]
        )
        span = Span(STREAM, "short", START, START + 19)
        names = ["changes", "lags", "nothing", "starts"]
        with here.engine.begin() as db:
            assert set(issued_noises(db, STREAM)) == {1, 2}
            count = count_window(db, span, here.cohort.policy.streams[STREAM], names).count
        found = {(one.device, one.noise): one.ticks for one in count.statistics()}
        assert found == {
            ("changes", 1): 15,
            ("changes", 2): 5,
            ("lags", 1): 20,
            ("nothing", 2): 20,
            ("starts", 1): 20,
        }


def test_stand_ins_are_drawn_as_devices_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words around each threshold give what they give on a device: the probabilities are equal to the last bit."""
    edge = threshold(NOISE.rho1)
    _words_are(monkeypatch, [0, edge - 1, edge, 2**64 - 1])
    assert perturbed_bits(NOISE.rho1, 1, 4) == bytes([0, 0, 1, 1])
    edge = threshold(NOISE.rho0)
    _words_are(monkeypatch, [0, edge - 1, edge, 2**64 - 1])
    assert perturbed_bits(NOISE.rho0, 0, 4) == bytes([1, 1, 0, 0])
    noise = CategoricalNoise.response(3, 1.5)
    first, second, _ = word_counts(noise.rows)[1]
    _words_are(monkeypatch, [0, first - 1, first, first + second - 1, first + second, 2**64 - 1])
    assert perturbed_categories(noise.rows, 1, 6) == bytes([0, 0, 1, 1, 2, 2])


def _words_are(monkeypatch: pytest.MonkeyPatch, words: list[int]) -> None:
    raw = b"".join(word.to_bytes(8, "little") for word in words)
    monkeypatch.setattr(stand_ins, "random_words", lambda _count: memoryview(raw).cast("Q"))
