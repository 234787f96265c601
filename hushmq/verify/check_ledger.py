"""Checks what was spent: entries that nobody changed, windows charged once, results that their entry paid for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from hushmq.verify.account_timelines import account_runs
from hushmq.verify.check_answers import answer_faults, answers_cost, sliding_faults
from hushmq.verify.check_reconciled import is_lost, last_number
from hushmq.verify.claims import Claim, Verdict, judged, judged_loss, not_checked
from hushmq.verify.export_file import Export, SignedSetting, StreamTerms, Tree, unknown
from hushmq.verify.exported_epochs import account_epochs, public_ticks
from hushmq.verify.outward import ZERO
from hushmq.verify.pricings import adversary_of, contains
from hushmq.verify.signed_text import EMPTY_HEAD, entry_digest, noise_digest, sealed_by

NANO = 10**9
FLOORED = 4
"""Nano-nats by which rounding down may have changed how an entry's tilt is shared."""


def check_entries(export: Export, stream: str, calibrator_keys: Sequence[bytes]) -> Iterator[Claim]:
    """The entries are the calibrator's, in their order, none missing; each is of a window of its policy, once."""
    tree, settings = export.streams[stream], export.settings_of(stream)
    entries, about = tree["entries"], f"{stream}: entries"
    strange = [what for entry in entries for what in unknown("entry", entry)]
    strange += [
        f"entry {entry['id']} is of the audience {entry['audience']!r}, which this checker does not know"
        for entry in entries
        if entry["audience"] not in {"public", "epoch"} and not is_lost(entry)
    ]
    if strange:
        yield not_checked(about, "nothing unknown in them", strange[0])
    wrong, before = [], EMPTY_HEAD
    for number, entry in enumerate(entries, start=1):
        if entry["digest"] != entry_digest(before, entry):
            wrong.append(
                f"entry {entry['id']}, number {number}, is not the one that followed number {number - 1}"
            )
        before = entry["digest"]
    numbers = [entry["id"] for entry in entries]
    if numbers != sorted(set(numbers)):
        wrong.append("the numbers of entries do not rise")
    mark = f"{export.cohort}\n{stream}\n{last_number(tree)}\n{before}".encode()
    if tree["head"] != before or not sealed_by(calibrator_keys, mark, tree["seal"]):
        wrong.append(f"the calibrator did not seal these {len(entries)} entries and their last digest")
    yield judged(about, "as written, none missing", wrong, f"{len(entries)} entries, sealed")
    charges = [entry for entry in entries if entry["audience"] == "public" and not is_lost(entry)]
    yield judged(about, "each window charged once", _charged_twice(charges), "every one once")
    wrong = []
    for entry in charges:
        wrong += [f"entry {entry['id']}: {what}" for what in _entry_faults(export, stream, entry, settings)]
    yield judged(about, "of their policy and noise", wrong, f"{len(charges)} entries")


def _charged_twice(entries: Sequence[Tree]) -> list[str]:
    seen: set[tuple[str, str, int]] = set()
    wrong = []
    for entry in entries:
        key = entry["window"], entry["scope"], entry["first"]
        if key in seen:
            wrong.append(f"entry {entry['id']} charges a window that was charged before")
        seen.add(key)
    return wrong


def _entry_faults(
    export: Export, stream: str, entry: Tree, settings: dict[int, SignedSetting]
) -> Iterator[str]:
    setting = settings.get(entry["noise"])
    if setting is None:
        yield f"its noise, version {entry['noise']}, is not in the export"
    elif noise_digest(setting.message["noise"]) != entry["noise_digest"]:
        yield f"its noise is not that of version {entry['noise']}"
    if not entry["tilt"] > 0:
        yield "it costs nothing"
    if not any(_is_window(policy, entry) for policy in export.in_force(stream, entry["at"])):
        yield "the policy in force has no such window"


