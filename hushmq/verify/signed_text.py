"""Signatures, seals and digests: Ed25519 (RFC 8032) over canonical JSON, BLAKE2b over the entries of a ledger."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

EMPTY_HEAD = "0" * 64
"""The digest before the first entry."""
DIGESTED = (
    "stream",
    "window",
    "scope",
    "audience",
    "first",
    "last",
    "tilt",
    "noise",
    "noise_digest",
    "why",
    "at",
)
"""The fields of an entry, in the order in which its digest covers them."""

SEALED_OF_EPOCH = (
    "stream",
    "number",
    "first",
    "reason",
    "policy",
    "ops",
    "meaning",
    "settings",
    "ended_theta",
)
"""The fields of an epoch, in the order in which its digest covers them."""


def key_bytes(text: str) -> bytes:
    """The key of a base64 text; ValueError if it is none."""
    raw = b64decode(text.strip(), validate=True)
    if len(raw) != 32:
        raise ValueError("a public key is 32 bytes in base64, 44 characters")
    return raw


def canonical(tree: Any) -> bytes:
    """JSON with sorted keys, without spaces, in UTF-8: what is signed."""
    return json.dumps(
        tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def signed_by(keys: Iterable[bytes], kind: str, envelope: dict[str, Any]) -> bool:
    """Whether one of the keys signed the message in an envelope as a message of this kind."""
    text = f"hushmq/1/{kind}\n".encode() + canonical(envelope["message"])
    return any(_fits(key, envelope["signature"], text) for key in keys)


def sealed_by(keys: Iterable[bytes], text: bytes, seal: str | None) -> bool:
    """Whether one of the keys sealed a text."""
    return seal is not None and any(_fits(key, seal, b"hushmq/1/seal\n" + text) for key in keys)


def _fits(key: bytes, signature: str, text: bytes) -> bool:
    try:
        raw = b64decode(signature, validate=True)
        Ed25519PublicKey.from_public_bytes(key).verify(raw, text)
    except (InvalidSignature, ValueError):
        return False
    return b64encode(raw).decode() == signature


def entry_digest(before: str, entry: dict[str, Any]) -> str:
    """The digest of an entry: over the digest of the one before it and its fields."""
    content = json.dumps([before, *(entry[name] for name in DIGESTED)], separators=(",", ":"))
    return blake2b(content.encode(), digest_size=32).hexdigest()


def epoch_digest(before: dict[str, Any], begun: dict[str, Any]) -> str:
    """The digest of the epoch that ended and of the one that began, which the entry keeps that began it."""
    content = [[row[name] for name in SEALED_OF_EPOCH] for row in (before, begun)]
    return blake2b(json.dumps(content, separators=(",", ":")).encode(), digest_size=16).hexdigest()


def noise_digest(noise: dict[str, Any]) -> str:
    """The digest of the noise of a setting, by which an entry names it."""
    names = ("rho0", "rho1") if "rho0" in noise else ("emission",)
    return blake2b(json.dumps({name: noise[name] for name in names}).encode(), digest_size=16).hexdigest()
