"""Signatures: what is signed, who may sign, and how keys are kept."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmq.broker.contract.messages import NoiseSetting, canonical, decode, encode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem, Reason, Rejected
from hushmq.broker.contract.signature import PrivateKey, PublicKey, verify

STORED = Path(__file__).parent / "stored"
POLICY = decode(Policy, (STORED / "v1" / "Policy.json").read_bytes())
NOISE = decode(NoiseSetting, (STORED / "v1" / "NoiseSetting.json").read_bytes())
KEY, NEXT, STRANGER = (PrivateKey(bytes([n]) * 32) for n in (1, 2, 3))


def tree(payload: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(payload)
    return parsed


def test_what_is_signed_is_verified() -> None:
    """A signed message comes back equal."""
    assert verify(Policy, encode(KEY.sign(POLICY)), [KEY.public]) == POLICY
    assert verify(NoiseSetting, encode(KEY.sign(NOISE)), [KEY.public]) == NOISE


@pytest.mark.parametrize("file", sorted((STORED / "signed").glob("*.json")), ids=lambda file: file.stem)
def test_a_stored_signature_still_holds(file: Path) -> None:
    """The signed bytes never change: what was once signed is verified for ever, and signing is deterministic."""
    payload, plain = file.read_bytes(), (STORED / "v1" / file.name).read_bytes()
    kind: Any = Policy if file.stem.startswith("Policy") else NoiseSetting
    message = verify(kind, payload, [KEY.public])
    assert message == decode(kind, plain)
    assert encode(KEY.sign(message)) == encode(KEY.sign(message))


def test_two_keys_are_valid_while_one_replaces_the_other() -> None:
    """During a rotation both the old and the new key are accepted; before and after, only one of them."""
    old, new = encode(KEY.sign(POLICY)), encode(NEXT.sign(POLICY))
    for payload in (old, new):
        assert verify(Policy, payload, [KEY.public, NEXT.public]) == POLICY
    for payload, keys in ((old, [NEXT.public]), (new, [KEY.public]), (new, [])):
        with pytest.raises(Rejected) as caught:
            verify(Policy, payload, keys)
        assert caught.value.reason is Reason.UNKNOWN_KEY


def test_spacing_and_order_do_not_matter_content_does() -> None:
    """The signature is over the canonical encoding: the same message with another layout is still verified."""
    signed = tree(encode(KEY.sign(POLICY)))
    reordered = dict(reversed(signed.items()))
    reordered["message"] = dict(reversed(signed["message"].items()))
    assert verify(Policy, json.dumps(reordered, indent=3).encode(), [KEY.public]) == POLICY


def test_the_canonical_encoding_is_one_byte_string() -> None:
    """Sorted keys, no spaces, unescaped UTF-8, shortest floats: written by hand."""
    assert canonical(NOISE) == (
        b'{"cohort":"home","device":null,"noise":{"rho0":0.2,"rho1":0.25},"policy":3,"stream":"motion",'
        b'"theta":{"q":{"high":0.3,"low":0.2},"r":{"high":0.4,"low":0.3}},"v":1,"version":7}'
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", 8),
        ("policy", 4),
        ("noise", {"rho0": 0.20000000000000004, "rho1": 0.25}),
        ("stream", "other"),
        ("device", "wearable-1"),
    ],
)
def test_a_message_changed_after_signing_is_refused(path: str, value: object) -> None:
    """A signature is refused after the smallest change of any field."""
    signed = tree(encode(KEY.sign(NOISE)))
    signed["message"][path] = value
    with pytest.raises(Rejected) as caught:
        verify(NoiseSetting, json.dumps(signed).encode(), [KEY.public])
    assert caught.value.reason is Reason.BAD_SIGNATURE


@given(st.integers(0, 85), st.sampled_from("ABCDwxyz0189+/"))
def test_no_other_text_is_a_signature(at: int, other: str) -> None:
    """A signature changed in any character is refused, including the unused bits of base64."""
    signed = tree(encode(KEY.sign(NOISE)))
    good = signed["signature"]
    signed["signature"] = good[:at] + other + good[at + 1 :]
    if signed["signature"] == good:
        return
    with pytest.raises(Rejected) as caught:
        verify(NoiseSetting, json.dumps(signed).encode(), [KEY.public])
    assert caught.value.reason is Reason.BAD_SIGNATURE


def test_a_key_cannot_be_claimed_by_its_id() -> None:
    """Another key's signature under a trusted key's id is refused."""
    signed = tree(encode(STRANGER.sign(POLICY)))
    signed["key"] = KEY.public.id
    with pytest.raises(Rejected) as caught:
        verify(Policy, json.dumps(signed).encode(), [KEY.public])
    assert caught.value.reason is Reason.BAD_SIGNATURE


def test_a_signature_for_one_model_is_not_valid_for_another() -> None:
    """The model's name is part of the signed bytes, so that models with the same fields have different signatures."""
    with pytest.raises(Rejected) as caught:
        verify(Policy, encode(KEY.sign(NOISE)), [KEY.public])
    assert caught.value.reason is Reason.MALFORMED


