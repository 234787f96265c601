"""A calibrator's ledger, read as a privacy officer reads it: what was charged, to whom, and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hushmq.broker.contract.problem import Problem
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.protocols import Theta

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from hushmq.calibrator.ledger.ledger_report import StreamLedger

__all__ = ["AudienceAccount", "CheckResult", "EndedEpochLoss", "Ledger", "LedgerEntry", "StreamAccounts"]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One entry: what the release of a window cost each of its ticks, in nats on the sanitized states."""

    id: int
    stream: str
    window: str
    scope: str
    first: int
    last: int
    tilt: float
    why: str
    at: str


@dataclass(frozen=True, slots=True)
class AudienceAccount:
    """One audience's account: the budget of the policy in force, and the loss of everything charged so far."""

    budget: float | None
    loss: float
    undecided: float = 0.0
    """The loss to the undecided adversary, who knows Θ and not the chain, whatever adversary the budget is for."""

    @property
    def left(self) -> float | None:
        """What is left of the budget; None without a policy."""
        return None if self.budget is None else self.budget - self.loss


@dataclass(frozen=True, slots=True)
class EndedEpochLoss:
    """An epoch that has ended, why, and what its ticks have lost to each audience under the Θ that it ended with."""

    number: int
    first: int
    last: int
    ended_by: str
    operator: float
    public: float


@dataclass(frozen=True, slots=True)
class StreamAccounts:
    """Both accounts of a stream's current epoch, and the assumption that they are priced under; None without a policy.

    `ended` are the epochs before it; `broken_promises` says in words where one of them lost more than its budget.
    """

    stream: str
    operator: AudienceAccount
    public: AudienceAccount
    adversary: Adversary | None
    theta: Theta | None
    ended: tuple[EndedEpochLoss, ...] = ()
    broken_promises: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was recomputed from the entries, and whether it is right."""

    stream: str
    name: str
    passed: bool
    detail: str


class Ledger:
    """A calibrator's database, opened to read only; a calibrator may work on it at the same time.

        with Ledger("/var/lib/hushmq-calibrator/ledger.db") as ledger:
            for stream in ledger.streams():
                print(stream, ledger.accounts(stream).public.left)

    Losses are recomputed from the entries, never remembered. It needs the libraries of `hushmq[calibrator]`.
    """

    def __init__(self, database: Path | str, *, mark_file: Path | None = None) -> None:
        """Raises Problem if it cannot be opened: no such file, no ledger in it, a library missing.

        Args:
            database: The file of a SQLite database, or a URL such as `postgresql+psycopg://host/name`.
            mark_file: The high-water mark, which `verify` compares; for SQLite `<database>.mark` by default.
        """
        try:
            from hushmq.calibrator.store.open_database import open_to_read, sqlite_url  # noqa: PLC0415  # an extra
        except ModuleNotFoundError as error:
            raise Problem(
                f"Ledger needs {error.name}, which is not installed: pip install 'hushmq[calibrator]'"
            ) from None
        is_url = isinstance(database, str) and "://" in database
        self._engine = open_to_read(str(database) if is_url else sqlite_url(Path(database)))
        beside = Path(f"{self._engine.url.database}.mark")
        if mark_file is None and self._engine.dialect.name == "sqlite" and beside.is_file():
            mark_file = beside
        self._mark_file = mark_file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._engine.dispose()

    def streams(self) -> list[str]:
        """The streams of the ledger and of the policy in force, sorted."""
        from hushmq.calibrator.ledger.ledger_report import streams  # noqa: PLC0415  # an extra

        with self._read() as db:
            return streams(db)

    def accounts(self, stream: str) -> StreamAccounts:
        """Both audiences' accounts under the policy in force and the learned Θ; Problem without such a stream."""
        ledger = self._stream_ledger(stream)
        budgets = ledger.policy.epsilon if ledger.policy else None
        return StreamAccounts(
            stream=stream,
            operator=AudienceAccount(
                budgets.operator if budgets else None, ledger.operator, ledger.undecided.operator
            ),
            public=AudienceAccount(
                budgets.public if budgets else None, ledger.public, ledger.undecided.public
            ),
            adversary=ledger.policy.adversary if ledger.policy else None,
            theta=ledger.theta,
            ended=tuple(
                EndedEpochLoss(
                    one.epoch.number, *one.epoch.ticks, one.epoch.ended_by, one.operator, one.public
                )
                for one in ledger.ended
            ),
            broken_promises=tuple(ledger.broken_promises()),
        )

    def entries(self, stream: str) -> list[LedgerEntry]:
        """The stream's entries, oldest first; Problem without such a stream."""
        return [
            LedgerEntry(
                row.id, stream, row.window, row.scope, row.first, row.last, row.tilt / 1e9, row.why, row.at
            )
            for row in self._stream_ledger(stream).entries
        ]

    def verify(self) -> list[CheckResult]:
        """Recompute everything from the entries, as `hushmq ledger verify` does; the ledger is right if all passed."""
        from hushmq.calibrator.ledger.ledger_report import streams  # noqa: PLC0415  # an extra
        from hushmq.calibrator.ledger.verify_ledger import verify  # noqa: PLC0415  # an extra

        with self._read() as db:
            return [
                CheckResult(one.stream, one.name, one.passed, one.detail)
                for stream in streams(db)
                for one in verify(db, stream, self._mark_file)
            ]

    def _stream_ledger(self, stream: str) -> StreamLedger:
        from hushmq.calibrator.ledger.ledger_report import read_ledger, streams  # noqa: PLC0415  # an extra

        with self._read() as db:
            known = streams(db)
            if stream not in known:
                raise Problem(
                    f"stream {stream!r} is not in the ledger; there are {', '.join(known) or 'none'}"
                )
            return read_ledger(db, stream)

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with self._engine.connect() as db:
            yield db
