"""What a chain says about its nodes' influence on their quilts, for three ways it may have started.

The influence of node i on the quilt {i−a, i+b} is the largest, over pairs of states x, y, of three terms
(SWC equation 5): how much more likely y is than x at i, how much likelier x than y follows the left end's state,
and how much likelier the right end's state follows x than y:

    log P(X_i=y)/P(X_i=x) + max_z log P^a[z,x]/P^a[z,y] + max_z log P^b[x,z]/P^b[y,z]

Only states that are possible count. A first state that is known is alone possible, and then the first two terms of the
quilt {X_1} cancel: its influence is 0, which SWC's running example overlooks.
"""

from __future__ import annotations

import math
from functools import cache, cached_property, partial, reduce
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix, Vector
from hushmq.pufferfish.quilt.max_influence import TINY, log_ratios
from hushmq.pufferfish.quilt.quilt_search import Influence

Mask = NDArray[np.bool_]

STRIDE = 4096
"""From so many instants on a power of the chain is cheaper than walking them one by one."""

UNIT = float(np.finfo(np.float64).eps)


class Ends:
    """The second and third term: what lies h instants away. Powers and their ratios are computed once."""

    def __init__(self, chain: Chain) -> None:
        """Start from the first power."""
        self.k = chain.k
        self._squares = [chain.transition]
        self._possible = [chain.transition > 0]
        self._right: dict[int, Matrix] = {}
        self._left: dict[tuple[int, bytes], Matrix] = {}

    def right(self, b: int) -> Matrix:
        """For each pair x, y: max over z of log P^b[x,z]/P^b[y,z]."""
        if b not in self._right:
            power = self.power(b)
            self._right[b] = log_ratios(power, self._hidden(power, b))
        return self._right[b]

    def left(self, a: int, support: Mask) -> Matrix:
        """For each pair x, y: max over the possible z of log P^a[z,x]/P^a[z,y]."""
        key = (a, support.tobytes())
        if key not in self._left:
            power = self.power(a)
            hidden = self._hidden(power, a)
            self._left[key] = log_ratios(power[support].T, None if hidden is None else hidden[support].T)
        return self._left[key]

    def power(self, h: int) -> Matrix:
        """P^h, from squares; all terms are positive, so its relative error is below h·(k+2) roundings."""
        result: Matrix | None = None
        for bit in range(h.bit_length()):
            if bit == len(self._squares):
                self._squares.append(self._squares[-1] @ self._squares[-1])
            if h >> bit & 1:
                result = self._squares[bit] if result is None else result @ self._squares[bit]
        return np.eye(self.k) if result is None else result

    def possible(self, h: int) -> Mask:
        """Where P^h is positive, free of underflow."""
        result = np.eye(self.k, dtype=bool)
        for bit in range(h.bit_length()):
            if bit == len(self._possible):
                self._possible.append(_both(self._possible[-1], self._possible[-1]))
            if h >> bit & 1:
                result = _both(result, self._possible[bit])
        return result

    def _hidden(self, power: Matrix, h: int) -> Mask | None:
        return self.possible(h) if power.min() < TINY else None


class Start(Protocol):
    """The first term: the law of each node, as far as the belief fixes it."""

    def support(self, i: int) -> Mask:
        """Which states are possible at node i."""
        ...

    def log_odds(self, i: int) -> Matrix:
        """[x, y]: the largest log P(X_i=y)/P(X_i=x) the belief allows."""
        ...

    def log_odds_from(self, i: int) -> Matrix | None:
        """A bound on `log_odds` at i and everywhere later; None: unknown."""
        ...


class Stationary:
    """Every node has the stationary law π."""

    def __init__(self, chain: Chain) -> None:
        """Refuse a reducible chain: it has no one stationary law."""
        self._odds = _log_odds(chain.stationary())
        self._everything = np.ones(chain.k, dtype=bool)

    def support(self, i: int) -> Mask:
        """Every state."""
        return self._everything

    def log_odds(self, i: int) -> Matrix:
        """Those of π."""
        return self._odds

    def log_odds_from(self, i: int) -> Matrix | None:
        """Those of π."""
        return self._odds


