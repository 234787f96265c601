"""Memoised randomized response on a chain of two states: every state's answer is drawn once and repeated for ever.

RAPPOR (Erlingsson, Pihur, Korolova 2014) and its successors bound what a stream of any length tells about a *value* by
drawing the noise once for each value. On a correlated stream the repeated answers show when the state changed, and an
adversary who knows the chain infers which answer stands for which state.
"""

from __future__ import annotations

import math


def flip_probability(epsilon: float) -> float:
    """The flip of each of the two answers whose table, which the whole stream reveals, costs ε: 1/(1+e^(ε/2))."""
    return 1 / (1 + math.exp(epsilon / 2))


def worst_loss(q: float, r: float, epsilon: float, length: int) -> float:
    """The largest loss at an instant of a stream of `length` ticks.

    Answers w of both kinds are the path or its mirror image, so the loss towards the state w_i is 2·log((1−f)/f) plus
    log P(w | X_i) / P(mirrored w | mirrored X_i), the sum of a weight for every step. The largest sums over all paths
    are found by a recursion, on either side of the instant. Answers of one kind also come from tables with equal
    answers.
    """
    if not (0 < q < 1 and 0 < r < 1):
        raise ValueError(f"q = {q:g} and r = {r:g} must lie between 0 and 1")
    if length < 1:
        raise ValueError(f"length is {length}; give at least 1")
    flip = flip_probability(epsilon)
    table_loss = 2 * math.log((1 - flip) / flip)
    return max(
        max(table_loss + _varied(state, q, r, length), _constant(state, q, r, flip, length))
        for state in (0, 1)
    )


def _varied(state: int, q: float, r: float, length: int) -> float:
    """The largest sum of weights over paths through `state` in which both states occur; −∞ for a single tick."""
    stay, change = math.log((1 - q) / (1 - r)), math.log(q / r)
    weight = {(0, 0): stay, (0, 1): change, (1, 0): -change, (1, 1): -stay}
    # The largest sums over paths of so many steps from a state: staying in it, and with a change.
    sums = [{0: (0.0, -math.inf), 1: (0.0, -math.inf)}]
    for _ in range(length - 1):
        last = sums[-1]
        sums.append(
            {
                s: (
                    weight[s, s] + last[s][0],
                    max(weight[s, s] + last[s][1], weight[s, 1 - s] + max(last[1 - s])),
                )
                for s in (0, 1)
            }
        )
    both = ((sums[a][state], sums[length - 1 - a][state]) for a in range(length))
    return max(max(past[1] + max(future), past[0] + future[1]) for past, future in both)


def _constant(state: int, q: float, r: float, flip: float, length: int) -> float:
    """The loss towards `state` at the first of `length` equal answers."""
    stays = ((1 - q) ** (length - 1), (1 - r) ** (length - 1))
    one_answer = flip * (1 - flip)  # both tables' answer is the one shown: any path fits
    likely = one_answer + (1 - flip) ** 2 * stays[state]
    unlikely = one_answer + flip**2 * stays[1 - state]
    return math.log(likely / unlikely)
