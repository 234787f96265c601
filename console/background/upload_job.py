"""Policies for `hushmq push`: a proposal to be shown, a signed one to be shown, published and followed."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from hushmq.broker.commands.client_options import CLEAR_TEXT
from hushmq.broker.contract.messages import MAX_PAYLOAD_BYTES, decode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem, Rejected
from hushmq.broker.contract.signature import Signed, verify
from hushmq.console.console_config import ConsoleConfig


@dataclass(frozen=True, slots=True)
class StagedPolicy:
    """A policy that ops signed, and that waits for somebody to publish it."""

    policy: Policy
    payload: bytes
    key: str
    digest: str
    """Stands for the payload: what is published is what was shown."""


def staged_policy(config: ConsoleConfig, payload: bytes) -> StagedPolicy:
    """The policy in an uploaded file; raise Problem unless a key of ops that is trusted here signed it."""
    if config.upload is None:
        raise Problem("upload: this console publishes nothing: it has no identity of ops")
    if not payload or len(payload) > MAX_PAYLOAD_BYTES:
        raise Problem(f"the file has {len(payload)} bytes: a signed policy has 1 to {MAX_PAYLOAD_BYTES}")
    try:
        policy = verify(Policy, payload, config.keys.ops)
        key = decode(Signed[Policy], payload).key
    except Rejected as rejected:
        raise Problem(f"not a policy that ops signed: {rejected}; make one with hushmq policy sign") from None
    if policy.cohort != config.cohort:
        raise Problem(f"the policy is for the cohort {policy.cohort}, this is {config.cohort}")
    return StagedPolicy(policy, payload, key, blake2b(payload, digest_size=16).hexdigest())


def upload_request(config: ConsoleConfig, staged: StagedPolicy, what: str) -> dict[str, Any]:
    """What the worker runs: `hushmq push` on the signed bytes, with the identity that may publish them."""
    upload = config.upload
    if upload is None:
        raise Problem("upload: this console publishes nothing: it has no identity of ops")
    options = _broker_options(config, upload.username, upload.password_file)
    return {"push": [*options, what], "payload": staged.payload.decode()}


def review_request(config: ConsoleConfig, policy: Policy) -> dict[str, Any]:
    """What the worker runs for a proposal: `hushmq push --dry-run` with the console's own identity, without a key."""
    options = _broker_options(config, config.broker.username, config.broker.password_file)
    return {"push": [*options, "--dry-run"], "payload": policy.model_dump_json()}


def _broker_options(config: ConsoleConfig, username: str | None, password_file: Path | None) -> list[str]:
    """The options of a command that connects to the site's broker."""
    tls = config.broker.tls
    options = [word for url in config.broker.urls for word in ("--broker", url)]
    options += ["--username", username] if username is not None else []
    options += ["--password-file", str(password_file)] if password_file is not None else []
    if config.broker.password_in_clear_text:
        options.append(CLEAR_TEXT)
    if tls is not None:
        files = {"--ca": tls.ca, "--certificate": tls.certificate, "--certificate-key": tls.key}
        options += [word for name, file in files.items() if file is not None for word in (name, str(file))]
    return options
