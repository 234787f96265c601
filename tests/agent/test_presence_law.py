"""The exact law of all bytes that leave a stream, for every path of values and all noise (Theorems 10 and 11).

The pipeline is the agent's own. A word of the generator matters only through the cell between the thresholds in which
it lies, so the words of a few ticks are enumerated by one representative for each cell, with the cell's probability.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from math import exp, log, prod

import pytest

from hushmq.agent.sources.beat_schedule import BeatSchedule
from hushmq.agent.sources.resample import Value
from hushmq.agent.stream import Stream
from hushmq.broker.contract.messages import Batch, decode
from hushmq.broker.contract.noise_message import binary_noise_of
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss
from hushmq.pufferfish.noise import perturber
from hushmq.pufferfish.noise.perturber import threshold
from tests.agent.clocks import Hands
from tests.agent.peer import noise, stream_policy

PERIOD_MS, TICKS = 2, 3
FIRST = 500
SCHEDULE = BeatSchedule(2 * PERIOD_MS)
POLICY, SETTING = stream_policy(stand_in="high"), noise()
FLIPS = binary_noise_of(SETTING.noise)
THRESHOLDS = (threshold(FLIPS.rho0), threshold(FLIPS.rho1))
VALUES: tuple[Value | None, ...] = (60.0, 90.0, float("nan"), "neither", None)
LOW, HIGH, UNKNOWN = 0, 1, 2
RECORDED = (0, 1, 1, 1, 1)
"""The state of each value: the stand-in is the second one."""
Transcript = tuple[bytes, ...]
Drawn = tuple[tuple[int, Fraction], ...]


def cells() -> list[tuple[int, Fraction]]:
    """A word of each cell between the thresholds, and the cell's probability."""
    cuts = sorted({0, *THRESHOLDS, 2**64})
    return [(low, Fraction(high - low, 2**64)) for low, high in pairwise(cuts)]


class Path:
    """A source that gives the values of a path, one a tick."""

    unreadable, trouble, silent_s, arrivals = 0, None, None, None

    def __init__(self, path: Sequence[int]) -> None:
        self._path = path

    def take(self, first: int, last: int) -> list[Value | None]:
        return [VALUES[self._path[tick - FIRST]] for tick in range(first, last + 1)]

    def stop(self) -> None:
        """Nothing runs."""


