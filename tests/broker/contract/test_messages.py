"""Strict parsing: every fault has its reason code, nothing but Rejected is ever raised, stored messages stay readable.

Compatibility is kept by the files in `stored/`. `stored/v1` holds messages of every kind as version 1 was first
written, named <Kind>[-<what>]: they must be read for ever, to the same content. `stored/refused/<reason>` holds what
must be refused. A file is never changed; new ones may come.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from hushmq.broker.contract.messages import (
    MAX_PAYLOAD_BYTES,
    Batch,
    Counted,
    LedgerState,
    NoiseSetting,
    Release,
    Seen,
    Status,
    canonical,
    decode,
    encode,
)
from hushmq.broker.contract.packing import bits_for, pack, unpack
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Reason, Rejected

STORED = Path(__file__).parent / "stored"

KINDS: dict[str, type[BaseModel]] = {
    kind.__name__: kind for kind in (Policy, NoiseSetting, Batch, Seen, Status, Release, LedgerState)
}


STORED_NAMES = sorted(file.stem for file in (STORED / "v1").glob("*.json"))


def stored(name: str) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads((STORED / "v1" / f"{name}.json").read_bytes())
    return tree


def changed(name: str, path: str, value: object) -> bytes:
    """Return the stored message with the value at the dotted path replaced or added."""
    tree = stored(name)
    *way, last = path.split(".")
    node: Any = tree
    for step in way:
        node = node[int(step)] if isinstance(node, list) else node[step]
    node[int(last) if isinstance(node, list) else last] = value
    return json.dumps(tree).encode()


@pytest.mark.parametrize("name", STORED_NAMES)
def test_stored_messages_are_read_and_written_as_they_were(name: str) -> None:
    """Stored messages of version 1 are read without loss; fields that came later have their defaults."""
    payload, kind = (STORED / "v1" / f"{name}.json").read_bytes(), KINDS[name.split("-", maxsplit=1)[0]]
    message = decode(kind, payload)
    assert json.loads(canonical(message, as_sent=True)) == json.loads(payload)
    assert decode(kind, canonical(message)) == message


def test_a_message_of_every_kind_is_stored() -> None:
    """Messages whose form depends on the number of states are stored in both forms."""
    assert set(STORED_NAMES) >= set(KINDS)
    more = {name.split("-")[0] for name in STORED_NAMES if name.endswith("-of-three-states")}
    assert more == {"Policy", "NoiseSetting", "Batch", "Release", "LedgerState"}


@pytest.mark.parametrize(
    "file", sorted((STORED / "refused").glob("*/*.json")), ids=lambda file: f"{file.parent.name}/{file.stem}"
)
def test_stored_refusals_stay_refused(file: Path) -> None:
    """A message of a future or foreign sender is always refused with the same code. Files are named <Model>-<fault>."""
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
    ("Batch", "count", 50, Reason.MALFORMED, "states must have the length that count and bits determine"),
    ("Batch", "bits", 2, Reason.MALFORMED, "states must have the length that count and bits determine"),
    ("Batch", "bits", 9, Reason.MALFORMED, "bits: Input should be less"),
    ("Batch", "states", "no base64!", Reason.MALFORMED, "states: String should match pattern"),
    ("Batch", "noise", 0, Reason.MALFORMED, "noise: Input should be greater"),
    (
        "NoiseSetting",
        "noise.rho0",
        float("nan"),
        Reason.MALFORMED,
        "noise.rho0: Input should be a finite number",
    ),
    (
        "NoiseSetting",
        "noise.rho0",
        float("inf"),
        Reason.MALFORMED,
        "noise.rho0: Input should be a finite number",
    ),
    (
        "NoiseSetting",
        "noise.rho0",
        0,
        Reason.MALFORMED,
        "noise.rho0: Input should be greater than 0",
    ),
    ("NoiseSetting", "noise.rho0", 0.99, Reason.MALFORMED, "rho0 . rho1 must be below 1"),
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
    ("Policy", "streams.motion.stand_in", "dancing", Reason.MALFORMED, "stand_in must be one of states"),
    ("Policy", "streams.motion.fill_s", -1, Reason.MALFORMED, "fill_s: Input should be greater"),
    ("Policy", "streams.motion.fill_s", 604_801, Reason.MALFORMED, "fill_s: Input should be less"),
    ("Policy", "streams.motion.theta.start.q.low", 0.24, Reason.MALFORMED, "start must contain floor"),
    ("Seen", "streams.motion.holes", [[5, 4]], Reason.MALFORMED, "holes must be disjoint ranges"),
    ("Seen", "streams.motion.holes", [[5, 6], [6, 7]], Reason.MALFORMED, "holes must be disjoint ranges"),
    ("Seen", "streams.motion.holes", [[5, 10**12]], Reason.MALFORMED, "holes must lie below highest"),
    (
        "Status",
        "refused",
        {"version": 1, "reason": "because"},
        Reason.MALFORMED,
        "refused.reason: Input should be",
    ),
    ("Release", "counts", [1], Reason.MALFORMED, "must have the same length"),
    ("Release", "first", 2**52, Reason.MALFORMED, "first must not be above last"),
    ("Release", "smoothed", [0.6, 0.4], Reason.MALFORMED, "must be given together"),
    ("Release", "unbiased", [1.0], Reason.MALFORMED, "must be as long as states"),
    ("LedgerState", "entries", -1, Reason.MALFORMED, "entries: Input should be greater"),
]

ACTIVITY = "streams.activity"
FLOOR = stored("NoiseSetting-of-three-states")["theta"]
NARROW = {"low": FLOOR["low"], "high": FLOOR["high"]}
MANY_STATES_FAULTS: list[tuple[str, str, object, Reason, str]] = [
    (f"{kind}-of-three-states", path, value, Reason.MALFORMED, words)
    for kind, path, value, words in (
        ("Policy", f"{ACTIVITY}.adversary", "nobody", "adversary: Input should be"),
        ("Policy", f"{ACTIVITY}.states", ["a", "b"], "theta must be {q, r} or {regimes} for 2 states"),
        ("Policy", f"{ACTIVITY}.states", ["a", "b", "b"], "states must have different names"),
        ("Policy", f"{ACTIVITY}.states", list("abcd"), "theta must be {low, high} with 4 rows each"),
        ("Policy", f"{ACTIVITY}.states", ["a"], "states: Tuple should have at least 2 items"),
        ("Policy", f"{ACTIVITY}.states", list(map(str, range(257))), "states: Tuple should have at most 256"),
        (
            "Policy",
            f"{ACTIVITY}.discretiser.edges",
            [1.5],
            "discretiser: bins need one state more than they have edges",
        ),
        (
            "Policy",
            f"{ACTIVITY}.discretiser",
            {"kind": "threshold", "at": 1.0},
            "a threshold needs exactly two",
        ),
        (
            "Policy",
            f"{ACTIVITY}.theta.floor",
            stored("Policy")["streams"]["motion"]["theta"]["floor"],
            "theta: Value error, start and floor must be for the same number of states",
        ),
        ("Policy", f"{ACTIVITY}.theta.start.low.0.1", 0.11, "theta: Value error, start must contain floor"),
        (
            "Policy",
            f"{ACTIVITY}.theta.start.backward",
            FLOOR | {"backward": None},
            "backward.backward: Extra",
        ),
        (
            "Policy",
            f"{ACTIVITY}.theta.start.backward",
            NARROW,
            "theta: Value error, start must contain floor",
        ),
        ("Policy", f"{ACTIVITY}.theta.start.low.0.0", -0.1, r"theta.start.low.0.0: Input should be greater"),
        ("Policy", f"{ACTIVITY}.theta.start.high.2.2", 1.1, r"theta.start.high.2.2: Input should be less"),
        ("Policy", f"{ACTIVITY}.theta.start.low.1.2", 0.7, "theta.start: .*entry 1, 2 must have"),
        ("Policy", f"{ACTIVITY}.theta.start.low.1", [0.3, 0.4, 0.4], "theta.start: .*row 1 leaves no"),
        ("Policy", f"{ACTIVITY}.theta.start.high.1", [0.3, 0.3, 0.3], "theta.start: .*row 1 leaves no"),
        ("Policy", f"{ACTIVITY}.theta.start.low.1", [0.3, 0.4], "theta.start: .*row 1 must have 3 entries"),
        ("Policy", f"{ACTIVITY}.theta.start.low", [[0.5, 0.5], [0.5, 0.5]], "start.low: .*at least 3 items"),
        ("Policy", f"{ACTIVITY}.windows.hour.method", "mqm-approx", "mqm-approx needs an eigengap"),
        ("Policy", f"{ACTIVITY}.theta.start", {}, "theta.start.low: Field required"),
        ("Policy", f"{ACTIVITY}.theta.start", {"q": {}}, "theta.start.q.low: Field required"),
        ("Policy", f"{ACTIVITY}.theta.start", 7, "theta.start: "),
        ("NoiseSetting", "noise", {"rho0": 0.2, "rho1": 0.2}, "theta and noise must be for the same number"),
        ("NoiseSetting", "noise.rho0", 0.2, "noise.rho0: Extra inputs"),
        (
            "NoiseSetting",
            "noise.emission.1.1",
            0.0,
            "noise.emission.1.1: Input should be greater than 0",
        ),
        ("NoiseSetting", "noise.emission.1.1", 1.0, "noise.emission.1.1: Input should be less than 1"),
        ("NoiseSetting", "noise.emission.1.1", 0.51, "noise: Value error, emission row 1 must sum to 1"),
        ("NoiseSetting", "noise.emission.1", [0.5, 0.5], "noise: Value error, emission row 1 must have 3"),
        ("NoiseSetting", "noise.emission", [[0.4, 0.3, 0.3]] * 3, "the rows of emission must differ"),
        ("NoiseSetting", "noise.emission", [[0.5, 0.5]] * 2, "noise.emission: .*at least 3 items"),
        ("NoiseSetting", "noise.certificate", None, "noise.certificate: Input should be"),
        ("NoiseSetting", "noise.certificate.tau", 0, "noise.certificate.tau: Input should be greater"),
        ("NoiseSetting", "noise.certificate.tau", float("inf"), "certificate.tau: Input should be a finite"),
        ("NoiseSetting", "noise.certificate.left.hops", 0, "certificate.left.hops: Input should be greater"),
        (
            "NoiseSetting",
            "noise.certificate.left.hops",
            2.0,
            "certificate.left.hops: Input should be a valid",
        ),
        (
            "NoiseSetting",
            "noise.certificate.right.bound",
            -1,
            "certificate.right.bound: Input should be great",
        ),
        ("Release", "theta", stored("Release")["theta"], "theta must be for as many states as states names"),
        ("Release", "counts", [1, 2], "must have the same length"),
        ("LedgerState", "public.theta.backward.low.0.0", 0.9, "public.theta.backward: .*entry 0, 0 must"),
        ("Batch", "bits", 1, "states must have the length"),
        ("Batch", "bits", 3, "states must have the length"),
    )
]


@pytest.mark.parametrize(("name", "path", "value", "reason", "words"), [*FAULTS, *MANY_STATES_FAULTS])
def test_every_fault_has_its_reason(name: str, path: str, value: object, reason: Reason, words: str) -> None:
    """One field wrong: refused with the code, the field and the rule, and without the value."""
    with pytest.raises(Rejected, match=words) as caught:
        decode(KINDS[name.split("-", maxsplit=1)[0]], changed(name, path, value))
    assert caught.value.reason is reason
    assert caught.value.detail.startswith(f"{name.split('-', maxsplit=1)[0]}: ")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_the_version_cannot_be_left_out(kind: str) -> None:
    """A message without a version is refused as of an unknown version."""
    tree = stored(kind)
    del tree["v"]
    with pytest.raises(Rejected) as caught:
        decode(KINDS[kind], json.dumps(tree).encode())
    assert caught.value.reason is Reason.UNKNOWN_VERSION


def test_a_newer_version_is_reported_as_such_whatever_else_it_has() -> None:
    """The unknown fields of a new version do not hide that its version is unknown."""
    tree = {"aaa": 1, **stored("Policy"), "v": 3, "zzz": 1}
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
        (b" " * (MAX_PAYLOAD_BYTES + 1), Reason.TOO_LARGE),
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


@pytest.mark.slow
@given(st.sampled_from(STORED_NAMES), st.data())
def test_any_one_value_replaced_is_accepted_or_rejected(name: str, data: st.DataObject) -> None:
    """Whatever replaces any one value, decode returns an equal message or raises Rejected."""
    tree, kind = stored(name), KINDS[name.split("-", maxsplit=1)[0]]
    node: Any = tree
    while True:
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        if not isinstance(node[key], dict | list) or not node[key] or data.draw(st.booleans()):
            break
        node = node[key]
    node[key] = data.draw(json_values)
    try:
        message = decode(kind, json.dumps(tree).encode())
    except Rejected:
        return
    assert decode(kind, encode(message)) == message


ticks = st.integers(0, 2**53 - 1)


@given(st.integers(1, 2**50), st.integers(2, 256), st.integers(1, 2**53 - 1), st.data())
def test_a_batch_goes_round(first: int, k: int, noise: int, data: st.DataObject) -> None:
    """A batch of any size and number of states is decoded unchanged, and its last tick is first + count − 1."""
    states, bits = data.draw(st.lists(st.integers(0, k - 1), min_size=1, max_size=500)), bits_for(k)
    batch = Batch(
        first=first, after=first - 1, count=len(states), bits=bits, states=pack(states, bits), noise=noise
    )
    again = decode(Batch, encode(batch))
    assert again == batch
    assert list(unpack(again.states, again.count, again.bits)) == states
    assert batch.last == first + len(states) - 1


@given(st.lists(ticks, min_size=1, max_size=20, unique=True))
def test_seen_goes_round(bounds: list[int]) -> None:
    """Disjoint holes in rising order below the highest tick are accepted and decoded unchanged."""
    *inner, highest = sorted(bounds)
    holes = tuple(zip(inner[::2], inner[1::2], strict=False))
    seen = Seen(streams={"motion": Counted(highest=highest, holes=holes)})
    assert decode(Seen, encode(seen)) == seen
