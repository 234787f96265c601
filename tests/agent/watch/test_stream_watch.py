"""The watch over one stream: when it warns, what it does, and what that tells (docs/theory-world.md, Theorem 25)."""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Literal

import pytest

from hushmq.agent.watch import stream_watch
from hushmq.agent.watch.stream_watch import StreamWatch
from hushmq.broker.contract.policy_message import Assumption, Bins
from hushmq.broker.contract.theta_message import theta_message
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.inference import theta_test
from tests.agent.peer import NARROW, WIDE, stream_policy

HOUR = 7200
"""Ticks of an hour at 2 Hz."""
Action = Literal["warn", "stop", "stand-in"]


def watch(action: Action = "warn", *, stop_from: int | None = None) -> StreamWatch:
    policy = stream_policy(period_ms=500, outside_theta=action, stand_in="high")
    found = StreamWatch(policy, stop_from=stop_from)
    found.follow(WIDE)
    return found


def minutes(seed: int = 1) -> Iterator[list[int]]:
    """A reading that is refreshed every minute, and repeated at 2 Hz."""
    generator = random.Random(seed)
    while True:
        yield [generator.randrange(2)] * 120


def alarmed(action: Action) -> tuple[StreamWatch, int]:
    """A watch whose alarm was raised, and the next tick."""
    found, tick = watch(action), 10 * HOUR
    for states in minutes():
        found.compare(tick, states)
        tick += len(states)
        if found.outside:
            return found, tick
        assert tick < 11 * HOUR
    raise AssertionError


def test_a_warning_comes_before_the_alarm() -> None:
    found, tick, warned_at = watch(), 0, None
    for states in minutes():
        found.compare(tick, states)
        tick += len(states)
        if found.warned and warned_at is None:
            warned_at = tick
            assert not found.outside
        if found.outside:
            break
    assert warned_at is not None
    assert warned_at < tick == found.ticks <= 15 * 120


@pytest.mark.parametrize("action", ["warn", "stop", "stand-in"])
def test_states_within_theta_are_published_as_they_are(action: Action) -> None:
    found, generator, states = watch(action), random.Random(3), [0]
    while len(states) < 5000:
        states.append(states[-1] ^ (generator.random() < 0.2))
    found.compare(0, states)
    assert not found.warned
    assert found.substitutes(5000) is None
    assert found.end(5000) == 5000


def test_by_default_an_alarm_changes_nothing_that_is_published() -> None:
    found, tick = alarmed("warn")
    assert found.substitutes(3) is None
    assert found.end(tick + 100 * HOUR) == tick + 100 * HOUR


def test_the_stand_in_takes_the_place_of_the_states() -> None:
    """From the beat on in which the alarm is raised; for whatever comes, and nothing stops."""
    found, tick = alarmed("stand-in")
    assert found.substitutes(3) == [1, 1, 1]
    assert found.end(tick + 100 * HOUR) == tick + 100 * HOUR


def test_a_stop_waits_for_the_end_of_the_hour_with_the_stand_in() -> None:
    found, _ = alarmed("stop")
    assert found.substitutes(3) == [1, 1, 1]
    assert [found.end(11 * HOUR + n) - 11 * HOUR for n in (-1, 0, 1)] == [-1, 0, 0]


def test_after_a_restart_an_alarm_still_holds() -> None:
    assert watch("stop", stop_from=100).end(200) == 100
    assert watch("stop").end(200) == 200
    assert watch("stand-in", stop_from=0).substitutes(1) == [1]
    assert watch("warn", stop_from=0).substitutes(1) is None


def test_another_theta_begins_anew_and_an_alarm_stays() -> None:
    found = watch("stop")
    found.compare(0, [0] * 300)
    assert found.warned
    found.follow(WIDE)
    assert (found.warned, found.ticks) == (True, 300)
    found.follow(NARROW)
    assert (found.warned, found.ticks) == (False, 0)
    found, _ = alarmed("stop")
    found.follow(NARROW)
    assert found.warned
    assert found.outside


def test_the_theta_of_the_setting_in_force_counts() -> None:
    """A chain that the policy's widest Θ contains, and a narrower learned one does not."""
    generator, states = random.Random(3), [0]
    while len(states) < 3000:
        states.append(states[-1] ^ (generator.random() < 0.1))
    found = watch()
    found.compare(0, states)
    assert not found.warned
    found.follow(NARROW)
    found.compare(3000, states)
    assert found.outside


def test_ticks_that_were_left_out_cut_the_path() -> None:
    """Each beat alone is too short to say anything, and no move is assumed between beats that do not follow."""
    apart, together = watch(), watch()
    for beat in range(300):
        apart.compare(10 * beat, [0, 0])
        together.compare(2 * beat, [0, 0])
    assert together.outside
    assert apart.ticks == 300 * 3 - 1
    assert not apart.outside


def test_without_a_setting_nothing_is_compared() -> None:
    found = StreamWatch(stream_policy())
    found.compare(0, [0] * 1000)
    assert (found.warned, found.ticks) == (False, 0)


