"""Where an epoch can begin: what was released before it must leave some of the budget at its ticks.

What ended epochs have released tells of the ticks after them as well, less the further away. An epoch that began where
that alone exceeds the budget could never release anything.
"""

from __future__ import annotations

from hushmq.calibrator.ledger.live_accounts import LiveAccounts

ROOM = 0.1
"""The part of the budget that must be left at the first tick."""
FAR = 2**44
"""Ticks after which nothing is left of what was released before: half a million years of a tick a second."""


def first_quiet_tick(accounts: LiveAccounts, first: int) -> int:
    """The first tick, not before `first`, from which on what was released so far leaves some of the budget.

    It never leaves what device-made windows cost, and what the undecided adversary knows for ever: `first` itself where
    these exceed the budget.
    """
    budget, remaining = accounts.policy.epsilon.public, accounts.loss_from(first + FAR)
    enough = budget - ROOM * (budget - remaining)
    if remaining > budget or accounts.loss_from(first) <= enough:
        return first
    low, step = first, 1
    while accounts.loss_from(first + step) > enough:
        low, step = first + step, 2 * step
    high = first + step
    while high - low > 1:
        middle = (low + high) // 2
        if accounts.loss_from(middle) <= enough:
            high = middle
        else:
            low = middle
    return high
