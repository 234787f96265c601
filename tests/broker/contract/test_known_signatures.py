"""Signatures are verified as RFC 8032 says."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.broker.contract.signature import PublicKey

ORDER = 2**252 + 27742317777372353535851937790883648493
"""The order of the base point: a signature's second half is below it (RFC 8032, 5.1.7)."""

KNOWN = tuple(
    bytes.fromhex(text)
    for text in (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        "72",
    )
)
"""RFC 8032, 7.1, test 2: public key, signature, message."""

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


def verify(key: bytes, signature: bytes, message: bytes) -> bool:
    return PublicKey(key)._fits(signature, message)


@pytest.mark.parametrize("vector", [*(tuple(map(bytes.fromhex, vector)) for vector in VECTORS), KNOWN])
def test_the_known_answers(vector: tuple[bytes, bytes, bytes]) -> None:
    """Each signature is valid for its key and message, and for none with one bit changed."""
    assert verify(*vector)
    for place, part in enumerate(vector):
        for byte in (0, len(part) // 2, len(part) - 1) if part else ():
            changed = bytearray(part)
            changed[byte] ^= 1
            assert not verify(*vector[:place], bytes(changed), *vector[place + 1 :])


def test_a_signature_has_one_form_only() -> None:
    """A second half of the signature that is not reduced modulo the group's order is refused (RFC 8032)."""
    key, signature, message = KNOWN
    other = (int.from_bytes(signature[32:], "little") + ORDER).to_bytes(32, "little")
    assert not verify(key, signature[:32] + other, message)


@pytest.mark.parametrize(("key", "signature"), [(31, 64), (33, 64), (0, 64), (32, 63), (32, 65), (32, 0)])
def test_the_wrong_length_is_refused(key: int, signature: int) -> None:
    assert not verify((KNOWN[0] + b"\0")[:key], (KNOWN[1] + b"\0")[:signature], KNOWN[2])


@settings(max_examples=100, deadline=None)
@given(
    st.binary(min_size=32, max_size=32),
    st.binary(max_size=200),
    st.one_of(st.none(), st.tuples(st.integers(0, 2), st.integers(0, 10**6), st.integers(1, 255))),
)
def test_any_changed_byte_is_noticed(
    secret: bytes, message: bytes, change: tuple[int, int, int] | None
) -> None:
    """A signature is valid for its key and message, and for none with any byte of any part changed."""
    key = Ed25519PrivateKey.from_private_bytes(secret)
    parts = [key.public_key().public_bytes_raw(), key.sign(message), message]
    changes = change is not None and bool(parts[change[0]])
    if change is not None and changes:
        changed = bytearray(parts[change[0]])
        changed[change[1] % len(changed)] ^= change[2]
        parts[change[0]] = bytes(changed)
    assert verify(*parts) is not changes