def test_more_than_two_states() -> None:
    """States that hardly ever move, under a Θ whose chains do."""
    chain = ((0.6, 0.2, 0.2), (0.2, 0.6, 0.2), (0.2, 0.2, 0.6))
    low, high = (tuple(tuple(p + d for p in row) for row in chain) for d in (-0.1, 0.1))
    theta = theta_message(CategoricalTheta.between(low, high))
    found = StreamWatch(
        stream_policy(
            states=("a", "b", "c"),
            discretiser=Bins(edges=(1.0, 2.0)),
            theta=Assumption(start=theta, floor=theta),
            adversary="prior",
        )
    )
    found.follow(theta)
    found.compare(0, [0] * 90 + [2] * 90)
    assert found.outside


def test_people_on_the_device_read_what_follows() -> None:
    assert watch().trouble is None
    for action, follows in (
        ("warn", "published as before"),
        ("stop", "stops at the end of the hour"),
        ("stand-in", "the stand-in is published instead"),
    ):
        said = alarmed(action)[0].trouble  # type: ignore[arg-type]  # mypy widens the literals of a loop
        assert said is not None
        assert follows in said
        assert "1 of 1,000,000 devices" in said


def test_nothing_shows_the_states() -> None:
    found, _ = alarmed("stop")
    assert repr(found) == object.__repr__(found)
    said = found.trouble or ""
    assert not any(state in said for state in ("low", "high"))


LENGTH = 7
NOISE = ((0.7, 0.3), (0.2, 0.8))


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate at every tick, and stop at the next one."""
    monkeypatch.setattr(theta_test, "SOONEST", 1)
    monkeypatch.setattr(theta_test, "LATEST", 1)
    monkeypatch.setattr(stream_watch, "COARSE_MS", 1)


def published(path: tuple[int, ...], action: Action, theta: BinaryTheta) -> tuple[list[int | None], bool]:
    """What is perturbed at each tick of a path, None for nothing, and whether the alarm was raised."""
    found = StreamWatch(stream_policy(period_ms=1, outside_theta=action))
    found.follow(theta_message(theta))
    sent: list[int | None] = []
    for tick, state in enumerate(path):
        if tick < LENGTH - 1:  # a stop after the last tick would not be seen
            found.compare(tick, [state])
        sent += [None] if found.end(tick + 1) <= tick else found.substitutes(1) or [state]
    return sent, found.outside


def transcripts(sent: list[int | None]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every transcript, 2 for a tick at which nothing is published, with its probability."""
    for seen in itertools.product(*([2] if x is None else [0, 1] for x in sent)):
        yield seen, math.prod(NOISE[x][z] for x, z in zip(sent, seen, strict=True) if x is not None)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("action", ["stop", "stand-in"])
@pytest.mark.parametrize("threshold", [0.9, 2.0])
def test_what_an_alarm_tells_is_bounded(
    action: Action, threshold: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Theorem 25, by its definition: every path, every transcript, every instant, every set of transcripts.

    The worst set holds what is likelier by more than e^ε. Where only paths with one state at an instant raise the
    alarm, a stop gives that state away: a δ smaller by a hundredth would be wrong.
    """
    monkeypatch.setattr(stream_watch, "ALARM", 1 / threshold)
    theta = BinaryTheta.point(0.3, 0.4)
    transition, start = ((0.7, 0.3), (0.4, 0.6)), (4 / 7, 3 / 7)
    paths: dict[tuple[int, ...], float] = {}
    for path in itertools.product((0, 1), repeat=LENGTH):
        paths[path] = start[path[0]] * math.prod(transition[x][y] for x, y in itertools.pairwise(path))
    sent = {path: published(path, action, theta) for path in paths}
    alpha = sum(paths[path] for path, (_, alarm) in sent.items() if alarm)
    assert 0 < alpha <= 1 / threshold
    tightest = 0.0
    for i in range(LENGTH):
        laws: list[dict[tuple[int, ...], float]] = []
        calm: list[dict[tuple[int, ...], float]] = []
        delta = [0.0, 0.0]
        for a in (0, 1):
            laws.append(defaultdict(float))
            calm.append(defaultdict(float))
            for path, chance in paths.items():
                if path[i] == a:
                    for seen, p in transcripts(sent[path][0]):
                        laws[a][seen] += chance * p / start[a]
                    for seen, p in transcripts(list(path)):
                        calm[a][seen] += chance * p / start[a]
                    delta[a] += chance / start[a] * sent[path][1]
            assert delta[a] <= alpha / start[a] + 1e-12
        for a, b in ((0, 1), (1, 0)):
            e = max(calm[a][seen] / calm[b][seen] for seen in calm[a])
            beyond = sum(max(0.0, p - e * laws[b].get(seen, 0.0)) for seen, p in laws[a].items())
            assert beyond <= delta[a] + e * delta[b] + 1e-12
            tightest = max(tightest, beyond / (delta[a] + e * delta[b]))
    assert tightest > 0.99 or (action, threshold) != ("stop", 2.0)
