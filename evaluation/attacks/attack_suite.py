"""The attacks from outside of the model, one after the other: the loss before each was priced, and now."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hushmq.evaluation.attacks import (
    bad_device_attack,
    mixture_attack,
    policy_change_attack,
    presence_attack,
    regime_attack,
    several_streams_attack,
    stale_attack,
)
from hushmq.evaluation.attacks.attack_outcome import COLUMNS, AttackOutcome
from hushmq.evaluation.section_list import Job, Missing
from hushmq.evaluation.section_report import Finding, Item, Table

ABOUT = """A theorem holds inside its model. These attacks come from outside: when something is published, who does
not know the chain, states that change their meaning, several streams of one state, a reading that is stale,
invented devices, regimes behind the recordings. For each, the loss under the rule of before, which the attack
models itself where the code has changed, and the loss that the code of today leaves, beside ε. Losses are exact,
or computed for transcripts that were drawn; what was counted has a confidence of 95%, by Clopper and Pearson. A
loss above ε is in the column "kept" as NO: what holds there instead is said beside it."""

ATTACKS: dict[str, Callable[[Job], Iterator[AttackOutcome]]] = {
    "presence": presence_attack.attacks,
    "mixture": mixture_attack.attacks,
    "policy change": policy_change_attack.attacks,
    "several streams": several_streams_attack.attacks,
    "stale reading": stale_attack.attacks,
    "invented devices": bad_device_attack.attacks,
    "regimes": regime_attack.attacks,
}


def run(job: Job) -> Iterator[Item]:
    outcomes: list[AttackOutcome] = []
    for number, (name, attacks) in enumerate(ATTACKS.items()):
        job.progress(number / len(ATTACKS), name)
        try:
            outcomes += attacks(job)
        except Missing as missing:
            yield Finding(f"{name}: {missing}", kind="skipped")
    yield Table(
        "attacks",
        "What attacks from outside of the model reach, in nats",
        COLUMNS,
        [one.cells for one in outcomes],
        note="– where nothing is published any more.",
        main=True,
    )
    job.progress(1.0, "a constant device")
    service = list(bad_device_attack.service(job))
    yield Table(
        "service",
        "One constant device: windows of its cohort that are released",
        bad_device_attack.SERVICE_COLUMNS,
        [one.cells for one in service],
        note="Before, the first window in which a device was over its budget ended all releases.",
        main=True,
    )
    yield from findings(outcomes)


def findings(outcomes: list[AttackOutcome]) -> Iterator[Item]:
    """What is kept now, and where more than ε is still lost."""
    kept = [one for one in outcomes if one.kept]
    worst = max(outcomes, key=lambda one: one.before / one.promised)
    yield Finding(
        f"{len(kept)} of {len(outcomes)} attacks are kept within ε now; before, the worst of them ({worst.attack}, "
        f"{worst.case}) reached {worst.before:.3g} of {worst.promised:g}.",
        kind="leads",
    )
    for one in outcomes:
        if not one.kept and one.after is not None:
            yield Finding(
                f"{one.attack}, {one.case}: {one.after:.3g} of {one.promised:g} are still lost; {one.now}.",
                kind="loses",
            )
