"""Several streams of one device, or several devices of one person, that follow one state.

Before, each stream had its own ε and nothing added them up. Now the streams of a policy are one account unless one says
that it is independent, and so are the devices of a group: each has a share of the account's tilt, which the device
checks when it accepts a setting (docs/theory-world.md, Theorem 21).
"""

from __future__ import annotations

from collections.abc import Iterator

from hushmq.agent.accept_settings import Trust, check_noise
from hushmq.broker.contract.account_share import priced_streams
from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.noise_message import BinaryNoiseMessage
from hushmq.broker.contract.policy_message import (
    Assumption,
    Audiences,
    Group,
    Policy,
    StreamPolicy,
    Threshold,
)
from hushmq.broker.contract.problem import Rejected
from hushmq.broker.contract.theta_message import theta_message
from hushmq.evaluation.attacks.attack_outcome import AttackOutcome
from hushmq.evaluation.section_list import Job
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss, optimal_noise

THETA = BinaryTheta(0.05, 0.45, 0.05, 0.45)
SLOWEST = BinaryTheta.point(0.05, 0.05)
"""The chain of Θ that decided the price before."""
EPSILON = 4.0


def attacks(job: Job) -> Iterator[AttackOutcome]:
    """Two, three and five streams of one device; the same number of devices in one group."""
    del job
    for count in (2, 3, 5):
        for what, policy in (("streams", of_streams(count)), ("devices of one group", of_devices(count))):
            yield outcome(f"{count} {what} that follow one state, README's Θ", policy, count)


def outcome(case: str, policy: Policy, count: int) -> AttackOutcome:
    """What the largest noise that a device takes loses, as many times as there are streams of that state."""
    alone = optimal_noise(SLOWEST, EPSILON)
    priced = next(iter(priced_streams(policy, "wearable-1").values())).policy
    shared = THETA.optimal_noise(EPSILON, "informed", 0.0, priced.tilt_share * (1 - 1e-9))
    now = next(noise for noise in (alone, shared) if taken(noise, priced))
    return AttackOutcome(
        "several streams",
        case,
        EPSILON,
        loss(SLOWEST, tau0=count * alone.tau0, tau1=count * alone.tau1),
        loss(THETA, tau0=count * now.tau0, tau1=count * now.tau1),
        "exact",
        f"one account: a device takes a share of {priced.tilt_share:.3g} of its tilt, and refuses more",
    )


def taken(noise: BinaryNoise, priced: StreamPolicy) -> bool:
    """Whether a device applies a setting with this noise."""
    setting = NoiseSetting(
        version=1,
        policy=1,
        cohort="attacked",
        stream="stream-0",
        theta=theta_message(THETA),
        noise=BinaryNoiseMessage(rho0=noise.rho0, rho1=noise.rho1),
    )
    try:
        check_noise(setting, priced, Trust((), (), epsilon_max=EPSILON, rho_min=1e-6))
    except Rejected:
        return False
    return True


def of_streams(count: int) -> Policy:
    """A policy with so many streams."""
    streams = {f"stream-{number}": stream() for number in range(count)}
    return Policy(version=1, cohort="attacked", streams=streams)


def of_devices(count: int) -> Policy:
    """A policy with one stream and a group of so many devices."""
    devices = tuple(f"wearable-{number}" for number in range(1, count + 1))
    group = {"person": Group(devices=devices)}
    return Policy(version=1, cohort="attacked", streams={"stream-0": stream()}, groups=group)


def stream() -> StreamPolicy:
    """README's stream."""
    return StreamPolicy(
        states=("still", "moving"),
        period_ms=1000,
        discretiser=Threshold(at=1.0),
        theta=Assumption(start=theta_message(THETA), floor=theta_message(THETA)),
        epsilon=Audiences(operator=EPSILON, public=EPSILON),
        windows={},
    )
