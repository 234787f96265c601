"""Checks what was charged after a ledger was restored from an old backup (docs/theory-accounts.md, A11)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b

from hushmq.verify.claims import Claim, judged, not_checked
from hushmq.verify.export_file import Export, Tree, unknown
from hushmq.verify.signed_text import signed_by

NO_NOISE = 0
"""What an entry names in place of a version of noise if its tilt is on the true states."""


def is_lost(entry: Tree) -> bool:
    """Whether an entry charges for others that were lost."""
    return entry["audience"] != "epoch" and bool(entry["noise"] == NO_NOISE)


def last_number(tree: Tree) -> int:
    """The number of a stream's last entry: numbers of lost entries are not given again."""
    return len(tree["entries"]) + sum(
        int(one["entries"] - one["after"]) for one in tree.get("reconciled", [])
    )


def check_reconciled(export: Export, stream: str, ops_keys: Sequence[bytes]) -> Iterator[Claim]:
    """Every entry without noise is of a statement that ops signed, and charges what it says."""
    tree, about = export.streams[stream], f"{stream}: lost entries"
    lost = [entry for entry in tree["entries"] if is_lost(entry)]
    statements = tree.get("reconciled", [])
    if not lost and not statements:
        return
    strange = [what for one in statements for what in unknown("reconciled", one)]
    wrong: list[str] = []
    charged: set[int] = set()
    for one in statements:
        envelope = json.loads(one["statement"])
        message = envelope["message"]
        if not signed_by(ops_keys, "Reconciliation", envelope) or message["cohort"] != export.cohort:
            wrong.append(f"no trusted key of ops signed the statement of entry {one['entry']}")
            continue
        strange += unknown("statement", message)
        stretch = message["streams"].get(stream)
        if stretch is None:
            wrong.append(f"the statement of entry {one['entry']} does not name {stream}")
            continue
        strange += unknown("lost stretch", stretch)
        digest = blake2b(one["statement"].encode(), digest_size=16).hexdigest()
        mine = [entry for entry in lost if entry["noise_digest"] == digest]
        charged |= {entry["id"] for entry in mine}
        numbers = stretch["after"], max(stretch["entries"], stretch["after"])
        tilts = [(entry["audience"], entry["tilt"]) for entry in mine]
        if (
            (one["after"], one["entries"]) != numbers
            or tilts != [("public", stretch["public"]), ("operator", stretch["operator"])]
            or mine[0]["id"] != one["entry"]
            or any(entry["first"] > stretch["first"] or entry["last"] < stretch["last"] for entry in mine)
        ):
            wrong.append(f"entry {one['entry']} does not charge what ops signed")
        wrong += _too_little(export, stream, stretch)
    wrong += [
        f"entry {entry['id']} names no noise, and no statement"
        for entry in lost
        if entry["id"] not in charged
    ]
    if strange:
        yield not_checked(about, "nothing unknown in them", strange[0])
    yield judged(about, "charged as ops signed", wrong, f"{len(statements)} statements")


def _too_little(export: Export, stream: str, stretch: Tree) -> Iterator[str]:
    """The tilts of a statement are those of the budgets of each policy that it names."""
    for policy in export.policies:
        terms = policy.stream(stream)
        if policy.version not in stretch["policies"] or terms is None:
            continue
        for audience in ("public", "operator"):
            most = terms.epsilon(audience) / len(terms.group(None))
            if audience == "operator":
                most = terms.epsilon(audience) * float(terms.share(None))
            if stretch[audience] < most * 10**9 * (1 - 1e-12):
                yield f"the statement charges the {audience} less than the budget of policy {policy.version}"
