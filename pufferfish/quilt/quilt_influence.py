"""The influence of a chain's nodes on their quilts, for three kinds of initial law.

The influence of node i on the quilt {i−a, i+b} is the maximum over pairs of possible states x, y of (SWC equation 5)

    log P(X_i=y)/P(X_i=x) + max_z log P^a[z,x]/P^a[z,y] + max_z log P^b[x,z]/P^b[y,z],

where z ranges over the possible states. If the first state is known, it is the only possible one, and the first two
terms of the quilt {X_1} cancel: its influence is 0, which SWC's running example overlooks.
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

POWER_THRESHOLD = 4096
"""From this number of instants on, a power of the chain is cheaper than as many single steps."""

UNIT = float(np.finfo(np.float64).eps)


class PowerRatios:
    """The second and third term: log-ratios of the entries of P^h. Powers and ratios are computed once."""

    def __init__(self, chain: Chain) -> None:
        """Starts from the first power."""
        self.k = chain.k
        self._squares = [chain.transition]
        self._possible = [chain.transition > 0]
        self._right: dict[int, Matrix] = {}
        self._left: dict[tuple[int, bytes], Matrix] = {}

    def right(self, b: int) -> Matrix:
        """For each pair x, y: max over z of log P^b[x,z]/P^b[y,z]."""
        if b not in self._right:
            power = self.power(b)
            self._right[b] = log_ratios(power, self._support_if_tiny(power, b))
        return self._right[b]

    def left(self, a: int, support: Mask) -> Matrix:
        """For each pair x, y: max over the possible z of log P^a[z,x]/P^a[z,y]."""
        key = (a, support.tobytes())
        if key not in self._left:
            power = self.power(a)
            support_mask = self._support_if_tiny(power, a)
            self._left[key] = log_ratios(
                power[support].T, None if support_mask is None else support_mask[support].T
            )
        return self._left[key]

    def power(self, h: int) -> Matrix:
        """P^h by repeated squaring; no term is negative, so its relative error is below h·(k+2) unit roundoffs."""
        result: Matrix | None = None
        for bit in range(h.bit_length()):
            if bit == len(self._squares):
                self._squares.append(self._squares[-1] @ self._squares[-1])
            if h >> bit & 1:
                result = self._squares[bit] if result is None else result @ self._squares[bit]
        return np.eye(self.k) if result is None else result

    def possible(self, h: int) -> Mask:
        """Where P^h is positive, from the supports alone so that no underflow occurs."""
        result = np.eye(self.k, dtype=bool)
        for bit in range(h.bit_length()):
            if bit == len(self._possible):
                self._possible.append(_product_support(self._possible[-1], self._possible[-1]))
            if h >> bit & 1:
                result = _product_support(result, self._possible[bit])
        return result

    def _support_if_tiny(self, power: Matrix, h: int) -> Mask | None:
        return self.possible(h) if power.min() < TINY else None


class InitialLaw(Protocol):
    """The first term: the laws of the nodes that the initial law allows."""

    def support(self, i: int) -> Mask:
        """Which states are possible at node i."""
        ...

    def log_odds(self, i: int) -> Matrix:
        """[x, y]: the largest log P(X_i=y)/P(X_i=x) over the laws allowed."""
        ...

    def log_odds_from(self, i: int) -> Matrix | None:
        """Upper bound on `log_odds` at i and at every later node; None if unknown."""
        ...


class StationaryLaw:
    """The stationary law π at every node."""

    def __init__(self, chain: Chain) -> None:
        """ValueError for a reducible chain, which has no unique stationary law."""
        self._odds = _log_odds(chain.stationary())
        self._all_states = np.ones(chain.k, dtype=bool)

    def support(self, i: int) -> Mask:
        """Every state."""
        return self._all_states

    def log_odds(self, i: int) -> Matrix:
        """Those of π."""
        return self._odds

    def log_odds_from(self, i: int) -> Matrix | None:
        """Those of π."""
        return self._odds


class GivenLaw:
    """A given law p of the first node; node i has the law p·P^(i−1)."""

    def __init__(self, chain: Chain, initial: Vector, ends: PowerRatios) -> None:
        """Shares the powers already computed."""
        self._chain = chain
        self._powers = ends
        self._laws = [initial]
        self._supports = [initial > 0]
        self._constant_support = False

    def support(self, i: int) -> Mask:
        """The states reachable from the possible first states in i−1 steps; constant once two supports are equal."""
        while len(self._supports) < i and not self._constant_support:
            following: Mask = np.asarray((self._chain.transition > 0)[self._supports[-1]].any(axis=0))
            self._constant_support = np.array_equal(following, self._supports[-1])
            self._supports.append(following)
        return self._supports[min(i, len(self._supports)) - 1]

    def law(self, i: int) -> Vector:
        """P(X_i = ·), step by step or, for a distant node, by a power of the chain."""
        if i > len(self._laws) + POWER_THRESHOLD:
            return self._laws[0] @ self._powers.power(i - 1)
        while len(self._laws) < i:
            self._laws.append(self._laws[-1] @ self._chain.transition)
        return self._laws[i - 1]

    def log_odds(self, i: int) -> Matrix:
        """The log odds of p·P^(i−1)."""
        law, support = self.law(i), self.support(i)
        if np.any(law[support] < TINY):
            return np.full((self._chain.k, self._chain.k), np.inf)
        return _log_odds(np.where(support, law, 1.0))

    def log_odds_from(self, i: int) -> Matrix | None:
        """The log odds of π plus the spread of log p_i/π, which never grows.

        p_(j+1)/π is the average of p_j/π under the reversed chain.
        """
        if self._log_stationary is None or not self.support(i).all():
            return None
        ratios = np.log(np.maximum(self.law(i), TINY)) - self._log_stationary
        return _differences(self._log_stationary) + float(ratios.max() - ratios.min())

    @cached_property
    def _log_stationary(self) -> Vector | None:
        return np.log(self._chain.stationary()) if self._chain.is_irreducible() else None


class AnyLaw:
    """Every law of the first node (SWC Appendix C.4): the supremum is approached by laws close to a single state.

    These laws leave every state possible, so a known first state is not among them.
    """

    def __init__(self, ends: PowerRatios) -> None:
        """Shares the powers already computed."""
        self._powers = ends
        self._all_states = np.ones(ends.k, dtype=bool)
        self._all_follow = bool(ends.possible(1).any(axis=0).all())

    def support(self, i: int) -> Mask:
        """The states reachable in i−1 steps: all of them if each state has a predecessor."""
        return self._all_states if self._all_follow else np.asarray(self._powers.possible(i - 1).any(axis=0))

    def log_odds(self, i: int) -> Matrix:
        """The maximum over first states z of log P^(i−1)[z,y]/P^(i−1)[z,x]."""
        return self._powers.left(i - 1, self._all_states).T

    def log_odds_from(self, i: int) -> Matrix | None:
        """The log odds at i: later laws are averages of the laws at i."""
        return self.log_odds(i) if self.support(i).all() else None


class ChainInfluence:
    """The influences of the nodes of one chain with one kind of initial law."""

    def __init__(self, chain: Chain, *, any_initial: bool = False) -> None:
        """`any_initial` replaces the chain's initial law by the set of all laws."""
        self._chain = chain
        self._powers = PowerRatios(chain)
        self._start: InitialLaw
        if any_initial:
            self._start = AnyLaw(self._powers)
        elif chain.initial is None:
            self._start = StationaryLaw(chain)
        else:
            self._start = GivenLaw(chain, chain.initial, self._powers)

    def at(self, i: int) -> Influence:
        """The influence of node i on its quilts."""
        states = self._start.support(i)
        log_odds = cache(partial(self._start.log_odds, i))

        def influence(a: int | None, b: int | None) -> float:
            terms = [] if b is None else [self._powers.right(b)]
            if a is not None:
                terms += [log_odds(), self._powers.left(a, self._start.support(i - a))]
            return self._largest_sum(terms, states, (a or 0) + (b or 0))

        return influence

    def from_on(self, i: int) -> Influence | None:
        """Upper bound on the influence of node i and of every later one, for quilts with a left node."""
        odds = self._start.log_odds_from(i)
        return None if odds is None else self._with_odds(odds)

    def at_infinity(self) -> Influence | None:
        """The limit of the influence for late nodes; None if the chain is reducible or periodic."""
        if not self._chain.is_irreducible() or self._chain.period() > 1:
            return None
        return self._with_odds(_log_odds(self._chain.stationary()))

    def _with_odds(self, odds: Matrix) -> Influence:
        all_states = np.ones(self._chain.k, dtype=bool)

        def influence(a: int | None, b: int | None) -> float:
            terms = [] if b is None else [self._powers.right(b)]
            if a is not None:
                terms += [odds, self._powers.left(a, all_states)]
            return self._largest_sum(terms, all_states, (a or 0) + (b or 0))

        return influence

    def _largest_sum(self, terms: list[Matrix], states: Mask, span: int) -> float:
        """The largest sum over pairs of possible states, rounded up."""
        if not terms:
            return 0.0
        if not states.all():
            pairs = np.ix_(states, states)
            terms = [term[pairs] for term in terms]
        with np.errstate(invalid="ignore"):
            largest = float(reduce(np.add, terms).max())
        if math.isnan(largest):  # ∞ − ∞: an entry has underflowed
            return math.inf
        return max(0.0, largest) + 4 * (self._chain.k + 2) * UNIT * span


def _product_support(first: Mask, second: Mask) -> Mask:
    return np.asarray((first.astype(np.float64) @ second) > 0)


def _log_odds(law: Vector) -> Matrix:
    return _differences(np.log(law))


def _differences(logs: Vector) -> Matrix:
    return np.asarray(logs[None, :] - logs[:, None])