def test_a_newer_version_inside_is_reported_as_such() -> None:
    """An unknown version, of the envelope or the message, is reported as such before the signature is verified."""
    for change in ({"v": 2}, {"message": {**tree(encode(POLICY)), "v": 3}}):
        signed = {**tree(encode(KEY.sign(POLICY))), **change}
        with pytest.raises(Rejected) as caught:
            verify(Policy, json.dumps(signed).encode(), [KEY.public])
        assert caught.value.reason is Reason.UNKNOWN_VERSION


@given(st.binary(max_size=100))
def test_rubbish_is_rejected_never_anything_else(payload: bytes) -> None:
    """No payload makes verify raise anything but Rejected."""
    with pytest.raises(Rejected):
        verify(Policy, payload, [KEY.public])


def test_a_key_file_goes_round_and_is_private(tmp_path: Path) -> None:
    """Saved with mode 600, loaded again as the same key."""
    file = tmp_path / "ops.key"
    KEY.save(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert PrivateKey.load(file).public.id == KEY.public.id
    assert PublicKey.parse(str(KEY.public)).id == KEY.public.id


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o601, 0o777])
def test_a_key_file_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    """A key file that group or others may access is refused."""
    file = tmp_path / "ops.key"
    KEY.save(file)
    file.chmod(mode)
    with pytest.raises(Problem, match=f"ops.key is open to others .mode {mode:o}.: chmod 600 it"):
        PrivateKey.load(file)


@pytest.mark.parametrize("mode", [0o700, 0o500, 0o1600, 0o4600])
def test_a_key_file_of_another_mode_is_refused(tmp_path: Path, mode: int) -> None:
    """A key file that is executable is refused; read-only for its owner (400, as secrets are mounted) is accepted."""
    file = tmp_path / "ops.key"
    KEY.save(file)
    file.chmod(mode)
    with pytest.raises(Problem, match=f"ops.key has the mode {mode:o}: chmod 600 it"):
        PrivateKey.load(file)
    file.chmod(0o400)
    assert PrivateKey.load(file).public.id == KEY.public.id


def test_a_key_file_is_never_overwritten(tmp_path: Path) -> None:
    """A key file is never overwritten."""
    file = tmp_path / "ops.key"
    KEY.save(file)
    with pytest.raises(Problem, match="never overwritten"):
        NEXT.save(file)
    assert PrivateKey.load(file).public.id == KEY.public.id


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 44, b"QUJD\n", b"!" * 44])
def test_a_damaged_key_file_is_reported_without_its_content(tmp_path: Path, content: bytes) -> None:
    """The message describes the form of a key and does not show the file's content."""
    file = tmp_path / "ops.key"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(Problem) as caught:
        PrivateKey.load(file)
    assert str(caught.value) == f"{file}: a key is 32 bytes in base64, 44 characters"


def test_missing_files_and_folders_are_problems(tmp_path: Path) -> None:
    """Neither loading nor saving ends in a traceback."""
    with pytest.raises(Problem, match="No such file"):
        PrivateKey.load(tmp_path / "none.key")
    with pytest.raises(Problem, match="No such file"):
        KEY.save(tmp_path / "none" / "ops.key")


def test_a_private_key_is_in_no_repr() -> None:
    """The repr and text of a private key do not show it."""
    assert "AQEB" not in f"{KEY!r} {KEY} {vars(KEY)}"


def test_a_message_signed_before_a_field_existed_is_still_verified() -> None:
    """The signature covers the fields that were sent; one that is left out afterwards breaks it."""
    before = tree(encode(POLICY))
    del before["streams"]["motion"]["misfit"]
    signature = b64encode(
        KEY._key.sign(
            b"hushmq/1/Policy\n"
            + json.dumps(before, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        )
    ).decode()
    signed = {"v": 1, "message": before, "key": KEY.public.id, "signature": signature}
    assert verify(Policy, json.dumps(signed).encode(), [KEY.public]) == POLICY
    shortened = tree(encode(KEY.sign(POLICY)))
    del shortened["message"]["streams"]["motion"]["misfit"]
    with pytest.raises(Rejected) as caught:
        verify(Policy, json.dumps(shortened).encode(), [KEY.public])
    assert caught.value.reason is Reason.BAD_SIGNATURE
