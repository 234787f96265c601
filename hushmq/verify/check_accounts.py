"""Checks what is stated now: the loss of both audiences, of the cohort and of devices with device-specific settings."""

from __future__ import annotations

from collections.abc import Iterator

from hushmq.verify.account_timelines import account_runs
from hushmq.verify.check_ledger import names_account
from hushmq.verify.claims import Claim, Verdict, judged, judged_loss, not_checked
from hushmq.verify.export_file import Export, StreamTerms, Tree, unknown
from hushmq.verify.largest_loss import Found
from hushmq.verify.outward import largest
from hushmq.verify.pricings import adversary_of, contains

AUDIENCES = ("operator", "public")


def check_accounts(export: Export, stream: str) -> Iterator[Claim]:
    """Both accounts as the calibrator states them, under the policy that is followed."""
    tree, about = export.streams[stream], f"{stream}: accounts"
    policy = export.policies[-1].stream(stream) if export.policies else None
    strange = unknown("stream", tree)
    state = tree.get("state")
    if policy is None:
        yield Claim(about, "stated", Verdict.HOLDS, "no policy is followed for it: nothing is stated")
        return
    if state is None:
        yield not_checked(about, "stated", "the export states no losses of it")
        return
    strange += unknown("state", state)
    for audience in AUDIENCES:
        strange += unknown("account", state[audience])
    if state.get("epoch", 1) > 1 or state.get("ended"):
        yield not_checked(about, "stated", "there are several epochs, which this checker does not price yet")
        return
    if strange:
        yield not_checked(about, "nothing unknown in them", strange[0])
    yield judged(
        about, "of the policy followed", _state_faults(state, policy, tree), "budgets, adversary and Θ"
    )
    for audience in AUDIENCES:
        account = state[audience]
        yield _check_account(export, stream, audience, policy, policy.adversary, account["loss"])
        if account.get("undecided") is not None and policy.adversary != "undecided":
            yield _check_account(export, stream, audience, policy, "undecided", account["undecided"])


def _state_faults(state: Tree, policy: StreamTerms, tree: Tree) -> Iterator[str]:
    if state["adversary"] != policy.adversary:
        yield f"they are priced against the {state['adversary']} adversary, the policy names another"
    if state["entries"] != len(tree["entries"]) or state["head"] not in {None, tree["head"]}:
        yield "they are of another number of entries"
    if not names_account(state, policy):
        yield "they are of another account than the policy's"
    for audience in AUDIENCES:
        if state[audience]["budget"] != policy.epsilon(audience):
            yield f"the {audience}'s budget is not the policy's"
        if not all(contains(state[audience]["theta"], floor) for floor in policy.floors):
            yield f"the {audience}'s Θ does not contain the policy's floor"
    for device, theta in tree["devices"].items():
        if not all(contains(theta, floor) for floor in policy.floors):
            yield f"Θ of {device} does not contain the policy's floor"


def _check_account(
    export: Export, stream: str, audience: str, policy: StreamTerms, adversary: str, stated: float
) -> Claim:
    """The stated loss is at least that of the cohort and of every device; the largest of all is within the budget."""
    account = export.streams[stream]["state"][audience]
    about, claim = f"{stream}: {audience}", f"the loss against the {adversary} adversary"
    thetas: dict[str | None, Tree] = {None: account["theta"]}
    owners: set[str] = set()
    for member in policy.members:
        thetas |= export.streams[member].get("devices", {})
        owners |= {one.device for one in export.settings_of(member).values() if one.device is not None}
    if owners - thetas.keys():
        return not_checked(about, claim, f"Θ of {min(owners - thetas.keys())} is not in the export")
    found = []
    try:
        for device in (None, *sorted(owners)):
            runs = account_runs(export, policy, audience, device)
            found.append(adversary_of(thetas[device], adversary).largest_loss(runs, stated))
    except NotImplementedError as what:
        return not_checked(about, claim, str(what))
    except KeyError as missing:
        return not_checked(about, claim, f"noise version {missing} is not in the export")
    most = max(found, key=lambda one: one.loss.low)
    together = Found(largest([one.loss for one in found]), most.tick, any(one.cut_short for one in found))
    # What an adversary learns whom the policy does not name is stated beside its budget, and not held to it.
    budget = account["budget"] if adversary == policy.adversary else None
    return judged_loss(about, claim, together, budget=budget, stated=stated)
