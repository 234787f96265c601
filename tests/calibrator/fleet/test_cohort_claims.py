"""Which cohorts a worker claims and gives up: every cohort ends with one worker, and workers with about as many."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.calibrator.fleet.cohort_claims import PATIENCE_S, SLOW_S, Claims, Peer, next_move, pool_of


def peers(*pools: str) -> dict[int, Peer]:
    return {number: Peer(f"w{number}", pool, "1.0") for number, pool in enumerate(pools, start=1)}


def step(claimants: dict[str, int | None], workers: dict[int, Peer], me: int, waited: float) -> bool:
    """One survey of a worker that may serve everything; whether it did anything."""
    move = next_move(Claims(claimants, workers, me), list(claimants), dict.fromkeys(claimants, waited))
    for cohort in (*move.claim, *move.beyond):
        assert claimants[cohort] is None, "what others have is not claimed"
        claimants[cohort] = me
    for cohort in move.release:
        assert claimants[cohort] == me, "what others have is not given up"
        claimants[cohort] = None
    return bool(move.claim or move.beyond or move.release)


@settings(max_examples=200, deadline=None)
@given(cohorts=st.integers(0, 40), workers=st.integers(1, 6), data=st.data())
def test_every_cohort_is_served_and_the_load_is_balanced(
    cohorts: int, workers: int, data: st.DataObject
) -> None:
    """From any beginning, in any order of surveys: all are claimed, nobody has more than the share, all is quiet."""
    there = peers(*["pool"] * workers)
    start = st.sampled_from([None, *there])
    claimants: dict[str, int | None] = {f"c{n}": data.draw(start) for n in range(cohorts)}
    for _ in range(3):
        for me in data.draw(st.permutations(list(there))):
            step(claimants, there, me, waited=0.0)
    assert None not in claimants.values()
    load = Counter(claimants.values())
    assert all(count <= -(-cohorts // workers) for count in load.values())
    assert not any(step(claimants, there, me, waited=SLOW_S) for me in there)


def test_what_nobody_takes_is_taken_beyond_the_share() -> None:
    """A worker that cannot serve its share does not leave cohorts unserved: another has them after a while."""
    claimants: dict[str, int | None] = {"a": 1, "b": None}
    there = peers("pool", "pool")
    assert next_move(Claims(claimants, there, 1), ["a", "b"], {"b": SLOW_S - 1}).beyond == ()
    assert next_move(Claims(claimants, there, 1), ["a", "b"], {"b": SLOW_S}).beyond == ("b",)


def test_what_is_nobodys_share_is_taken_sooner() -> None:
    """Where all others have their shares, rounded down, nothing is waited for but another survey or two."""
    claimants: dict[str, int | None] = {"a": 1, "b": 1, "c": 2, "d": 3, "e": None}
    there = peers("pool", "pool", "pool")
    assert next_move(Claims(claimants, there, 1), list("abcde"), {"e": PATIENCE_S - 1}).beyond == ()
    assert next_move(Claims(claimants, there, 1), list("abcde"), {"e": PATIENCE_S}).beyond == ("e",)


def test_workers_with_other_cohorts_do_not_lessen_the_share() -> None:
    """Only workers with the same `cohorts` share them out."""
    claimants: dict[str, int | None] = dict.fromkeys("abcd")
    move = next_move(Claims(claimants, peers("pool", "other"), 1), list("abcd"), {})
    assert sorted(move.claim) == list("abcd")
    assert pool_of(["a", "b"]) == pool_of(["b", "a"]) != pool_of(["a"])


def test_the_name_of_a_session_tells_the_worker() -> None:
    """What a worker says of itself fits into the name of a session, which PostgreSQL cuts off after 63 bytes."""
    peer = Peer("w" * 24, pool_of(["*"]), "0.10.12")
    assert Peer.parse(peer.text()) == peer
    assert len(peer.text()) <= 63
    assert Peer.parse("psql") is None
