"""Checks what is stated now: the loss of both audiences, of the cohort and of devices with device-specific settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from hushmq.verify.account_timelines import account_runs
from hushmq.verify.check_ledger import names_account
from hushmq.verify.check_reconciled import last_number
from hushmq.verify.claims import Claim, Verdict, judged, judged_loss, not_checked
from hushmq.verify.export_file import Export, StreamTerms, Tree, unknown
from hushmq.verify.exported_epochs import ExportedEpoch, account_epochs, operator_ticks, public_ticks
from hushmq.verify.largest_loss import Found
from hushmq.verify.outward import largest
from hushmq.verify.pricings import adversary_of, contains

AUDIENCES = ("operator", "public")
MOST_PUBLISHED = 16
"""How many ended epochs the published accounts name; the export has all of them."""


def check_accounts(export: Export, stream: str) -> Iterator[Claim]:
    """Both accounts as the calibrator states them, under the policy that is followed."""
    tree, about = export.streams[stream], f"{stream}: accounts"
    policy = export.policies[-1].stream(stream) if export.policies else None
    strange = unknown("stream", tree)
    state = tree.get("state")
    if policy is None and (strange or state is not None or tree.get("ended")):
        yield not_checked(about, "stated", "losses of a stream that the newest policy does not name")
        return
    if policy is None:
        yield Claim(about, "stated", Verdict.HOLDS, "no policy is followed for it: nothing is stated")
        return
    if state is None:
        yield not_checked(about, "stated", "the export states no losses of it")
        return
    strange += unknown("state", state)
    for audience in AUDIENCES:
        strange += unknown("account", state[audience])
    ended = tree.get("ended", [])
    strange += [what for one in ended for what in unknown("ended epoch", one)]
    if strange:
        yield not_checked(about, "nothing unknown in them", strange[0])
    yield judged(
        about, "of the policy followed", _state_faults(state, policy, tree), "budgets, adversary and Θ"
    )
    epochs = account_epochs(export, policy)
    wrong = list(_ended_faults(epochs, state, ended))
    yield judged(about, "of every epoch", wrong, f"{len(epochs) - 1} ended")
    for audience in AUDIENCES:
        account = state[audience]
        yield _check_account(export, stream, audience, policy, policy.adversary, account["loss"])
        if account.get("undecided") is not None:
            yield _check_account(export, stream, audience, policy, "undecided", account["undecided"])
        if not wrong:
            for (one, after), stated in zip(pairwise(epochs), ended, strict=True):
                yield _check_ended(export, policy, audience, epochs, (one, after), stated[audience])


def _state_faults(state: Tree, policy: StreamTerms, tree: Tree) -> Iterator[str]:
    if state["adversary"] != policy.adversary:
        yield f"they are priced against the {state['adversary']} adversary, the policy names another"
    if state["entries"] != last_number(tree) or state["head"] not in {None, tree["head"]}:
        yield "they are of another number of entries"
    if not names_account(state, policy):
        yield "they are of another account than the policy's"
    for audience in AUDIENCES:
        if state[audience]["budget"] != policy.epsilon(audience):
            yield f"the {audience}'s budget is not the policy's"
        if state[audience]["left"] != state[audience]["budget"] - state[audience]["loss"]:
            yield f"what is left to the {audience} is not the budget without the loss"
        if not all(contains(state[audience]["theta"], floor) for floor in policy.floors):
            yield f"the {audience}'s Θ does not contain the policy's floor"
    for device, theta in tree["devices"].items():
        if not all(contains(theta, floor) for floor in policy.floors):
            yield f"Θ of {device} does not contain the policy's floor"


def _ended_faults(epochs: Sequence[ExportedEpoch], state: Tree, ended: Sequence[Tree]) -> Iterator[str]:
    """What is stated of ended epochs is of those that there are; of many, not all are published."""
    if state.get("epoch", 1) != epochs[-1].number:
        yield f"they are of epoch {state.get('epoch', 1)}, and it is epoch {epochs[-1].number}"
    known = [
        (one.number, one.first, max(one.first, after.first - 1), after.reason)
        for one, after in pairwise(epochs)
    ]
    if [(one["number"], one["first"], one["last"], one["reason"]) for one in ended] != known:
        yield "what is stated as lost is of other epochs than those that ended"
    published = state.get("ended", [])
    if len(published) != min(len(known), MOST_PUBLISHED) or any(one not in ended for one in published):
        yield "what is published of ended epochs is not what is stated"


def _check_ended(
    export: Export,
    policy: StreamTerms,
    audience: str,
    epochs: Sequence[ExportedEpoch],
    cut: tuple[ExportedEpoch, ExportedEpoch],
    stated: float,
) -> Claim:
    """What the ticks of an ended epoch have lost, under the Θ it ended with (docs/theory-world.md, Theorem 19).

    Where Θ was contradicted, by a device with device-specific settings too. Elsewhere each kept its budget under the Θ
    it had while the epoch lasted, which the export no longer has.
    """
    one, after = cut
    about = f"{policy.name}: {audience}, epoch {one.number}"
    theta, budget = after.ended_theta, policy.epsilon(audience)
    devices: list[str | None] = [None]
    if after.reason != "meaning":
        devices += sorted(_owners(export, policy))
    lost = _loss_of_epoch(
        export, policy, audience, epochs, one, dict.fromkeys(devices, theta), policy.adversary, stated
    )
    claim = f"the loss against the {policy.adversary} adversary"
    if isinstance(lost, str):
        return not_checked(about, claim, lost)
    if stated <= budget:
        return judged_loss(about, claim, lost, budget=budget, stated=stated)
    found = judged_loss(about, claim, lost, budget=None, stated=stated)
    broken = f"{found.detail}: over the budget of {budget:g}, which is said"
    return replace(found, detail=broken) if found.verdict is Verdict.HOLDS else found


def _check_account(
    export: Export, stream: str, audience: str, policy: StreamTerms, adversary: str, stated: float
) -> Claim:
    """The stated loss is at least that of the cohort and of every device; the largest of all is within the budget."""
    account = export.streams[stream]["state"][audience]
    about, claim = f"{stream}: {audience}", f"the loss against the {adversary} adversary"
    thetas: dict[str | None, Tree] = {None: account["theta"]}
    owners = _owners(export, policy)
    for member in policy.members:
        thetas |= export.streams[member].get("devices", {})
    if owners - thetas.keys():
        return not_checked(about, claim, f"Θ of {min(owners - thetas.keys())} is not in the export")
    epochs = account_epochs(export, policy)
    counted = {device: thetas[device] for device in (None, *sorted(owners))}
    found = _loss_of_epoch(export, policy, audience, epochs, epochs[-1], counted, adversary, stated)
    if isinstance(found, str):
        return not_checked(about, claim, found)
    # What an adversary learns whom the policy does not name is stated beside its budget, and not held to it.
    budget = account["budget"] if adversary == policy.adversary else None
    return judged_loss(about, claim, found, budget=budget, stated=stated)


def _owners(export: Export, policy: StreamTerms) -> set[str]:
    """The devices with device-specific settings of a stream of the account."""
    found = (one.device for member in policy.members for one in export.settings_of(member).values())
    return {device for device in found if device is not None}


def _loss_of_epoch(
    export: Export,
    policy: StreamTerms,
    audience: str,
    epochs: Sequence[ExportedEpoch],
    one: ExportedEpoch,
    thetas: Mapping[str | None, Tree],
    adversary: str,
    stated: float,
) -> Found | str:
    """The largest loss at a tick of the epoch of the cohort (None) and of devices; or what stands in the way."""
    ticks = public_ticks(epochs, one)
    if audience == "operator":
        ticks = operator_ticks(export, policy, epochs, one)
    found = []
    try:
        for device, theta in thetas.items():
            runs = account_runs(export, policy, audience, one, device)
            found.append(adversary_of(theta, adversary, policy.stride).largest_loss(runs, stated, ticks))
    except NotImplementedError as what:
        return str(what)
    except KeyError as missing:
        return f"noise version {missing} is not in the export"
    most = max(found, key=lambda one: one.loss.low)
    return Found(largest([one.loss for one in found]), most.tick, any(one.cut_short for one in found))
