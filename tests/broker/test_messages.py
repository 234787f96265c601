"""Strict parsing: every fault has its reason code, nothing but Rejected is ever raised, stored messages stay readable.

Compatibility is kept by the files in `stored/`. `stored/v1` holds one message of every kind as version 1 was first
written: they must be read for ever, to the same content. `stored/refused/<reason>` holds what must be refused.
A file is never changed; new ones may come.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from broker.messages import (
    LARGEST,
    Batch,
    Counted,
    LedgerState,
    NoiseSetting,
    Policy,
    Release,
    Seen,
    Status,
    canonical,
    decode,
    encode,
)
from broker.packing import pack
from broker.problem import Reason, Rejected

STORED = Path(__file__).parent / "stored"
KINDS: dict[str, type[BaseModel]] = {
    kind.__name__: kind for kind in (Policy, NoiseSetting, Batch, Seen, Status, Release, LedgerState)
}


def stored(kind: str) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads((STORED / "v1" / f"{kind}.json").read_bytes())
    return tree


def changed(kind: str, path: str, value: object) -> bytes:
    """The stored message with the value at the dotted path replaced (or added)."""
    tree = stored(kind)
    *way, last = path.split(".")
    node: Any = tree
    for step in way:
        node = node[step]
    node[last] = value
    return json.dumps(tree).encode()


@pytest.mark.parametrize("kind", KINDS)
def test_stored_messages_are_read_and_written_as_they_were(kind: str) -> None:
    """Version 1 as first written is read without loss: written again, it says the same, byte for byte canonical."""
    payload = (STORED / "v1" / f"{kind}.json").read_bytes()
    message = decode(KINDS[kind], payload)
    assert json.loads(encode(message)) == json.loads(payload)
    assert decode(KINDS[kind], canonical(message)) == message


@pytest.mark.parametrize(
    "file", sorted((STORED / "refused").glob("*/*.json")), ids=lambda file: f"{file.parent.name}/{file.stem}"
)
def test_stored_refusals_stay_refused(file: Path) -> None:
    """What a future or foreign writer sends is refused with the same code as ever. Files are named <Kind>-<what>."""
    with pytest.raises(Rejected) as caught:
        decode(KINDS[file.stem.split("-")[0]], file.read_bytes())
    assert caught.value.reason == file.parent.name


FAULTS: list[tuple[str, str, object, Reason, str]] = [
    ("Batch", "v", 2, Reason.UNKNOWN_VERSION, "v: Input should be 1"),
    ("Batch", "v", "1", Reason.UNKNOWN_VERSION, "v: Input should be 1"),
    ("Policy", "v", None, Reason.UNKNOWN_VERSION, "v: Input should be 1"),
    ("Batch", "colour", "red", Reason.MALFORMED, "colour: Extra inputs"),
    ("Batch", "§ $(rm)", "red", Reason.MALFORMED, "…: Extra inputs"),
    ("Policy", "streams.motion.colour", "red", Reason.MALFORMED, "streams.motion.colour: Extra inputs"),
    ("Batch", "first", "7", Reason.MALFORMED, "first: Input should be a valid integer"),
    ("Batch", "first", 7.0, Reason.MALFORMED, "first: Input should be a valid integer"),
    ("Batch", "first", True, Reason.MALFORMED, "first: Input should be a valid integer"),
    ("Batch", "first", -1, Reason.MALFORMED, "first: Input should be greater than or equal to 0"),
    ("Batch", "first", 2**53, Reason.MALFORMED, "first: Input should be less than"),
    ("Batch", "first", 2**53 - 2, Reason.MALFORMED, "the last tick must be below"),
    ("Batch", "after", 10**9, Reason.MALFORMED, "after must be below first"),
    ("Batch", "count", 0, Reason.MALFORMED, "count: Input should be greater"),
    ("Batch", "count", 65_537, Reason.MALFORMED, "count: Input should be less"),
    ("Batch", "count", 50, Reason.MALFORMED, "states do not have the length that count and bits ask for"),
    ("Batch", "bits", 2, Reason.MALFORMED, "states do not have the length that count and bits ask for"),
    ("Batch", "bits", 9, Reason.MALFORMED, "bits: Input should be less"),
    ("Batch", "states", "no base64!", Reason.MALFORMED, "states: String should match pattern"),
    ("Batch", "noise", 0, Reason.MALFORMED, "noise: Input should be greater"),
    ("NoiseSetting", "rho0", float("nan"), Reason.MALFORMED, "rho0: Input should be a finite number"),
    ("NoiseSetting", "rho0", float("inf"), Reason.MALFORMED, "rho0: Input should be a finite number"),
    ("NoiseSetting", "rho0", 0, Reason.MALFORMED, "rho0: Input should be greater than 0"),
    ("NoiseSetting", "rho0", 0.99, Reason.MALFORMED, "rho0 . rho1 must be below 1"),
    ("NoiseSetting", "stream", "a/b", Reason.MALFORMED, "stream: String should match pattern"),
    ("NoiseSetting", "stream", "motion\n", Reason.MALFORMED, "stream: String should match pattern"),
    (
        "NoiseSetting",
        "theta.q.low",
        0.9,
        Reason.MALFORMED,
        "theta.q: Value error, low must not be above high",
    ),
    ("Policy", "version", 0, Reason.MALFORMED, "version: Input should be greater"),
    ("Policy", "streams", {}, Reason.MALFORMED, "streams: Dictionary should have at least 1 item"),
    ("Policy", "streams.motion.epsilon.operator", 0, Reason.MALFORMED, "greater than 0"),
    ("Policy", "streams.motion.epsilon.operator", 21, Reason.MALFORMED, "less than or equal to 20"),
    (
        "Policy",
        "streams.motion.discretiser",
        {"kind": "secret"},
        Reason.MALFORMED,
        "discretiser: unknown kind",
    ),
    ("Policy", "streams.motion.theta.start.q.low", 0.24, Reason.MALFORMED, "start must contain floor"),
    ("Seen", "streams.motion.holes", [[5, 4]], Reason.MALFORMED, "holes must be ranges that rise"),
    ("Seen", "streams.motion.holes", [[5, 6], [6, 7]], Reason.MALFORMED, "holes must be ranges that rise"),
    ("Seen", "streams.motion.holes", [[5, 10**12]], Reason.MALFORMED, "holes must lie below highest"),
    (
        "Status",
        "refused",
        {"version": 1, "reason": "because"},
        Reason.MALFORMED,
        "refused.reason: Input should be",
    ),
    ("Release", "counts", [1], Reason.MALFORMED, "must be equally many"),
    ("Release", "first", 2**52, Reason.MALFORMED, "first must not be above last"),
    ("LedgerState", "entries", -1, Reason.MALFORMED, "entries: Input should be greater"),
]


@pytest.mark.parametrize(("kind", "path", "value", "reason", "words"), FAULTS)
def test_every_fault_has_its_reason(kind: str, path: str, value: object, reason: Reason, words: str) -> None:
    """One field wrong: refused with the code, the field and the rule, and without the value."""
    with pytest.raises(Rejected, match=words) as caught:
        decode(KINDS[kind], changed(kind, path, value))
    assert caught.value.reason is reason
    assert caught.value.detail.startswith(f"{kind}: ")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_the_version_cannot_be_left_out(kind: str) -> None:
    """A message without a version is of no known version."""
    tree = stored(kind)
    del tree["v"]
    with pytest.raises(Rejected) as caught:
        decode(KINDS[kind], json.dumps(tree).encode())
    assert caught.value.reason is Reason.UNKNOWN_VERSION


def test_a_newer_version_is_told_as_such_whatever_else_it_has() -> None:
    """New fields of a new version do not hide that it is one."""
    tree = {"aaa": 1, **stored("Policy"), "v": 2, "zzz": 1}
    with pytest.raises(Rejected) as caught:
        decode(Policy, json.dumps(tree).encode())
    assert caught.value.reason is Reason.UNKNOWN_VERSION


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", Reason.MALFORMED),
        (b"null", Reason.MALFORMED),
        (b"[]", Reason.MALFORMED),
        (b"{", Reason.MALFORMED),
        (b"\xff\xfe", Reason.MALFORMED),
        (b'{"v":1}{"v":1}', Reason.MALFORMED),
        (b"[" * 100_000, Reason.MALFORMED),
        (b'{"v":' * 50_000, Reason.MALFORMED),
        (b'{"v":1' + b"0" * 5000 + b"}", Reason.MALFORMED),
        (b" " * (LARGEST + 1), Reason.TOO_LARGE),
    ],
)
def test_what_is_no_message_is_refused(payload: bytes, reason: Reason) -> None:
    """Empty, foreign, broken, deep and oversized payloads."""
    with pytest.raises(Rejected) as caught:
        decode(Batch, payload)
    assert caught.value.reason is reason


@given(st.binary(max_size=200), st.sampled_from(sorted(KINDS)))
def test_rubbish_is_rejected_never_anything_else(payload: bytes, kind: str) -> None:
    """No payload makes decode raise anything but Rejected."""
    with pytest.raises(Rejected):
        decode(KINDS[kind], payload)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(KINDS)), st.data())
def test_any_one_value_replaced_is_accepted_or_rejected(kind: str, data: st.DataObject) -> None:
    """Whatever stands in place of any one value, decode returns an equal message or raises Rejected."""
    tree = stored(kind)
    node: Any = tree
    while True:
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        if not isinstance(node[key], dict | list) or not node[key] or data.draw(st.booleans()):
            break
        node = node[key]
    node[key] = data.draw(json_values)
    try:
        message = decode(KINDS[kind], json.dumps(tree).encode())
    except Rejected:
        return
    assert decode(KINDS[kind], encode(message)) == message


ticks = st.integers(0, 2**53 - 1)


@given(
    st.integers(1, 2**50), st.lists(st.integers(0, 1), min_size=1, max_size=500), st.integers(1, 2**53 - 1)
)
def test_a_batch_goes_round(first: int, states: list[int], noise: int) -> None:
    """A batch of any size comes back as it was, and its last tick is first + count − 1."""
    batch = Batch(first=first, after=first - 1, count=len(states), states=pack(states), noise=noise)
    assert decode(Batch, encode(batch)) == batch
    assert batch.last == first + len(states) - 1


@given(st.lists(ticks, min_size=1, max_size=20, unique=True))
def test_seen_goes_round(bounds: list[int]) -> None:
    """Rising, separate holes below the highest tick are accepted and come back."""
    *inner, highest = sorted(bounds)
    holes = tuple(zip(inner[::2], inner[1::2], strict=False))
    seen = Seen(streams={"motion": Counted(highest=highest, holes=holes)})
    assert decode(Seen, encode(seen)) == seen
