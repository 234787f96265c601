"""A demo that went well, made up: what the auditor heard, the accounts, the subscriber. Tests spoil it."""

from __future__ import annotations

from hushmq.broker.contract import noise_message as noise
from hushmq.broker.contract.messages import Account, LedgerState, NoiseSetting, Release, Status, StreamStatus
from hushmq.broker.contract.theta_message import BinaryThetaMessage, Interval
from hushmq.demo.audience import AuditorRecord, Flips, Subscriber
from hushmq.demo.demo_plan import STREAM, WINDOW, DemoPlan, make_plan
from hushmq.demo.disk_accounts import DeviceAccount, DiskAccounts

RHO = {1: 0.3, 2: 0.2}


def theta(low: float, high: float) -> BinaryThetaMessage:
    return BinaryThetaMessage(q=Interval(low=low, high=high), r=Interval(low=low, high=high))


def plan(agents: int = 3) -> DemoPlan:
    return make_plan(agents=agents, epsilon=4.0, now=1_800_000_000.0)


def setting(cohort: str, version: int) -> NoiseSetting:
    rho = RHO[version]
    believed = theta(0.1 * version, 0.6 - 0.1 * version)
    return NoiseSetting(
        version=version,
        policy=1,
        cohort=cohort,
        stream=STREAM,
        theta=believed,
        noise=noise.BinaryNoiseMessage(rho0=rho, rho1=rho),
    )


def stream_status(version: int | None = 2) -> StreamStatus:
    return StreamStatus(noise=version, sampled=1000, buffered=100, dropped=10)


def release(entry: int = 1) -> Release:
    return Release(
        stream=STREAM, window=WINDOW, scope="cohort", first=0, last=1999, devices=3, ticks=6000,
        states=("still", "moving"), counts=(3500, 2500), frequencies=(0.58, 0.42), standard_errors=(0.01, 0.01),
        intervals=((0.56, 0.60), (0.40, 0.44)), scale=10.0, tilt=1, loss=1.5, budget=2.0, adversary="informed",
        theta=theta(0.1, 0.4), entry=entry,
    )  # fmt: skip


def ledger(*, public: float = 1.5, entries: int = 1) -> LedgerState:
    believed = theta(0.1, 0.4)
    return LedgerState(
        stream=STREAM,
        adversary="informed",
        entries=entries,
        operator=Account(budget=4.0, loss=3.5, left=0.5, theta=believed),
        public=Account(budget=2.0, loss=public, left=2.0 - public, theta=believed),
    )


def record(played: DemoPlan) -> AuditorRecord:
    """Every device flipped as often as it should, under the tighter of two settings."""
    found = AuditorRecord(received=3000, ledger=ledger(), releases=[release()])
    for version in RHO:
        found.settings[version] = setting(played.cohort, version)
    for wearable in played.wearables:
        found.statuses[wearable.name] = Status(online=False, policy=1, streams={STREAM: stream_status()})
        found.applied[wearable.name] = {1, 2}
        found.flips[wearable.name, 2] = Flips({0: 500, 1: 500, 2: 100, 3: 100})
    return found


def accounts(played: DemoPlan) -> DiskAccounts:
    account = DeviceAccount(sampled=1000, counted=890, waiting=100, dropped=10)
    return DiskAccounts({wearable.name: account for wearable in played.wearables}, frozenset({1}))


class Subscriber(Subscriber):
    """One who has read a release and was kept out of everything else; it never connects."""

    def __init__(self) -> None:
        self.releases = 1
        self.elsewhere = []
