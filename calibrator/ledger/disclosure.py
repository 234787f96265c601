"""What a site discloses about its privacy, for programs.

The questions that NIST SP 800-226 asks of a guarantee are answered, each under the part of its pyramid that it belongs
to, and every stream has its record for the registry of deployments (calibrator/ledger/registry_record.py). It is sealed
with the calibrator's key by `hushmq ledger disclose`; a console only hands it out. It holds what the public may know:
budgets of both audiences, the public's losses, and promises that did not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from sqlalchemy import Connection

from hushmq.broker.contract.disclosure_seal import disclosed_bytes
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.forecast.guess_odds import odds_in_words
from hushmq.calibrator.ledger.high_water_mark import mark_of
from hushmq.calibrator.ledger.ledger_report import StreamLedger, read_ledger, stored_policy
from hushmq.calibrator.ledger.registry_record import Organisation, registry_record

FORMAT = 2
PARTS = (
    *("privacy parameters", "unit of privacy", "algorithms and correctness", "utility", "bias"),
    *("trust models", "side channels", "access control", "data collection exposure"),
)
"""The parts of SP 800-226's pyramid, from the top down."""
ADVERSARIES = {
    "informed": "knows the chain, and the true states at any other instants",
    "prior": "knows the chain and no states",
    "undecided": "knows the set of chains but not which one it is",
}


def disclose(
    db: Connection, *, cohort: str, key: PrivateKey, organisation: Organisation | None = None
) -> dict[str, Any]:
    """The disclosure of a cohort, sealed; Problem where no policy is followed."""
    policy = stored_policy(db)
    if policy is None:
        raise Problem("there is nothing to disclose: no policy has been followed yet")
    ledgers = {name: read_ledger(db, name) for name in sorted(policy.streams)}
    content: dict[str, Any] = {
        "disclosure": FORMAT,
        "cohort": cohort,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "software": f"hushmq {version('hushmq')}",
        "key": str(key.public),
        "policy": policy.version,
        "streams": {name: _stream(one) | {"head": mark_of(db, name).head} for name, one in ledgers.items()},
        "nist_sp_800_226": [
            {"part": part, "question": question, "answer": answer}
            for part, question, answer in _answers(policy, ledgers)
        ],
        "registry": {
            name: _record(cohort, name, one, organisation or Organisation())
            for name, one in ledgers.items()
            if one.policy is not None
        },
    }
    return {**content, "seal": key.seal(disclosed_bytes(content))}


def _stream(ledger: StreamLedger) -> dict[str, Any]:
    policy = ledger.policy
    if policy is None:
        return {}
    return {
        "states": list(policy.states),
        "period_ms": policy.period_ms,
        "adversary": policy.adversary,
        "epsilon": {"operator": policy.epsilon.operator, "public": policy.epsilon.public},
        "odds": {
            "operator": odds_in_words(policy.epsilon.operator, 0.5),
            "public": odds_in_words(policy.epsilon.public, 0.5),
        },
        "public_loss": ledger.public,
        "theta": None if ledger.theta is None else ledger.theta.as_tree(),
        "windows": {
            name: {"ticks": one.ticks, "scopes": list(one.scopes), "method": one.method}
            for name, one in policy.windows.items()
        },
        "shares_account_with": list(ledger.account.members)
        if ledger.account and not ledger.account.alone
        else [],
        "epoch": ledger.epoch.number,
        "broken_promises": ledger.broken_promises(),
        "if_learning_is_deceived": None if ledger.deceived is None else ledger.deceived.as_tree(),
    }


def _record(cohort: str, stream: str, ledger: StreamLedger, organisation: Organisation) -> dict[str, Any]:
    policy, account = ledger.policy, ledger.account
    if policy is None:
        raise ValueError("a record is about a stream of the policy")
    released = [row.at for row in ledger.entries if row.why.startswith("release")]
    return registry_record(
        cohort,
        stream,
        policy,
        adversary=ADVERSARIES[policy.adversary],
        first_release=min(released)[:10] if released else None,
        shares_with=[] if account is None else [one for one in account.members if one != stream],
        organisation=organisation,
    )


def _answers(policy: Policy, ledgers: Mapping[str, StreamLedger]) -> list[tuple[str, str, str]]:
    """Part, question and answer."""
    budgets = "; ".join(
        f"{name}: ε = {one.epsilon.operator:g} to operators, {one.epsilon.public:g} to the public"
        for name, one in sorted(policy.streams.items())
    )
    adversaries = "; ".join(
        f"{name}: {one.adversary}, who {ADVERSARIES[one.adversary]}"
        for name, one in sorted(policy.streams.items())
    )
    broken = [f"{name}: {said}" for name, one in ledgers.items() for said in one.broken_promises()]
    return [
        ("privacy parameters", "What is the privacy parameter, and over which time does it hold?",
         f"{budgets}. Pure ε (δ = 0), for all that is ever published about an instant, not per message or day."),
        ("unit of privacy", "What is the unit of privacy?",
         "The recorded state of one person at one instant (a tick), over all streams and devices that the policy joins "
         "in one account. Not the person's participation or long-run habits."),
        ("privacy parameters", "Which definition is it?",
         "Pufferfish privacy for sets of Markov chains: the odds of any two states at an instant change by at most e^ε "
         "for every chain in Θ. Weaker than differential privacy for the whole trajectory, and stronger than "
         "differential privacy for one sample, because it counts what neighbouring samples tell."),
        ("trust models", "Who is the adversary, and what do they know?", f"{adversaries}."),
        ("algorithms and correctness", "Which assumptions does the guarantee rest on?",
         "That the data behaves like some chain in Θ, which is learned from charged statistics with 95% confidence and "
         "never narrower than the policy's floor; that groups and cohorts are independent; that keys are kept."),
        ("algorithms and correctness", "How is the assumption watched?",
         "Devices test their own raw states; the calibrator tests charged statistics for misfit and change. "
         "Where evidence contradicts Θ, what was lost is stated."),
        ("algorithms and correctness", "Which mechanisms are used, and how is their correctness shown?",
         "Randomised response on every state on the device; discrete Laplace noise on counts, exact samplers with "
         "randomness of the operating system. Every release is in a ledger, that hushmq verify checks with mathematics "
         "of its own."),
        ("privacy parameters", "How are several releases accounted for?",
         "Exactly, on a timeline of all releases under Θ; one that would exceed ε at any instant is not released."),
        ("trust models", "What is the trust model?",
         "Local for operators: noise is added on the device. Central for the public: the calibrator, which sees only "
         "noisy states, adds noise to counts of them."),
        ("utility", "How useful are the results?",
         "Shares carry a 95% interval that covers both noises; a forecast for any policy comes from hushmq plan."),
        ("bias", "Are the results biased?",
         "Raw shares are unbiased. Ticks that did not arrive count as the policy's stand-in state, which biases shares "
         "towards it by their part of the window; smoothed shares lean to the past. Noise is the same for every "
         "device, so that small cohorts have the larger relative error."),
        ("side channels", "Which side channels are considered?",
         "Whether, when and how much a device publishes follows the schedule and not the data; windows close by the "
         "schedule and count every device on the roster."),
        ("access control", "Who has access to raw data, and how is it protected?",
         "Raw states never leave the memory of the device. Noisy states are for the calibrator and operators only; "
         "the broker's access rights and TLS keep everybody else from them."),
        ("data collection exposure", "How is data collection limited?",
         "Values are reduced to a few states on the device before anything is kept."),
        ("algorithms and correctness", "Has the guarantee been broken?",
         " ".join(broken) or "Not in any epoch so far, by the ledger's own account."),
    ]  # fmt: skip
