"""A pushed policy in words: what changes for every stream, what it costs and what its windows will tell."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hushmq.broker.commands.push_plan import Plan, devices_of, new_epoch, repriced_pasts
from hushmq.broker.commands.push_warnings import renamed_in_place, what_is_left
from hushmq.broker.commands.rollout import Received
from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.broker.contract.theta_message import RegimeThetaMessage
from hushmq.broker.forecast.account_forecast import matched_states
from hushmq.broker.forecast.choose_stride import stride_gain
from hushmq.broker.forecast.chosen_words import chosen, maker_reason
from hushmq.broker.forecast.policy_forecast import Forecast
from hushmq.broker.forecast.query_forecast import query_words
from hushmq.broker.forecast.what_if import more_in_words
from hushmq.broker.forecast.window_forecast import WindowForecast, window_forecasts


def words_of(policy: Policy, received: Received, plan: Plan) -> list[str]:
    present = received.highest_version
    lines = [
        f"cohort {policy.cohort}: policy {present or 'none'} → {policy.version}",
        *_lost_policy(received),
        *matched_states(policy),
    ]
    gone = sorted(set(received.policy.streams if received.policy else ()) - set(policy.streams))
    lines += [f"  {name}: removed; devices stop publishing it" for name in gone]
    devices, pasts = devices_of(policy, received), repriced_pasts(plan, received)
    for name, (before, forecasted) in plan.items():
        after = forecasted.after
        old = received.policy.streams.get(name) if received.policy else None
        changes = _changes(old, policy.streams[name])
        lines.append(f"  {name}: {'new' if old is None else ', '.join(changes) or 'unchanged'}")
        reason = None if old is None else new_epoch(old, policy.streams[name])
        if reason is not None:
            lines += [
                f"    NEW EPOCH: {reason}. What was learned of {name} is dropped, and learned anew from theta.start;",
                "    ticks so far are accounted for under what was believed until now, and devices publish nothing "
                "of it until they have the new noise",
            ]
        lines += _stride(policy, name)
        lines += _chosen(forecasted.account.policy, after)
        lines += [
            f"    {'chains assumed':<28}{_chains(before):>18} → {_chains(after)}",
            f"    {'noise on the device':<28}{_noise(before):>18} → {_noise(after)}",
            f"    {'loss to operators':<28}{_loss(before, 'operator'):>18} → {after.operator:.4f}",
            f"    {'loss to the public':<28}{_loss(before, 'public'):>18} → {after.public:.4f}",
            *_undecided(before, after, policy.streams[name]),
            f"    {'error of an hourly histogram':<28}{_error(before):>18} → ±{after.hourly_error:.4f}",
            *forecasted.in_words(),
        ]
        lines.append(f"    if learning is deceived, at most {after.deceived.in_words()}")
        if policy.streams[name].adversary != "informed":
            lines.append("    NOTE: both losses assume an adversary who knows no state at any other instant")
        if isinstance(policy.streams[name].theta.start, RegimeThetaMessage):
            lines.append(
                "    NOTE: Θ is the chains that theta.start lists and none between them; nothing is learned beyond it, "
                "and a known state would tell the regime around it"
            )
        ledger = received.ledgers.get(name)
        if old is not None and (renamed := renamed_in_place(old, policy.streams[name])) is not None:
            lines.append(f"    WARNING: {renamed}")
        if ledger is not None and reason is None:
            for left in what_is_left(ledger, forecasted.account.policy, pasts.get(name)):
                least = " at least, under the new Θ" if left.repriced else ""
                lines.append(f"    {left.words:<28}{left.before:>18.4f} → {left.after:.4f}{least}")
                if left.after < -1e-9:
                    lines.append(
                        f"    WARNING: {'up to ' * left.repriced}{-left.after:.4f} more than the new ε of the "
                        f"{left.audience} is already spent: the stream stops, or goes on in a new epoch"
                    )
            lines.append(
                "    that is about any one instant, and does not add up over windows: with 0 left, releases go on"
            )
        if old is not None and policy.streams[name].epsilon.operator > old.epsilon.operator:
            lines.append(
                "    NOTE: ε rises: ticks under the new policy also reveal more about the last ticks under the old one"
            )
        lines += _windows(after, window_forecasts(forecasted.account.policy, after, devices=devices[name]))
        lines += query_words(forecasted.account.policy, after, devices=devices[name])
        if len(after.shares) > 1:
            lines.append(f"    a tick is in all {len(after.shares)} of these windows, and their tilts add up")
        lines.append(f"    with learning ({after.learning:.5f}) the total tilt of a tick is {after.tilt:.5f}")
        thetas = {each: found.after.theta for each, (_, found) in plan.items()}
        if (more := more_in_words(policy, name, thetas, max(1, devices[name]))) is not None:
            lines.append(f"    {more}")
    return lines


def _chosen(stream: StreamPolicy, after: Forecast) -> list[str]:
    """What was chosen, and why."""
    reason = maker_reason(stream, after)
    return [f"    chosen: {words}" for words in (*chosen(stream), *(() if reason is None else (reason,)))]


def _lost_policy(received: Received) -> list[str]:
    retained = received.policy.version if received.policy else 0
    if received.highest_version <= retained:
        return []
    return [
        f"  NOTE: the broker retains {f'policy {retained}' if retained else 'no policy'}, but policy "
        f"{received.highest_version} is followed: the broker has come back older, and is what this is compared with"
    ]


def _windows(after: Forecast, found: Sequence[WindowForecast]) -> list[str]:
    """Return a line for every window that the calibrator releases: its tilt, its noise, the 95% interval of a share."""
    lines = []
    for share, one in zip(after.shares, found, strict=False):
        lines.append(
            f"    window {share.window} ({share.ticks} ticks) for the {share.scope}: "
            f"tilt {share.tilt:.5f}, noise of scale {share.scale:.1f}, a share ±{one.half_width:.2g} (95%)"
        )
        if not one.tells:
            lines.append("    WARNING: that is less than no data tells: whoever says ½ is off by 0.5 at most")
    return lines


def _stride(policy: Policy, name: str) -> list[str]:
    """How much of the stream is published where not every tick is, and what that is good for."""
    own = policy.streams[name]
    if own.stride == 1:
        return []
    every = policy.model_copy(
        update={"streams": policy.streams | {name: own.model_copy(update={"stride": 1})}}
    )
    gain = stride_gain(every, name, own.stride)
    better = ""
    if gain is not None:
        factor, way = (gain, "smaller") if gain >= 1 else (1 / gain, "LARGER")
        better = f"; the windows' errors are {factor:.2g} times {way} than with all of them"
    lines = [
        f"    one of {own.stride} ticks is published, every {own.stride_ms / 1000:g} s, and every tick is protected"
        f"{better}"
    ]
    if len(own.states) > 2:
        lines.append("    with a stride nothing is learned of more than two states: Θ stays theta.start")
    return lines


def _changes(old: StreamPolicy | None, new: StreamPolicy) -> list[str]:
    if old is None:
        return []
    was, will = old.model_dump(mode="json"), new.model_dump(mode="json")
    # Matrices are too long for one line; the change of Θ is shown below.
    matrices = ["theta"] if len(new.states) > 2 else []
    return [
        key if key in matrices else f"{key}: {_short(was[key])} → {_short(will[key])}"
        for key in will
        if was[key] != will[key]
    ]


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _chains(one: Forecast | None) -> str:
    return "none" if one is None else one.theta.in_brief()


def _noise(one: Forecast | None) -> str:
    return "none" if one is None else one.noise.in_words()


def _loss(one: Forecast | None, audience: str) -> str:
    return "none" if one is None else f"{getattr(one, audience):.4f}"


def _undecided(before: Forecast | None, after: Forecast, stream: StreamPolicy) -> list[str]:
    """Return the losses to the undecided adversary, unless the policy is priced for that one anyway."""
    if stream.adversary == "undecided":
        return []
    return [
        f"    {words:<28}{_loss(before, field):>18} → {getattr(after, field):.4f}"
        for words, field in (
            ("operators, undecided", "undecided_operator"),
            ("the public, undecided", "undecided_public"),
        )
    ]


def _error(one: Forecast | None) -> str:
    return "none" if one is None else f"±{one.hourly_error:.4f}"
