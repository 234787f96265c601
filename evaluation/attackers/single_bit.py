"""The single-bit attacker: ignores the chain and takes every output as the state (CGSSY section 4.1)."""

from __future__ import annotations

from hushmq.evaluation.attackers.hidden import Hidden, States


def guess(outputs: States) -> States:
    """The output itself: the maximum likelihood guess as long as ρ0 + ρ1 < 1."""
    return outputs


def success(hidden: Hidden) -> float:
    """Its success probability: π0·(1−ρ0) + π1·(1−ρ1)."""
    return float(hidden.stationary @ hidden.emission.diagonal())
