"""What a check says: the claim, what was stated, what was recomputed, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from hushmq.verify.largest_loss import ROUNDING, Found
from hushmq.verify.outward import UP, Interval


class Verdict(StrEnum):
    """How a claim stands. Everything but `HOLDS` makes the checker fail."""

    HOLDS = "holds"
    FAILS = "FAILS"
    NOT_PROVEN = "not proven"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of an export, and what came of it. Losses are in nats."""

    about: str
    claim: str
    verdict: Verdict
    detail: str
    budget: float | None = None
    stated: float | None = None
    recomputed: Interval | None = None


def judged(about: str, claim: str, wrong: Iterable[str], right: str) -> Claim:
    """A claim that holds unless something is wrong."""
    found = list(wrong)
    if found:
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        return Claim(about, claim, Verdict.FAILS, "; ".join(found[:3]) + more)
    return Claim(about, claim, Verdict.HOLDS, right)


def not_checked(about: str, claim: str, why: str) -> Claim:
    """Something that this checker does not know: it is never passed over."""
    return Claim(about, claim, Verdict.NOT_CHECKED, why)


def judged_loss(
    about: str, claim: str, found: Found, *, budget: float | None, stated: float | None = None
) -> Claim:
    """A loss: at most the budget, where it has one, and not above what is stated.

    A stated loss may be above the true one, never below. What lies between both of our bounds is not proven, unless the
    search was cut short: then the bound that was reached has to keep the budget.
    """
    loss, tick = found.loss, "" if found.tick is None else f" at tick {found.tick}"
    allowed = _rounded(budget)
    claimed = _rounded(budget if stated is None else stated)
    verdict, detail = (
        Verdict.HOLDS,
        "at most as stated" + ("" if budget is None else ", and within the budget"),
    )
    if loss.low > allowed:
        verdict, detail = Verdict.FAILS, f"the loss{tick} is over the budget"
    elif loss.low > claimed:
        verdict, detail = Verdict.FAILS, f"the loss{tick} is above what is stated"
    elif stated is not None and Decimal(stated) > allowed:
        verdict, detail = Verdict.FAILS, "what is stated is over the budget"
    elif loss.high > allowed:
        verdict, detail = Verdict.NOT_PROVEN, "no bound within the budget was found"
    elif loss.high > claimed and not (found.cut_short and budget is not None):
        verdict, detail = Verdict.NOT_PROVEN, "what is stated is less than was proved"
    elif loss.high > claimed:
        detail = "within the budget; the search was cut short before it reached what is stated"
    elif stated is None:
        detail = "within the budget"
    return Claim(about, claim, verdict, detail, budget, stated, loss)


def _rounded(limit: float | None) -> Decimal:
    """A limit, with room for what a double rounds away; infinite where there is none."""
    return Decimal("Infinity") if limit is None else UP.multiply(Decimal(limit), 1 + ROUNDING)
