"""Which noise a setting gets: the most signal within the operator's budget, whatever was issued before.

Theorem (no bad moment). Let T0 and T1 be the largest tilts towards 0 and towards 1 of all settings ever issued for a
stream. If loss(Θ; T0, T1) ≤ ε, then whatever mixture of these settings a device uses, tick by tick, in whatever
order and however long it lags behind, the loss at every tick is at most ε for every chain in Θ.
Proof. The loss of a timeline rises with every τ0(t) and every τ1(t) (docs/theory.md, Theorem 1: each step is
increasing in m; for q+r > 1 after relabelling). Every tick has τ0(t) ≤ T0 and τ1(t) ≤ T1, so the timeline costs no
more than the constant one (T0, T1), and that costs loss(Θ; T0, T1).
For q+r ≤ 1 the two directions do not meet, so settings that keep ε each keep it together; beyond it they need
not, and `mixable` adds the noise that makes them. For more than two states the tilt is the same in all directions
(pufferfish/categorical/categorical_timeline.py: every step grows with its tilts), so settings that keep ε each keep it
together. Where several streams share an account, T0 and T1 are this stream's share of the account's largest tilts, and
every mixture on every stream and device keeps ε, without any coordination (docs/theory-world.md, Theorem 21).

A Θ that widens, an ε that ops lower, or a stream or device that joins an account may leave what was published over
budget: no setting can take that back, the operator's account says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from hushmq.broker.contract.account_share import account_loss
from hushmq.broker.contract.noise_message import NoiseMessage
from hushmq.broker.contract.operator_loss import operator_loss
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.problem import Problem, Rejected
from hushmq.calibrator.ledger.device_exposure import DeviceExposure
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.policy.device_tilt import device_window_tilt
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.bisection import bisection
from hushmq.pufferfish.protocols import Noise, Theta

WORTH_PUSHING = 1.05
"""A new setting is pushed when it lifts the signal 1−ρ0−ρ1 by at least this factor."""


def best_noise(theta: Theta, policy: StreamPolicy) -> Noise:
    """The noise that leaves the most signal within ε of the operator, after what device-made windows cost."""
    tilt = device_window_tilt(policy) / NANO
    best: Noise = model_of(policy).best_noise(
        theta, policy.epsilon.operator, policy.adversary, tilt, policy.tilt_share
    )
    return best


def mixable(
    noise: Noise,
    issued: Iterable[Noise],
    *,
    theta: Theta,
    policy: StreamPolicy,
    exposures: Iterable[DeviceExposure] = (),
) -> Noise:
    """The noise, or as much more of it as keeps every mixture with what was issued within ε (the theorem above).

    `exposures` are devices with device-specific settings: their mixtures are kept within ε too.
    """
    tau0, tau1 = _largest(issued)
    best0, best1 = noise.tilts
    added = device_window_tilt(policy) / NANO
    held = [(theta, tau0, tau1)]
    for one in exposures:
        old0, old1 = _largest(one.noises)
        # The new noise adds nothing to what a device with larger tilts already exposes. A device within Θ whose tilts
        # are within those of the cohort is covered by the bound over all of Θ.
        adds = best0 > old0 or best1 > old1
        covered = old0 <= tau0 and old1 <= tau1 and theta.contains(one.theta)
        if adds and not covered:
            held.append((one.theta, old0, old1))

    def within(share: float) -> bool:
        new0, new1 = tau0 + share * (best0 - tau0), tau1 + share * (best1 - tau1)
        return all(
            account_loss(chains, max(old0, new0) + added, max(old1, new1) + added, policy)
            <= policy.epsilon.operator
            for chains, old0, old1 in held
        )

    if within(1.0) or not within(0.0):
        return noise
    low, _ = bisection(within, 0.0, 1.0, absolute=1e-9)
    return noise.with_tilts(
        min(best0, max(tau0, tau0 + low * (best0 - tau0))),
        min(best1, max(tau1, tau1 + low * (best1 - tau1))),
    )


def _largest(noises: Iterable[Noise]) -> tuple[float, float]:
    listed = [one.tilts for one in noises]
    return max((one for one, _ in listed), default=0.0), max((one for _, one in listed), default=0.0)


def exceeds_budget(noise: Noise, theta: Theta, policy: StreamPolicy) -> bool:
    """Whether the noise exceeds the operator's budget under Θ."""
    added = device_window_tilt(policy) / NANO
    tau0, tau1 = noise.tilts
    return account_loss(theta, tau0 + added, tau1 + added, policy) > policy.epsilon.operator


def worth_pushing(new: Noise, old: Noise, factor: float = WORTH_PUSHING) -> bool:
    """Whether the new noise leaves at least `factor` times the signal of the old one."""
    return new.signal >= factor * old.signal


def provable_message(noise: Noise, theta: Theta, policy: StreamPolicy) -> NoiseMessage:
    """The noise as it is pushed, checked as a device checks it; Problem where devices would refuse it."""
    model, added = model_of(policy), device_window_tilt(policy) / NANO
    chains = model.theta_message(theta)
    why = ""
    for share in model.tilt_reductions:
        tau0, tau1 = (tau * (1 - share) for tau in noise.tilts)
        less = noise.with_tilts(tau0, tau1) if share else noise
        try:
            pushed = model.noise_message(less, theta, policy.adversary, added, policy.tilt_share)
            found = operator_loss(chains, pushed, added, policy.adversary, policy.tilt_share, policy.stride)
        except (Rejected, ValueError) as error:
            why = str(error)
            continue
        if found <= policy.epsilon.operator:
            return pushed
        why = f"its loss is {found:.6g} of {policy.epsilon.operator:g}"
    raise Problem(f"no device would take this noise: {why}")