class Given:
    """The first node has a known law p; node i has p·P^(i−1)."""

    def __init__(self, chain: Chain, initial: Vector, ends: Ends) -> None:
        """Share the powers already computed."""
        self._chain = chain
        self._ends = ends
        self._laws = [initial]
        self._supports = [initial > 0]
        self._lasting = False

    def support(self, i: int) -> Mask:
        """The states reached from the possible first ones in i−1 steps; once they repeat they last."""
        while len(self._supports) < i and not self._lasting:
            following: Mask = np.asarray((self._chain.transition > 0)[self._supports[-1]].any(axis=0))
            self._lasting = np.array_equal(following, self._supports[-1])
            self._supports.append(following)
        return self._supports[min(i, len(self._supports)) - 1]

    def law(self, i: int) -> Vector:
        """P(X_i = ·), step by step unless that is far."""
        if i > len(self._laws) + STRIDE:
            return self._laws[0] @ self._ends.power(i - 1)
        while len(self._laws) < i:
            self._laws.append(self._laws[-1] @ self._chain.transition)
        return self._laws[i - 1]

    def log_odds(self, i: int) -> Matrix:
        """Those of p·P^(i−1)."""
        law, support = self.law(i), self.support(i)
        if np.any(law[support] < TINY):
            return np.full((self._chain.k, self._chain.k), np.inf)
        return _log_odds(np.where(support, law, 1.0))

    def log_odds_from(self, i: int) -> Matrix | None:
        """Those of π, and how far the law at i still is from π: its extreme ratios to π only move together.

        p_(j+1)/π is the average of p_j/π under the reversed chain.
        """
        if self._log_stationary is None or not self.support(i).all():
            return None
        ratios = np.log(np.maximum(self.law(i), TINY)) - self._log_stationary
        return _differences(self._log_stationary) + float(ratios.max() - ratios.min())

    @cached_property
    def _log_stationary(self) -> Vector | None:
        return np.log(self._chain.stationary()) if self._chain.is_irreducible() else None


class Anything:
    """The first node may have any law at all (SWC Appendix C.4): the worst ones sit on single states.

    Or rather all but sit there: the supremum is approached by laws that leave every state possible, so a known
    first state is not among them.
    """

    def __init__(self, ends: Ends) -> None:
        """Share the powers already computed."""
        self._ends = ends
        self._everything = np.ones(ends.k, dtype=bool)
        self._all_follow = bool(ends.possible(1).any(axis=0).all())

    def support(self, i: int) -> Mask:
        """The states that i−1 steps can lead to: all of them, where each has a state before it."""
        return self._everything if self._all_follow else np.asarray(self._ends.possible(i - 1).any(axis=0))

    def log_odds(self, i: int) -> Matrix:
        """Max over first states z of log P^(i−1)[z,y]/P^(i−1)[z,x]."""
        return self._ends.left(i - 1, self._everything).T

    def log_odds_from(self, i: int) -> Matrix | None:
        """Those at i: later laws are averages of the laws at i."""
        return self.log_odds(i) if self.support(i).all() else None


class ChainBelief:
    """A chain, the way it started, and hence the influence of each of its nodes."""

    def __init__(self, chain: Chain, *, any_initial: bool = False) -> None:
        """`any_initial` replaces the chain's own start by all of them at once."""
        self._chain = chain
        self._ends = Ends(chain)
        self._start: Start
        if any_initial:
            self._start = Anything(self._ends)
        elif chain.initial is None:
            self._start = Stationary(chain)
        else:
            self._start = Given(chain, chain.initial, self._ends)

    def at(self, i: int) -> Influence:
        """The influence of node i on its quilts."""
        states = self._start.support(i)
        log_odds = cache(partial(self._start.log_odds, i))

        def influence(a: int | None, b: int | None) -> float:
            terms = [] if b is None else [self._ends.right(b)]
            if a is not None:
                terms += [log_odds(), self._ends.left(a, self._start.support(i - a))]
            return self._largest(terms, states, (a or 0) + (b or 0))

        return influence

    def from_on(self, i: int) -> Influence | None:
        """A bound on the influence of node i and of every later one, for quilts with a left end."""
        odds = self._start.log_odds_from(i)
        return None if odds is None else self._with_odds(odds)

    def at_infinity(self) -> Influence | None:
        """The influence of a node long after the start, whatever that was."""
        if not self._chain.is_irreducible() or self._chain.period() > 1:
            return None
        return self._with_odds(_log_odds(self._chain.stationary()))

    def _with_odds(self, odds: Matrix) -> Influence:
        everything = np.ones(self._chain.k, dtype=bool)

        def influence(a: int | None, b: int | None) -> float:
            terms = [] if b is None else [self._ends.right(b)]
            if a is not None:
                terms += [odds, self._ends.left(a, everything)]
            return self._largest(terms, everything, (a or 0) + (b or 0))

        return influence

    def _largest(self, terms: list[Matrix], states: Mask, reach: int) -> float:
        """The largest sum over pairs of possible states, and what rounding may have taken from it."""
        if not terms:
            return 0.0
        if not states.all():
            pairs = np.ix_(states, states)
            terms = [term[pairs] for term in terms]
        with np.errstate(invalid="ignore"):
            largest = float(reduce(np.add, terms).max())
        if math.isnan(largest):  # ∞ − ∞: something vanished in rounding
            return math.inf
        return max(0.0, largest) + 4 * (self._chain.k + 2) * UNIT * reach


def _both(first: Mask, second: Mask) -> Mask:
    return np.asarray((first.astype(np.float64) @ second) > 0)


def _log_odds(law: Vector) -> Matrix:
    return _differences(np.log(law))


def _differences(logs: Vector) -> Matrix:
    return np.asarray(logs[None, :] - logs[:, None])
