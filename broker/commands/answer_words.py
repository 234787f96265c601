"""Answers to queries in words, and as the cells of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hushmq.broker.contract.answer_message import (
    AnyAnswer,
    DwellAnswer,
    MeanAnswer,
    QuantileAnswer,
    SlidingAnswer,
    TopAnswer,
    TransitionsAnswer,
)
from hushmq.broker.contract.messages import Release

SHOWN = 4
"""How many of an answer's numbers a line shows at most: the largest ones."""


def answers_in_words(message: Release) -> str:
    """The answers of a release, after a semicolon each; nothing where it has none."""
    return "".join(f"; {name} {_words(one, message.states)}" for name, one in message.answers.items())


def _words(answer: AnyAnswer, states: Sequence[str]) -> str:
    match answer:
        case MeanAnswer():
            return f"{answer.value:.4g} ± {answer.standard_error:.2g}"
        case QuantileAnswer():
            low, high = answer.interval
            return answer.state + (f" in {low} – {high}" if low != high else "")
        case TopAnswer():
            return ", ".join(answer.states) + ("" if answer.certain else " (not certain)")
        case DwellAnswer():
            ends = zip(states, answer.seconds, strict=True)
            return ", ".join(
                f"{state} {low:.3g}–{'∞' if high is None else f'{high:.3g}'} s" for state, (low, high) in ends
            )
        case SlidingAnswer() | TransitionsAnswer():
            cells = sorted(answer_cells(answer, states), key=lambda cell: -cell[1])
            more = f" and {len(cells) - SHOWN} more" if len(cells) > SHOWN else ""
            return (
                ", ".join(f"{item} {value:.4f} ± {error:.4f}" for item, value, error, *_ in cells[:SHOWN])
                + more
            )


def answer_cells(answer: AnyAnswer, states: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield item, value, standard error, and the ends of the interval of each number in an answer."""
    match answer:
        case MeanAnswer():
            yield None, answer.value, answer.standard_error, *answer.interval
        case QuantileAnswer():
            yield answer.state, answer.at, None, *(answer.edges or (None, None))
        case TopAnswer():
            for rank, state in enumerate(answer.states, start=1):
                yield state, rank, None, None, None
        case DwellAnswer():
            for state, ends in zip(states, answer.seconds, strict=True):
                yield state, None, None, *ends
        case SlidingAnswer():
            for cells in zip(
                states, answer.frequencies, answer.standard_errors, answer.intervals, strict=True
            ):
                yield *cells[:3], *cells[3]
        case TransitionsAnswer():
            for row, before in enumerate(states):
                for column, after in enumerate(states):
                    share, off = answer.shares[row][column], answer.half_widths[row][column]
                    error = answer.standard_errors[row][column]
                    yield f"{before} → {after}", share, error, share - off, share + off
