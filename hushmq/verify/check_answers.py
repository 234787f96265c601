"""Checks the answers to queries: each is what its release says, and noise of its own is paid for.

Written from docs/queries.md alone; it shares no code with what makes the answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from hushmq.verify.export_file import StreamTerms, Tree

NANO = 10**9
MOVED = 4
"""Counts that one state moves in a table of transitions, each by one."""
CLOSE = Fraction(1, 10**9)


def answers_cost(release: Tree) -> Fraction:
    """What the noise of all answers of a release costs, in nano-nats."""
    tables = (one for one in release.get("answers", {}).values() if one["kind"] == "transitions")
    return sum((MOVED * NANO / Fraction(one["scale"]) for one in tables), Fraction(0))


def answer_faults(release: Tree, policy: StreamTerms) -> Iterator[str]:
    """What is wrong with the answers of a release, as far as the release itself tells."""
    queries = policy.tree.get("queries", {})
    for name, answer in release.get("answers", {}).items():
        query = queries.get(name)
        if query is None or query["kind"] != answer["kind"] or query["window"] != release["window"]:
            yield f"its answer {name} is to no query of the policy in force"
            continue
        wrong = {
            "mean": _mean, "quantile": _quantile, "top": _top, "dwell": _dwell, "transitions": _transitions
        }.get(answer["kind"], _sound)(release, policy.tree, query, answer)  # fmt: skip
        if not wrong:
            yield f"its answer {name} does not follow from it"


def _shares(release: Tree) -> list[Fraction]:
    return [Fraction(one) for one in release.get("unbiased") or release["frequencies"]]


def _mean_of(values: list[Fraction], shares: list[Fraction]) -> Fraction:
    """The mean of values, counted from their middle: shares sum to one only on average."""
    middle = sum(values, Fraction(0)) / len(values)
    return middle + sum((v - middle) * f for v, f in zip(values, shares, strict=True))


def _close(one: Fraction, stated: float, unit: Fraction) -> bool:
    return abs(one - Fraction(stated)) <= CLOSE * max(unit, abs(one), Fraction(1))


def _mean(release: Tree, policy: Tree, query: Tree, answer: Tree) -> bool:
    values = [Fraction(one) for one in query["values"]]
    low, high = answer["interval"]
    width = max(values) - min(values)
    return (
        _close(_mean_of(values, _shares(release)), answer["value"], width) and low <= answer["value"] <= high
    )


def _quantile(release: Tree, policy: Tree, query: Tree, answer: Tree) -> bool:
    shares, at = _shares(release), Fraction(query["at"])
    found = None
    for last in range(len(shares) - 1):
        up_to = _mean_of([Fraction(int(one <= last)) for one in range(len(shares))], shares)
        if abs(up_to - at) <= CLOSE:
            return answer["state"] in release["states"]  # too close to tell which side rounding put it on
        if up_to >= at:
            found = last
            break
    state = release["states"][len(shares) - 1 if found is None else found]
    order = release["states"].index
    low, high = answer["interval"]
    return bool(
        answer["state"] == state and order(low) <= order(state) <= order(high) and query["at"] == answer["at"]
    )


def _top(release: Tree, policy: Tree, query: Tree, answer: Tree) -> bool:
    shares = dict(zip(release["states"], _shares(release), strict=True))
    named = answer["states"]
    others = [share for state, share in shares.items() if state not in named]
    ranked = [shares[state] for state in named if state in shares]
    if (
        len(ranked) != query["states"]
        or len(set(named)) != len(named)
        or ranked != sorted(ranked, reverse=True)
    ):
        return False
    ends = dict(zip(release["states"], release["intervals"], strict=True))
    apart = min(ends[state][0] for state in named) > max(
        ends[state][1] for state in ends if state not in named
    )
    return bool(ranked[-1] >= max(others) and answer["certain"] == apart)


def _dwell(release: Tree, policy: Tree, query: Tree, answer: Tree) -> bool:
    theta, second = release["theta"], Fraction(policy["period_ms"], 1000)
    if "q" in theta:
        leaving = [(theta[one]["low"], theta[one]["high"]) for one in ("q", "r")]
    elif "low" in theta:
        states = range(len(theta["low"]))
        leaving = [(1 - theta["high"][one][one], 1 - theta["low"][one][one]) for one in states]
    else:
        return False
    if len(leaving) != len(answer["seconds"]):
        return False
    for (least, most), (low, high) in zip(leaving, answer["seconds"], strict=True):
        if most > 1e-12 and not _close(second / Fraction(most), low, second):
            return False
        if high is not None and not _close(second / Fraction(least), high, second):
            return False
    return True


def _transitions(release: Tree, policy: Tree, query: Tree, answer: Tree) -> bool:
    """Its shares follow from noise settings as well; here only what they need to be a table of that many states."""
    k = len(release["states"])
    return all(
        len(answer[name]) == k and all(len(row) == k for row in answer[name])
        for name in ("counts", "shares", "standard_errors", "half_widths")
    )


def _sound(release: Tree, policy: Tree, query: Tree, answer: Tree) -> bool:
    """A sliding window ends with its release and spans whole windows of one length."""
    length = release["last"] - release["first"] + 1
    return bool(
        answer["kind"] == "sliding"
        and 1 <= answer["windows"] <= query["windows"]
        and release["last"] + 1 - answer["first"] == answer["windows"] * length
    )


def sliding_faults(releases: list[Tree]) -> Iterator[str]:
    """Sliding windows that are not the mean of the releases they span; `releases` are all of one stream."""
    by_place = {(one["window"], one["scope"], one["first"]): one for one in releases}
    for release in releases:
        for name, answer in release.get("answers", {}).items():
            if answer["kind"] != "sliding":
                continue
            length = release["last"] - release["first"] + 1
            places = range(answer["first"], release["last"], length)
            spanned = [by_place.get((release["window"], release["scope"], first)) for first in places]
            if None in spanned:
                yield f"entry {release['entry']}: {name} spans a window that was not released"
                continue
            for state, stated in enumerate(answer["frequencies"]):
                shares = [_shares(one)[state] for one in spanned if one is not None]
                if not _close(sum(shares, Fraction(0)) / len(shares), stated, Fraction(1)):
                    yield f"entry {release['entry']}: {name} is not the mean of the releases it spans"
                    break
