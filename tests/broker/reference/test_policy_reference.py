"""The reference of the policy file: its example is a policy, and no setting is without a description."""

from __future__ import annotations

import tomllib
from pathlib import Path

from hushmq.broker.commands.policy_file import check_policy
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.reference.policy_reference import EXAMPLE, document


def test_the_example_is_a_policy() -> None:
    """It is accepted as strictly as on a device, and has the group it speaks of."""
    policy = check_policy(tomllib.loads(EXAMPLE), Path("policy.toml"), version=1)
    assert policy.streams["presence"].stand_in_state == 0
    assert policy.groups["ada"].devices == ("ring", "wearable-1")


def test_every_setting_is_described() -> None:
    """Each row of each table says what its setting is for, and each setting of a stream has a row or a section."""
    text = document()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [line for line in rows if line.endswith("|  |")] == []
    for name in StreamPolicy.model_fields:
        assert f"| `{name}` |" in text or f"## `[streams.<name>.{name}" in text
    assert '| `"auto"` | Of so many ticks one is published' in text
