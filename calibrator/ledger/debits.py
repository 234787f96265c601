"""The entries of the public account, as debits behind the noise they were charged through.

Theorem (docs/theory.md, Theorem 8). A window is counted from sanitized states. If all that is published
about one sanitized state has tilt w, then what is published about the true state has tilt

    amplified(ρ, w) = max over directions of log( ((1−ρ0)·e^w + ρ0) / (ρ1·e^w + 1−ρ1) ).

For more than two states the noise is an emission matrix B, and amplified(B, w) the largest log ratio over pairs of
states and sets S of outputs, log( (1 + (e^w−1)·B[u](S)) / (1 + (e^w−1)·B[v](S)) ) (pufferfish/categorical/emission.py).

amplified is not subadditive: two things counted from the SAME sanitized states share their noise. So the ledger
keeps w itself; the w of one tick are added first and amplified once, through the least protecting of the noises that
its entries name. Which one protects least depends on w, so each entry names one that does for the sums that it makes
(`PublicAccount.least_protecting`). What was lost with an old ledger is charged on the true states themselves: its entry
names no noise (docs/theory-accounts.md, A11).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Connection, Row, bindparam, select

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.ledger.issued_noise import issued_noises
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.calibrator.store.tables import ledger
from hushmq.pufferfish.protocols import Noise

UNPERTURBED = 0
"""The version of noise in an entry whose tilt is on the true states: no setting has it."""


class Amplifier(Protocol):
    """What turns a tilt on sanitized states into one on true states: noise."""

    def amplified(self, w: float) -> float:
        """The tilt on the true states of something whose tilt on the sanitized states is w."""


@dataclass(frozen=True, slots=True)
class Unperturbed:
    """In place of a noise: the tilt is on the true states."""

    def amplified(self, w: float) -> float:
        """The tilt itself. No noise amplifies by more (docs/theory-accounts.md, A11)."""
        return w


@dataclass(frozen=True, slots=True)
class Debit:
    """One entry of the public account: `tilt` nano-nats on the sanitized states of first … last."""

    first: int
    last: int
    tilt: int
    noise: Amplifier


# Made once: to put a statement together costs more than to run it.
_DEBITS = (
    select(ledger)
    .where(
        ledger.c.stream == bindparam("stream"),
        ledger.c.audience == "public",
        ledger.c.id > bindparam("after"),
    )
    .order_by(ledger.c.id)
)


def public_debits(db: Connection, stream: str) -> list[Debit]:
    """The stream's public account so far."""
    return [debit for _, debit in debits_after(db, stream, 0)]


def debits_after(db: Connection, stream: str, entry: int) -> list[tuple[int, Debit]]:
    """The entries of the stream's public account after a given one, with their numbers, in order."""
    rows = db.execute(_DEBITS, {"stream": stream, "after": entry}).all()
    noises = issued_noises(db, stream) if rows else {}
    return [(row.id, debit_of(row, noises)) for row in rows]


def debit_of(row: Row[Any], noises: Mapping[int, Noise]) -> Debit:
    """The debit that a row of the ledger stands for; Problem where the noise it was charged through is lost."""
    if row.noise == UNPERTURBED:
        return Debit(row.first, row.last, row.tilt, Unperturbed())
    if row.noise not in noises:
        raise Problem(
            f"ledger entry {row.id} was charged through noise version {row.noise} of {row.stream}, which the database "
            "does not hold: restore its settings"
        )
    return Debit(row.first, row.last, row.tilt, noises[row.noise])


def joint_tilt(tilt: int, noises: Iterable[Amplifier]) -> float:
    """The tilt on true states of `tilt` nano-nats on the sanitized ones, behind the least protecting of the noises."""
    return max(noise.amplified(tilt / NANO) for noise in noises)
