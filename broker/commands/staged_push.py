"""A roll-out in stages: a policy that a few devices apply first, and the same policy for all, one version higher."""

from __future__ import annotations

from collections.abc import Mapping

from hushmq.broker.commands.push_plan import new_epoch
from hushmq.broker.commands.rollout import Progress, Received
from hushmq.broker.contract.account_share import group_of
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem


def stages_of(policy: Policy, first: str | None, received: Received) -> list[Policy]:
    """Return the policies to publish one after the other: one, or with `first` one for a few devices and one for all.

    `first` is the names of devices, separated by commas, or how many of those on line. Raises Problem where they cannot
    be told, or the policy cannot be rolled out in stages.
    """
    if first is None:
        return [policy]
    if policy.first_devices:
        raise Problem("--first: the policy itself names first_devices: leave out one of them")
    check_stages(policy, received)
    names = sorted({member for one in _chosen(first, received) for member in group_of(policy, one)})
    return [
        policy.model_copy(update={"first_devices": tuple(names)}),
        policy.model_copy(update={"version": policy.version + 1}),
    ]


def check_stages(policy: Policy, received: Received) -> None:
    """Raise Problem if windows would add up states of the former policy and of this one that do not mean the same."""
    for name, stream in policy.streams.items():
        old = received.policy.streams.get(name) if received.policy else None
        why = None if old is None else new_epoch(old, stream)
        if why is not None:
            raise Problem(
                f"--first: streams.{name}: {why}, which is for all devices at once: push it without stages"
            )


def all_applied(policy: Policy, found: Mapping[str, Progress]) -> bool:
    """Whether every device that was to apply the policy first has done so, and none of the others would refuse it."""
    mine = [found.get(device) for device in policy.first_devices]
    refused = any(one.state == "refused" for one in found.values())
    return not refused and all(one is not None and one.state == "applied" for one in mine)


def _chosen(text: str, received: Received) -> list[str]:
    known = sorted(received.statuses)
    if text.isdecimal():
        on_line = [name for name in known if received.statuses[name].online is not False]
        if not 1 <= int(text) <= len(on_line):
            raise Problem(f"--first: {text} of {len(on_line)} devices on line: give a number from 1 to that")
        return on_line[: int(text)]
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in received.statuses:
            raise Problem(f"--first: nothing is known of {name!r}; devices are {', '.join(known) or 'none'}")
    return names
