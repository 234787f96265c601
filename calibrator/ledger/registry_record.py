"""The record of a stream for the registry of differential privacy deployments, field by field.

The form is that of the registry's public schema (opendp/deployments-registry-data, schemas/deployments-schema.yaml, of
July 2026). The data product is a stream's releases, so that the ε of a record is the public's. What only the
organisation knows is given, or named in `missing`; nothing is made up for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hushmq.broker.contract.policy_message import StreamPolicy

SCHEMA = "opendp/deployments-registry-data, deployments-schema.yaml, 2026-07"
Sector = Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]
LOCAL_AND_CENTRAL = "Varies"
"""The registry's name for a model that is none of its others alone: local, then central for the public."""


@dataclass(frozen=True, slots=True)
class Organisation:
    """What a record needs to know of those who run a site."""

    curators: tuple[str, ...] = ()
    intended_use: str | None = None
    region: str | None = None
    sector: Sector | None = None
    authors: tuple[str, ...] = ()
    """Who answers for the record."""


def registry_record(
    cohort: str,
    stream: str,
    policy: StreamPolicy,
    *,
    adversary: str,
    first_release: str | None,
    shares_with: Sequence[str],
    organisation: Organisation,
) -> dict[str, Any]:
    """The record of one stream, and in `missing` the required fields that nobody has given.

    `adversary` says in words what the adversary knows; `first_release` is a date.
    """
    deployment: dict[str, dict[str, Any]] = {
        "basic": {
            "name": f"{cohort}: {stream}",
            "data_curators": list(organisation.curators) or None,
            "description": _description(policy),
            "intended_use": organisation.intended_use,
            "data_product_type": "Summary statistics",
            "data_product_region": organisation.region,
            "data_product_sector": organisation.sector,
            "publication_date": first_release,
        },
        "dp_variant": {
            "variant_name": "Custom",
            "data_domain": f"Sequences of the states {', '.join(policy.states)}, one of every device every "
            f"{policy.period_ms} ms, that behave like some chain of the set Θ.",
            "unprotected_quantities": "The number of devices and ticks that a release counts, the schedule, the policy "
            "and Θ; whether a device is present for longer than the policy's fill_s; long-run shares of states.",
        },
        "privacy_loss": {
            "privacy_unit": "One person at one instant",
            "privacy_unit_details": "Pufferfish privacy: for every instant, every two states and every chain of Θ, "
            "everything ever published changes the odds of the two states by a factor of at most exp(ε), for an "
            f"adversary who {adversary}."
            + (f" The same ε covers {', '.join(shares_with)} together." if shares_with else ""),
            "privacy_parameters": {"epsilon": policy.epsilon.public, "delta": 0},
            "privacy_parameters_details": f"{policy.epsilon.public:g} for whoever reads releases, "
            f"{policy.epsilon.operator:g} for operators, who read the noisy stream. Both hold for all time.",
        },
        "deployment_model": _model(policy),
        "accounting": {
            "composition": "All releases on one timeline under Θ, exact or bounded from above; a release that would "
            "exceed ε at any instant is not made.",
            "post_processing": "Correction of the bias of randomised response, projection to proper shares, smoothing "
            "over time.",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": "Values are reduced to states on the device by rules of the "
            "policy. Θ is learned from released statistics only, which are charged like any other release; ε is chosen "
            "without the data.",
            "mechanisms": "Randomised response on the device; discrete Laplace noise on counts. Exact samplers with "
            "randomness of the operating system, integers in the ledger, losses rounded up. Devices publish and "
            "windows close by the schedule, not by the data. Software: hushmq.",
            "justification": "docs/theory.md has the theorems, docs/promise.md what each sentence stands on; hushmq "
            "verify checks an exported ledger with mathematics of its own.",
        },
        "administrative": {
            "notes": "Written by hushmq ledger disclose from the policy and the ledger, and sealed with them.",
            "registry_authors": list(organisation.authors) or None,
        },
    }  # fmt: skip
    known = {part: _given(fields) for part, fields in deployment.items()}
    optional = {"data_product_sector"}
    missing = [
        f"deployment.{part}.{name}"
        for part, fields in deployment.items()
        for name, value in fields.items()
        if value is None and name not in optional
    ]
    record = {"url_slug": f"{cohort}-{stream}", "status": "Draft", "tier": 3, "deployment": known}
    return {"schema": SCHEMA, "record": record, "missing": missing}


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _description(policy: StreamPolicy) -> str:
    windows = ", ".join(f"{one.ticks * policy.period_ms / 1000:g} s" for one in policy.windows.values())
    return (
        f"Shares of the states {', '.join(policy.states)} over windows of time ({windows or 'none yet'}), with 95% "
        "intervals."
    )


def _model(policy: StreamPolicy) -> dict[str, Any]:
    return {
        "model_name": LOCAL_AND_CENTRAL,
        "model_name_details": "Local for operators: noise is added on the device. For the public central after that: "
        "the calibrator adds noise to counts of noisy states.",
        "actors": "The device and whoever holds its keys see true states and are trusted. The broker, the calibrator "
        "and operators see noisy states; the public sees releases, the ledger, the policy and noise settings. Whoever "
        "listens to the network sees what TLS shows.",
        "release_type": "Many releases",
        "release_type_details": "Windows follow each other without end. The budget is per instant and never renewed: "
        "what is published about one instant at any time stays within ε.",
        "data_source_type": "Dynamic",
        "data_source_type_details": f"Every device adds a state every {policy.period_ms} ms"
        + (f", of which it publishes one in {policy.stride}." if policy.stride > 1 else "."),
        "access_type": "Non-interactive",
        "access_type_details": "Nobody can ask; what is released follows from the policy.",
    }  # fmt: skip
