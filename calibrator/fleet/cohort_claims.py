"""Who serves which cohort, and what a worker should claim or give up so that all have about the same number.

Each worker decides for itself, from what the database says of claims and workers: it may have its share of the cohorts
that its file names, rounded up, among the workers with the same `cohorts`. What nobody else takes it takes as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar

from hushmq.calibrator.store.cohort_schema import PREFIX

PATIENCE_S = 3.0
"""A cohort that nobody has claimed for so long is taken by any worker that may."""
SLOW_S = 15.0
"""The same while another worker has fewer than its share: it may be slow to take what was given up for it."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What a worker tells the others, as the name of its session."""

    name: str
    pool: str
    """The same for all workers with the same `cohorts`."""
    version: str
    MARK: ClassVar[str] = "hushmq worker "

    def text(self) -> str:
        return f"{self.MARK}{self.name} {self.pool} {self.version}"

    @classmethod
    def parse(cls, text: str) -> Peer | None:
        """The worker of a session with this name; None if it is none."""
        parts = text.removeprefix(cls.MARK).split(" ")
        return cls(*parts) if text.startswith(cls.MARK) and len(parts) == 3 else None


def pool_of(cohorts: Collection[str]) -> str:
    """Stands for the setting `cohorts`."""
    return blake2b("\n".join(sorted(cohorts)).encode(), digest_size=4).hexdigest()


@dataclass(frozen=True, slots=True)
class Claims:
    """Who claims what, at one moment."""

    claimants: Mapping[str, int | None]
    """Every cohort in the database, with the session that claims it."""
    peers: Mapping[int, Peer]
    """Every worker, by its session."""
    me: int = 0

    @classmethod
    def read(
        cls, claimants: Iterable[tuple[Any, ...]], workers: Iterable[tuple[Any, ...]], me: int = 0
    ) -> Claims:
        """From the rows of calibrator/fleet/fleet_survey.py."""
        return cls(
            claimants={name.removeprefix(PREFIX): pid for name, pid in claimants},
            peers={pid: found for pid, text in workers if (found := Peer.parse(text)) is not None},
            me=me,
        )


@dataclass(frozen=True, slots=True)
class Move:
    """What to claim within the worker's share and beyond it, each in order, and what to give up."""

    claim: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()
    release: tuple[str, ...] = ()


def next_move(claims: Claims, allowed: Collection[str], unclaimed_s: Mapping[str, float]) -> Move:
    """What a worker that may serve the `allowed` cohorts should do; `unclaimed_s`: for how long nobody has had each."""
    mine = sorted(cohort for cohort in allowed if claims.claimants.get(cohort) == claims.me)
    own = claims.peers.get(claims.me)
    pool = {pid for pid, peer in claims.peers.items() if own is not None and peer.pool == own.pool}
    workers = len(pool) or 1
    share = -(-len(allowed) // workers)
    load = Counter(claims.claimants.values())
    has_room = any(load[pid] < len(allowed) // workers for pid in pool - {claims.me})
    patience_s = SLOW_S if has_room else PATIENCE_S
    order = own.name if own is not None else ""
    free = sorted(
        (cohort for cohort in allowed if cohort in claims.claimants and claims.claimants[cohort] is None),
        key=lambda cohort: blake2b(f"{order}\n{cohort}".encode(), digest_size=8).digest(),
    )
    within = max(0, share - len(mine))
    beyond = [cohort for cohort in free[within:] if unclaimed_s.get(cohort, 0.0) >= patience_s]
    excess = len(mine) - share
    release = tuple(mine[-excess:]) if excess > 0 else ()
    return Move(claim=tuple(free[:within]), beyond=tuple(beyond), release=release)
