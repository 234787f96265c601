"""Both verifications say the same, and what RFC 8032 says."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.broker import ed25519
from hushmq.broker.ed25519 import KNOWN, Verify, verifier

ORDER = 2**252 + 27742317777372353535851937790883648493
"""The order of the base point: a signature's second half is below it (RFC 8032, 5.1.7)."""

VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b",
        "",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
        "4a7c15e9716ed28dc027beceea1ec40a",
        "af82",
    ),
]
"""RFC 8032, 7.1, tests 1 and 3: public key, signature, message."""


@pytest.fixture(params=["ssl", "cryptography"])
def verify(request: pytest.FixtureRequest) -> Verify:
    return ed25519._of_ssl() if request.param == "ssl" else ed25519._of_cryptography()


@pytest.fixture
def afresh() -> Iterator[None]:
    """The choice between the two is made anew in the test and after it."""
    verifier.cache_clear()
    yield
    verifier.cache_clear()


@pytest.mark.parametrize("vector", [*(tuple(map(bytes.fromhex, vector)) for vector in VECTORS), KNOWN])
def test_the_known_answers(verify: Verify, vector: tuple[bytes, bytes, bytes]) -> None:
    """Each signature counts for its key and message, and for none with a bit changed."""
    assert verify(*vector)
    for place, part in enumerate(vector):
        for byte in (0, len(part) // 2, len(part) - 1) if part else ():
            changed = bytearray(part)
            changed[byte] ^= 1
            assert not verify(*vector[:place], bytes(changed), *vector[place + 1 :])


def test_a_signature_has_one_form_only(verify: Verify) -> None:
    """Its second half plus the group's order would be the same number: refused, as RFC 8032 asks."""
    key, signature, message = KNOWN
    other = (int.from_bytes(signature[32:], "little") + ORDER).to_bytes(32, "little")
    assert not verify(key, signature[:32] + other, message)


@pytest.mark.parametrize(("key", "signature"), [(31, 64), (33, 64), (0, 64), (32, 63), (32, 65), (32, 0)])
def test_the_wrong_length_is_refused(verify: Verify, key: int, signature: int) -> None:
    assert not verify((KNOWN[0] + b"\0")[:key], (KNOWN[1] + b"\0")[:signature], KNOWN[2])


@settings(max_examples=100, deadline=None)
@given(
    st.binary(min_size=32, max_size=32),
    st.binary(max_size=200),
    st.one_of(st.none(), st.tuples(st.integers(0, 2), st.integers(0, 10**6), st.integers(1, 255))),
)
def test_both_always_agree(secret: bytes, message: bytes, change: tuple[int, int, int] | None) -> None:
    """On every key and message, unchanged (then the answer is yes) or with any byte of any part changed."""
    key = Ed25519PrivateKey.from_private_bytes(secret)
    parts = [key.public_key().public_bytes_raw(), key.sign(message), message]
    if change is not None and parts[change[0]]:
        changed = bytearray(parts[change[0]])
        changed[change[1] % len(changed)] ^= change[2]
        parts[change[0]] = bytes(changed)
    answers = {each(*parts) for each in (ed25519._of_ssl(), ed25519._of_cryptography())}
    assert len(answers) == 1
    if change is None:
        assert answers == {True}


@pytest.mark.usefixtures("afresh")
def test_where_ssl_cannot_do_it_cryptography_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """No ssl module; a library without these functions; one that says yes, or no, to everything."""
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "_ssl", None)
        assert verifier()(*KNOWN)
    verifier.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", lambda _name: object())
        assert verifier()(*KNOWN)
    for wrong in (True, False):
        verifier.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(ed25519, "_of_ssl", lambda wrong=wrong: lambda *_: wrong)
            assert verifier()(*KNOWN)
            assert not verifier()(KNOWN[0], KNOWN[1], b"")


@pytest.mark.usefixtures("afresh")
def test_here_it_is_done_without_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Verify:
        raise AssertionError

    monkeypatch.setattr(ed25519, "_of_cryptography", fail)
    assert verifier()(*KNOWN)