def _is_window(policy: StreamTerms, entry: Tree) -> bool:
    """Whether an entry is of a window of a policy: ticks n·length … (n+1)·length − 1, or strides."""
    window = policy.tree["windows"].get(entry["window"])
    return (
        window is not None
        and entry["scope"] in window.get("scopes", ["cohort"])
        and window["ticks"] % policy.stride == 0
        and entry["first"] % (window["ticks"] // policy.stride) == 0
        and entry["last"] == entry["first"] + window["ticks"] // policy.stride - 1
    )


def check_releases(
    export: Export, stream: str, progress: Callable[[float], None] = lambda share: None
) -> Iterator[Claim]:
    """Every result is of its entry, carries the noise that its entry paid for, and states the loss it had."""
    tree = export.streams[stream]
    releases, about = tree["releases"], f"{stream}: releases"
    entries = {entry["id"]: entry for entry in tree["entries"]}
    strange = [what for release in releases for what in unknown("release", release)]
    if strange:
        yield not_checked(about, "nothing unknown in them", strange[0])
    wrong = []
    for release in releases:
        entry = entries.get(release["entry"])
        if entry is None:
            wrong.append(f"the release of entry {release['entry']} has no entry")
            continue
        policies = export.in_force(stream, entry["at"])
        faults = [list(_release_faults(release, entry, policy)) for policy in policies] or [
            ["no policy was in force"]
        ]
        wrong += [f"entry {entry['id']}: {what}" for what in min(faults, key=len)]
    wrong += sliding_faults(releases)
    yield judged(about, "what their entries paid for", wrong, f"{len(releases)} releases")
    if not wrong:
        yield _check_stated_losses(export, stream, progress)


def _release_faults(release: Tree, entry: Tree, policy: StreamTerms) -> Iterator[str]:
    if any(release[name] != entry[name] for name in ("stream", "window", "first", "last", "tilt")):
        yield "its release is of another window or tilt"
    if (release["scope"] == "cohort") != (entry["scope"] == "cohort"):
        yield "its release is for another scope"
    learns = entry["why"] == "release and statistics"
    paid = (entry["tilt"] + FLOORED) * policy.release_share if learns else Fraction(entry["tilt"])
    cost = policy.counts_changed * NANO / Fraction(release["scale"]) + answers_cost(release)
    if cost > paid:
        yield f"noise of scale {release['scale']:g} costs {float(cost):.1f} nano-nats, {float(paid):.1f} were paid"
    yield from answer_faults(release, policy)
    if release["budget"] != policy.epsilon("public"):
        yield f"it names a budget of {release['budget']:g}, the policy in force {policy.epsilon('public'):g}"
    if not names_account(release, policy):
        yield "it names another account than the policy in force"
    if release["adversary"] != policy.adversary:
        yield f"it is priced against the {release['adversary']} adversary, the policy in force names another"
    if not all(contains(release["theta"], floor) for floor in policy.floors):
        yield "its Θ does not contain the policy's floor"


def names_account(message: Tree, policy: StreamTerms) -> bool:
    """Whether a release or a ledger's state says whose account its loss is of, as the policy has it."""
    streams, devices = policy.members, len(policy.group(None))
    if len(streams) == 1 and devices == 1:
        return message.get("account") is None
    account = message.get("account")
    return account is not None and (sorted(account["streams"]), account["devices"]) == (
        sorted(streams),
        devices,
    )


def _check_stated_losses(export: Export, stream: str, progress: Callable[[float], None]) -> Claim:
    """The loss that every release states is that of all entries up to its own, under the Θ that it names.

    At the ticks from which on its epoch lasts: what ended epochs have lost is stated beside (check_accounts).
    A loss never falls as entries are added: what is proved of the last release under a Θ bounds all that state as much.
    """
    tree = export.streams[stream]
    about, claim = f"{stream}: releases", "their stated losses"
    entries: list[Tree] = tree["entries"]
    times = {entry["id"]: entry["at"] for entry in entries}
    proved: dict[str, float] = {}
    cut_short = 0
    worst: Claim | None = None
    releases = tree["releases"][::-1]
    for number, release in enumerate(releases):
        progress(number / len(releases))
        basis = json.dumps([release["theta"], release["adversary"], release["budget"]], sort_keys=True)
        at = times[release["entry"]]
        terms = export.in_force(stream, at)[-1]
        epochs = account_epochs(export, terms, release["entry"])
        known = f"{basis} {terms.version} {epochs[-1].number} {[export.device_tilt(one, at) for one in terms.members]}"
        if known in proved and proved[known] <= release["loss"]:
            continue
        try:
            adversary = adversary_of(release["theta"], release["adversary"], terms.stride)
            runs = account_runs(export, terms, "public", epochs[-1], through=release["entry"], by=at)
        except NotImplementedError as what:
            return not_checked(about, claim, str(what))
        except KeyError as missing:
            return not_checked(about, claim, f"noise version {missing} is not in the export")
        found = adversary.largest_loss(runs, release["loss"], public_ticks(epochs, epochs[-1]))
        one = judged_loss(
            f"{stream}: release of entry {release['entry']}",
            "its stated loss",
            found,
            budget=release["budget"],
            stated=release["loss"],
        )
        if one.verdict is not Verdict.HOLDS:
            return one
        if found.cut_short:
            cut_short += 1
        else:
            proved[known] = release["loss"]
        if worst is None or (worst.recomputed or ZERO).high < found.loss.high:
            worst = one
    if worst is None:
        return Claim(about, claim, Verdict.HOLDS, "none yet")
    unproved = f", of {cut_short} only that they keep the budget" if cut_short else ""
    return Claim(
        about,
        claim,
        Verdict.HOLDS,
        f"{len(releases)} covered{unproved}; the largest",
        worst.budget,
        worst.stated,
        worst.recomputed,
    )
