"""Checks how the history is cut into epochs: sealed by entries, one meaning each, no window over two of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from hushmq.verify.check_reconciled import is_lost
from hushmq.verify.claims import Claim, judged, not_checked
from hushmq.verify.export_file import Export, StreamTerms, Tree, unknown
from hushmq.verify.exported_epochs import ExportedEpoch, epoch_at, epochs_of
from hushmq.verify.pricings import contains
from hushmq.verify.signed_text import epoch_digest

SAME_POLICY = {"contradiction", "restored"}
"""Reasons for which an epoch ends while the policy goes on."""


def check_epochs(export: Export, stream: str) -> Iterator[Claim]:
    """Every epoch after the first is the one that an entry began; each has one meaning, and no setting is of two."""
    tree, about = export.streams[stream], f"{stream}: epochs"
    rows = tree.get("epochs", [])
    strange = [what for row in rows for what in unknown("epoch", row)]
    if strange:
        yield not_checked(about, "nothing unknown in them", strange[0])
    epochs = epochs_of(export, stream)
    yield judged(about, "as they began", _sealing_faults(rows, tree["entries"]), f"{len(epochs)} epochs")
    wrong = [
        *_window_faults(epochs, tree["entries"]),
        *_setting_faults(export, stream, epochs),
        *_meaning_faults(export, stream, epochs),
        *_theta_faults(export, stream, epochs),
    ]
    yield judged(about, "one meaning each", wrong, "with windows, settings and a Θ of their own")


def _sealing_faults(rows: Sequence[Tree], entries: Sequence[Tree]) -> Iterator[str]:
    """Rows number on, at rising ticks; each is sealed by the digest in an entry, and each such entry has its row."""
    beginnings = {entry["id"]: entry for entry in entries if entry["audience"] == "epoch"}
    if rows and (rows[0]["number"], rows[0]["entry"], rows[0]["settings"]) != (1, None, 0):
        yield "the first is not number 1"
    for before, row in pairwise(rows):
        name = f"epoch {row['number']}"
        if row["number"] != before["number"] + 1 or row["first"] < before["first"]:
            yield f"{name} does not follow epoch {before['number']}"
        entry = beginnings.pop(row["entry"], None)
        if entry is None:
            yield f"{name} has no entry that began it"
        elif entry["noise_digest"] != epoch_digest(before, row) or entry["first"] != row["first"]:
            yield f"{name} is not the one that entry {entry['id']} began"
        elif entry["tilt"] != 0:
            yield f"entry {entry['id']} began {name} and charges something"
    for number in beginnings:
        yield f"entry {number} began an epoch that is not there"


def _window_faults(epochs: Sequence[ExportedEpoch], entries: Sequence[Tree]) -> Iterator[str]:
    """A window is of the epoch in which it was charged, and through noise that was issued by then."""
    for entry in (one for one in entries if one["audience"] == "public" and not is_lost(one)):
        begun = [one for one in epochs if one.entry < entry["id"]] or epochs[:1]
        if epoch_at(epochs, entry["first"]) != epoch_at(epochs, entry["last"]):
            yield f"the window of entry {entry['id']} is over two epochs"
        elif epoch_at(epochs, entry["first"]).first != begun[-1].first:
            yield f"the window of entry {entry['id']} is not in the epoch in which it was charged"
        for after in epochs[len(begun) :]:
            if entry["noise"] > after.settings:
                yield f"entry {entry['id']} names a setting that was issued after it, in epoch {after.number}"


def _setting_faults(export: Export, stream: str, epochs: Sequence[ExportedEpoch]) -> Iterator[str]:
    """In an epoch settings are of the policy it began under or later; before it, of earlier ones.

    A contradiction and a restored ledger can end an epoch under the policy that goes on.
    """
    for one in epochs[1:]:
        for version, setting in export.settings_of(stream).items():
            policy = setting.message["policy"]
            late = policy >= one.policy + (one.reason in SAME_POLICY)
            if late if version <= one.settings else policy < one.policy:
                yield f"setting {version} is on the wrong side of where epoch {one.number} began"


def _meaning_faults(export: Export, stream: str, epochs: Sequence[ExportedEpoch]) -> Iterator[str]:
    """Policies that were followed in one epoch mean the same, and so do epochs that say they do."""
    meanings: dict[str, Any] = {}
    for one, after in zip(epochs, [*epochs[1:], None], strict=True):
        for policy in export.policies:
            terms = policy.stream(stream)
            early = one.number > 1 and policy.version < one.policy
            late = after is not None and policy.version >= after.policy + (after.reason != "meaning")
            if terms is None or early or late:
                continue
            if meanings.setdefault(one.meaning, _meaning(terms)) != _meaning(terms):
                yield f"policy {policy.version} gives states another meaning within epoch {one.number}"


def _meaning(terms: StreamTerms) -> Any:
    """What a state at a tick means, by a policy; what it leaves out is as if it said the default."""
    tree = terms.tree
    states, stand_in = tree["states"], tree.get("stand_in")
    discretiser = {"hysteresis": 0.0, "aliases": {}} | tree["discretiser"]
    discretiser.pop("kind", None)
    return states, discretiser, stand_in or states[0], tree["period_ms"], tree.get("source")


def _theta_faults(export: Export, stream: str, epochs: Sequence[ExportedEpoch]) -> Iterator[str]:
    """The Θ of an ended epoch contains the floor; after a contradiction also what the next one began with."""
    for one, after in pairwise(epochs):
        theta, contradicted = after.ended_theta, after.reason == "contradiction"
        same_policy = after.reason in SAME_POLICY
        before = [
            terms
            for policy in export.policies
            if policy.version < after.policy + same_policy and (terms := policy.stream(stream)) is not None
        ]
        if not before:
            yield f"the policy of epoch {one.number} is not in the export"
        elif not all(contains(theta, floor) for floor in before[-1].floors):
            yield f"Θ of epoch {one.number} does not contain the policy's floor"
        if contradicted and not all(contains(theta, wider) for wider in _begun_with(export, stream, after)):
            yield f"Θ of epoch {one.number} is narrower than the one that the next began with"


def _begun_with(export: Export, stream: str, epoch: ExportedEpoch) -> Iterator[Tree]:
    """The Θ of the first releases of an epoch, where nothing but a contradiction can have changed it before them."""
    tree = export.streams[stream]
    charged = [
        one
        for one in tree["entries"]
        if one["audience"] == "public" and not is_lost(one) and one["id"] > epoch.entry
    ]
    for entry in charged[:1]:
        followed = export.in_force(stream, entry["at"])
        if all(terms.version == epoch.policy and len(terms.members) == 1 for terms in followed):
            yield from (one["theta"] for one in tree["releases"] if one["entry"] == entry["id"])
