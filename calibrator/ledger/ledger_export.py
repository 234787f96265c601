"""All that was promised, for somebody else to check: signed policies and settings, entries, results, stated losses.

`hushmq verify` reads it without any of our mathematics (docs/verify.md describes the format). It holds no state,
neither true nor sanitized: what it says about data are the results that were published and the learned Θ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, select
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.signature import PrivateKey, PublicKey
from hushmq.calibrator.ledger.accounts import Accounts
from hushmq.calibrator.ledger.archived_releases import archive_records
from hushmq.calibrator.ledger.entry_numbers import skipped_numbers
from hushmq.calibrator.ledger.high_water_mark import HighWaterMarks, mark_of
from hushmq.calibrator.ledger.ledger_report import read_entries, streams
from hushmq.calibrator.ledger.ledger_state import ended_epochs, ledger_state
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.policy.follow_policy import FollowedPolicy
from hushmq.calibrator.store import tables as store

FORMAT = 1


def export_text(content: Any) -> str:
    """What is sealed of an export: canonical JSON."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def export_bundle(
    db: Connection,
    *,
    cohort: str,
    key: PrivateKey,
    ops_keys: Iterable[PublicKey],
    log: FilteringBoundLogger,
) -> dict[str, Any]:
    """The export of a cohort, sealed with the calibrator's key."""
    content: dict[str, Any] = {
        "export": FORMAT,
        "cohort": cohort,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "keys": {"ops": [str(one) for one in ops_keys], "calibrator": str(key.public)},
        "policies": _policies(db),
        "settings": [
            {"stream": row.stream, "issued": row.issued, "signed": json.loads(row.payload)}
            for row in db.execute(
                select(store.setting).order_by(store.setting.c.stream, store.setting.c.version)
            )
        ],
    }
    followed = FollowedPolicy(db, cohort=cohort, ops_keys=ops_keys, log=log)
    accounts = Accounts(followed)
    marks = HighWaterMarks(db, cohort=cohort, key=key, path=None, log=log)
    content["streams"] = {
        stream: {
            **_entries_and_results(db, stream),
            **_mark(db, cohort, stream, key),
            **(_stated(db, stream, accounts, marks) if stream in followed.streams else {}),
        }
        for stream in sorted({*streams(db), *_named(content["policies"])})
    }
    archives = [
        {"number": one.number, "releases": one.releases, "digest": one.digest, "seal": one.seal}
        for one in archive_records(db)
    ]
    if archives:
        content["archives"] = archives
    return {**content, "seal": key.seal(f"export\n{export_text(content)}".encode())}


def _policies(db: Connection) -> list[dict[str, Any]]:
    """Every policy that is kept, oldest first; the one followed has no `until`."""
    superseded = db.execute(select(store.superseded_policy).order_by(store.superseded_policy.c.version))
    found: list[dict[str, Any]] = [
        {"until": row.until, "signed": json.loads(row.payload)} for row in superseded
    ]
    return found + [
        {"until": None, "signed": json.loads(row.payload)} for row in db.execute(select(store.policy))
    ]


def _named(policies: Iterable[dict[str, Any]]) -> set[str]:
    """The streams of all policies: one that is gone may have been promised something, and released nothing."""
    return {name for one in policies for name in one["signed"]["message"]["streams"]}


def _entries_and_results(db: Connection, stream: str) -> dict[str, Any]:
    entries = read_entries(db, stream)
    results = db.execute(
        select(store.release.c.payload)
        .join(store.ledger, store.ledger.c.id == store.release.c.entry)
        .where(store.ledger.c.stream == stream)
        .order_by(store.release.c.entry, store.release.c.topic)
    )
    extents = db.execute(
        select(store.extent).where(store.extent.c.stream == stream).order_by(store.extent.c.noise)
    )
    epochs = db.execute(
        select(store.epoch).where(store.epoch.c.stream == stream).order_by(store.epoch.c.number)
    )
    return {
        "entries": [dict(row._mapping) for row in entries],
        "epochs": [dict(row._mapping) for row in epochs],
        "releases": [json.loads(row.payload) for row in results],
        "reconciled": [
            {
                "entry": one.entry,
                "after": one.after,
                "entries": one.entries,
                "statement": one.payload.decode(),
            }
            for one in skipped_numbers(db, stream)
        ],
        "extents": [{"noise": row.noise, "first": row.first, "last": row.last} for row in extents],
    }


def _mark(db: Connection, cohort: str, stream: str, key: PrivateKey) -> dict[str, Any]:
    mark = mark_of(db, stream)
    return {"head": mark.head, "seal": key.seal(mark.text(cohort, stream))}


def _stated(db: Connection, stream: str, accounts: Accounts, marks: HighWaterMarks) -> dict[str, Any]:
    """Both accounts as they are published, all ended epochs, and Θ of every device with device-specific settings."""
    live = accounts.open(db, stream)
    model = model_of(live.policy)
    state = ledger_state(db, live, marks, accounts.worst_misfit(db, stream, live.policy))
    return {
        "state": state.model_dump(mode="json"),
        "ended": [one.model_dump(mode="json") for one in ended_epochs(db, live)],
        "devices": {
            device: model.theta_message(one.theta).model_dump(mode="json")
            for device, one in live.exposures.items()
        },
    }