class Device:
    """A stream, its clock, and what it has sent."""

    def __init__(self, path: Sequence[int], words: Sequence[int]) -> None:
        self.hands = Hands(wall_ns=(FIRST * PERIOD_MS - 1) * 1_000_000)
        self.sent: list[bytes] = []
        self._watermark = -1
        self._path, self._words = path, list(words)
        self.start()

    def start(self) -> None:
        """Start, or start again after a kill: what is in memory is gone, the watermark is not."""
        self._stream = Stream("motion", Path(self._path), POLICY, clock=self.hands.clock())
        self._stream.use(SETTING, self._watermark, resume=True)

    def _drawn(self, count: int) -> list[int]:
        drawn, self._words = self._words[:count], self._words[count:]
        return drawn

    def run(self, ticks: int, *, final: bool = False) -> None:
        for _ in range(ticks):
            self.hands.run(PERIOD_MS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(perturber, "random_words", self._drawn)
            for made in self._stream.beat(self._watermark, SCHEDULE, final=final).made:
                self.sent.append(made.payload)
                self._watermark = made.last


def transcript(path: Sequence[int], drawn: Drawn) -> Transcript:
    """All bytes that are sent for a path of values with these words."""
    device = Device(path, [word for word, _ in drawn])
    device.run(1)
    device.run(2)
    device.run(1, final=True)
    return tuple(device.sent)


@cache
def laws() -> dict[tuple[int, ...], dict[Transcript, Fraction]]:
    """For every path of values, the exact probability of every transcript."""
    found = {}
    for path in product(range(len(VALUES)), repeat=TICKS):
        law: dict[Transcript, Fraction] = defaultdict(Fraction)
        for drawn in product(cells(), repeat=TICKS):
            law[transcript(path, drawn)] += prod((weight for _, weight in drawn), start=Fraction(1))
        found[path] = dict(law)
    return found


def recorded(path: Sequence[int]) -> tuple[int, ...]:
    return tuple(RECORDED[value] for value in path)


def neighbours() -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Paths that differ at one tick."""
    for path in laws():
        for tick, value in product(range(TICKS), range(len(VALUES))):
            if value != path[tick]:
                yield path, (*path[:tick], value, *path[tick + 1 :])


def test_the_law_depends_on_what_is_recorded_only() -> None:
    """Unknown, refused and missing values have the very law of the stand-in: headers, sizes, bits, all bytes."""
    assert all(sum(law.values()) == 1 for law in laws().values())
    for path, law in laws().items():
        assert law == laws()[recorded(path)]
    assert laws()[HIGH, HIGH, HIGH] != laws()[HIGH, LOW, HIGH]


def test_headers_are_those_of_the_schedule_in_every_transcript() -> None:
    shapes = {
        (batch.first, batch.after, batch.count, batch.noise, len(payload))
        for law in laws().values()
        for transcript_ in law
        for payload in transcript_
        for batch in [decode(Batch, payload)]
    }
    assert len(shapes) == 2
    assert {(first, count) for first, _, count, _, _ in shapes} == {(FIRST, 2), (FIRST + 2, 1)}


def test_one_tick_changes_the_likelihood_by_at_most_the_tilt_and_by_that_much() -> None:
    """Exactly, for every change of one tick, from or to unknown included; the largest is the realised tilt."""
    worst = max(
        laws()[path].get(found, Fraction(0)) / laws()[other][found]
        for path, other in neighbours()
        for found in laws()[other]
    )
    flip0, flip1 = (Fraction(bound, 2**64) for bound in THRESHOLDS)
    assert worst == max((1 - flip0) / flip1, (1 - flip1) / flip0)
    assert log(worst) <= max(FLIPS.tau0, FLIPS.tau1) * (1 + 1e-12)
    assert log(worst) > max(FLIPS.tau0, FLIPS.tau1) * (1 - 1e-9)


def finite_loss(q: float, r: float) -> float:
    """The loss of Theorem 1 for a stream of so many ticks: the recursion from both ends, for both states."""
    worst = 0.0
    for tau, out, back in ((FLIPS.tau0, q, r), (FLIPS.tau1, r, q)):
        m, sides = exp(tau), [0.0]
        for _ in range(TICKS - 1):
            tilted = m * exp(sides[-1])
            sides.append(log((tilted * (1 - out) + out) / (tilted * back + 1 - back)))
        worst = max(worst, *(tau + sides[n] + sides[TICKS - 1 - n] for n in range(TICKS)))
    return worst


@pytest.mark.parametrize(("q", "r"), [(0.05, 0.05), (0.2, 0.4), (0.5, 0.05)])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_loss_about_recorded_states_is_the_price(q: float, r: float, share: float) -> None:
    """By definition, over all paths and transcripts, where a share of the stand-ins was unknown."""
    stationary, step = (r / (q + r), q / (q + r)), ((1 - q, q), (r, 1 - r))
    chances: dict[tuple[int, ...], float] = {}
    for path in product((LOW, HIGH, UNKNOWN), repeat=TICKS):
        x = recorded(path)
        chance = stationary[x[0]] * prod(step[a][b] for a, b in pairwise(x))
        chances[path] = chance * prod({LOW: 1.0, HIGH: 1 - share, UNKNOWN: share}[value] for value in path)
    assert sum(chances.values()) == pytest.approx(1)
    worst = 0.0
    for tick in range(TICKS):
        given = [defaultdict(float), defaultdict(float)]
        for path, chance in chances.items():
            state = recorded(path)[tick]
            for found, likelihood in laws()[path].items():
                given[state][found] += chance / stationary[state] * float(likelihood)
        worst = max(worst, *(abs(log(given[0][found] / given[1][found])) for found in given[0]))
    assert worst == pytest.approx(finite_loss(q, r), rel=1e-9)
    assert worst < loss(BinaryTheta(q, q, r, r), tau0=FLIPS.tau0, tau1=FLIPS.tau1)


def test_a_filled_absence_has_the_bytes_of_unknown_values() -> None:
    """Killed after the first beat and started in the last tick of the second: with the same words, the same bytes."""
    fixed = [word for word, _ in cells()]
    for values in product((LOW, HIGH), repeat=4):
        for missed in product(fixed, repeat=2):
            words = [fixed[0], fixed[-1], *missed, fixed[1], fixed[0]]
            path = (*values[:2], UNKNOWN, UNKNOWN, *values[2:])
            ran = Device(path, words)
            for _ in range(3):
                ran.run(2)
            ran.run(1)
            off = Device(path, words)
            off.run(2)
            off.run(1)
            off.hands.run(PERIOD_MS)
            off.start()
            off.run(2)
            off.run(1)
            assert off.sent == ran.sent
            assert len(ran.sent) == 3
