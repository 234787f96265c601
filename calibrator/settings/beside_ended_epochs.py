"""How much more noise a setting needs because of what was published before its epoch.

After a contradiction, or a change of meaning, devices have just used settings of an older epoch, which may tilt more
than the new Θ allows. What they published tells of the first ticks of the new epoch too, and what follows tells of the
last ticks of the old one (docs/theory-world.md, Theorems 19 and 20). So the noise is chosen with all of that priced in.
As the chain forgets, better settings become possible, and are pushed where they are worth it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import Connection

from hushmq.calibrator.ledger.epochs import LAST_TICK, Epoch
from hushmq.calibrator.ledger.live_accounts import LiveAccounts
from hushmq.calibrator.ledger.operator_account import epoch_ticks, epoch_timeline
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.bisection import bisection
from hushmq.pufferfish.protocols import Noise, Theta
from hushmq.pufferfish.timeline.entry import Entry, Ticks

LEAST_SHARE = 1e-3
"""The share of the tilts that a setting has at least: next to nothing, where ended epochs leave no more."""


def beside_ended_epochs(
    db: Connection,
    accounts: LiveAccounts,
    noise: Noise,
    *,
    theta: Theta,
    tick: int,
    device: str | None = None,
) -> Noise:
    """The noise, or as much more of it as keeps the operator's budget beside what was published in ended epochs.

    It is used from tick `tick` on, once no device uses settings of an ended epoch any more. What exceeds the budget
    without it is reported (calibrator/ledger/live_accounts.py), and cannot be made up for.
    """
    epochs, budget = accounts.own_epochs, accounts.policy.epsilon.operator
    if not epochs.ended:
        return noise
    # Devices may use any setting of this epoch at the same tick.
    used = [one.tilts for one in accounts.issued.noises_since(epochs.current.settings, device)]
    since = max([tick, *(1 + last for last in _last_ticks(db, accounts))])
    now = _Exposure.of(db, accounts, epochs.current, theta, since, device)
    first = now.ticks[0]
    exposures = [now.at((first, since - 1))] + [
        _Exposure.of(db, accounts, one.epoch, one.theta, since, device) for one in epochs.ended
    ]
    kept = [now.at((since, LAST_TICK)), *(one for one in exposures if one.loss(0.0, 0.0) <= budget)]

    def within(share: float) -> bool:
        tilts = [*used, tuple(share * tau for tau in noise.tilts)]
        tau0, tau1 = (max(taus) for taus in zip(*tilts, strict=True))
        return all(one.loss(tau0, tau1) <= budget for one in kept)

    if within(1.0):
        return noise
    share, _ = bisection(within, 0.0, 1.0, absolute=LEAST_SHARE)
    tau0, tau1 = (max(share, LEAST_SHARE) * tau for tau in noise.tilts)
    return noise.with_tilts(tau0, tau1)


@dataclass(frozen=True, slots=True)
class _Exposure:
    """What the sanitized stream says about some ticks, if from tick `since` on every tick were tilted alike."""

    theta: Theta
    adversary: Adversary
    entries: tuple[Entry, ...]
    """What was published before that tick, and device-made windows."""
    since: int
    same_meaning: bool
    """Whether what is published from that tick on is about states of the same meaning."""
    ticks: Ticks
    share: float
    """The stream's share of its account: the others use as much of theirs (docs/theory-world.md, Theorem 21)."""
    stride: int

    @classmethod
    def of(
        cls,
        db: Connection,
        accounts: LiveAccounts,
        epoch: Epoch,
        theta: Theta,
        since: int,
        device: str | None,
    ) -> _Exposure:
        epochs, share = accounts.own_epochs, accounts.policy.tilt_share
        before = (
            one if one.last == LAST_TICK else Entry(one.first, min(one.last, since - 1), one.tau0, one.tau1)
            for one in epoch_timeline(db, accounts.stream, epochs, epoch, device)
            if one.last == LAST_TICK or one.first < since
        )
        ticks = epoch_ticks(db, accounts.stream, epochs, epoch) or (0, LAST_TICK)
        same = epoch.meaning == epochs.current.meaning
        return cls(
            theta, accounts.policy.adversary, tuple(before), since, same, ticks, share, accounts.policy.stride
        )

    def at(self, ticks: Ticks) -> _Exposure:
        """The same at other ticks."""
        return replace(self, ticks=ticks)

    def loss(self, tau0: float, tau1: float) -> float:
        """The loss with these tilts from tick `since` on."""
        if not self.same_meaning:
            tau0 = tau1 = max(tau0, tau1)
        tilted = [*self.entries, Entry(self.since, LAST_TICK, tau0, tau1)]
        whole = [Entry(one.first, one.last, one.tau0 / self.share, one.tau1 / self.share) for one in tilted]
        return self.theta.timeline(self.adversary, whole, self.ticks, stride=self.stride).price().epsilon


def _last_ticks(db: Connection, accounts: LiveAccounts) -> list[int]:
    """Of each ended epoch, the last tick that is known to carry one of its settings."""
    epochs = accounts.own_epochs
    ticks = (epoch_ticks(db, accounts.stream, epochs, one.epoch) for one in epochs.ended)
    return [one[1] for one in ticks if one is not None]
