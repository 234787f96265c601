"""Ed25519 signatures over the canonical encoding of a message, and the key files.

The signed bytes are `hushmq/1/<model>`, a line feed and the canonical JSON, so that the signature of one type of
message is never valid for another. A key file holds 32 bytes as base64 in one line; a private key file is refused
unless only its owner can read it.
"""

from __future__ import annotations

import os
import secrets
import stat
from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field

from hushmq.broker.contract.message_base import Message
from hushmq.broker.contract.messages import NoiseSetting, canonical, decode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem, Reason, Rejected
from hushmq.broker.contract.reconciliation import Reconciliation

S = TypeVar("S", Policy, NoiseSetting, Reconciliation)


class Signed(Message, Generic[S]):
    """A signed message on the wire: the message, the id of the key and the signature."""

    v: Literal[1] = 1
    message: S
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    signature: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{86}==$")]


_ENVELOPES: dict[type[Message], Any] = {
    Policy: Signed[Policy],
    NoiseSetting: Signed[NoiseSetting],
    Reconciliation: Signed[Reconciliation],
}
"""The envelope of every type of message that is signed."""
SEAL = b"hushmq/1/seal\n"
"""Prefix of a sealed text, so that a seal is never valid as the signature of a message."""


def _signed_bytes(message: Policy | NoiseSetting | Reconciliation, *, as_sent: bool = False) -> bytes:
    return f"hushmq/1/{type(message).__name__}\n".encode() + canonical(message, as_sent=as_sent)


class PublicKey:
    """A key that checks signatures."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.id = blake2b(raw, digest_size=8).hexdigest()

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Return the key of a base64 text; raise ValueError that says what is wrong with it."""
        return cls(_key_bytes(text))

    def __str__(self) -> str:
        return b64encode(self.raw).decode()

    def verifies(self, message: Policy | NoiseSetting | Reconciliation, signature: bytes) -> bool:
        """Whether the matching private key made the signature for the message, as it was received."""
        return self._fits(signature, _signed_bytes(message, as_sent=True))

    def sealed(self, text: bytes, seal: str) -> bool:
        """Whether the matching private key sealed the text."""
        try:
            signature = b64decode(seal)
        except ValueError:
            return False
        return self._fits(signature, SEAL + text)

    def _fits(self, signature: bytes, text: bytes) -> bool:
        # Imported late: it takes 7 MB of memory, which a process that verifies no signature does not need.
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, text)
        except (InvalidSignature, ValueError):
            return False
        return True


class PrivateKey:
    """A key that signs. Its bytes appear in no repr."""

    def __init__(self, raw: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415  # as above

        self._key = Ed25519PrivateKey.from_private_bytes(raw)
        self.public = PublicKey(self._key.public_key().public_bytes_raw())

    @classmethod
    def generate(cls) -> PrivateKey:
        return cls(secrets.token_bytes(32))  # any 32 bytes are a key: RFC 8032, 5.1.5

    def sign(self, message: S) -> Signed[S]:
        signature = b64encode(self._key.sign(_signed_bytes(message))).decode()
        envelope: Signed[S] = _ENVELOPES[type(message)](
            message=message, key=self.public.id, signature=signature
        )
        return envelope

    def seal(self, text: bytes) -> str:
        """Return a signature over a text that is not a message, so that the owner of the key can recognise it."""
        return b64encode(self._key.sign(SEAL + text)).decode()

    def save(self, path: Path) -> None:
        """Write the key for its owner's eyes only; an existing file is never overwritten."""
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise Problem(f"{path} exists: a private key is never overwritten") from None
        except OSError as error:
            raise Problem(f"{path}: {error.strerror}") from None
        with os.fdopen(handle, "w") as file:
            file.write(b64encode(self._key.private_bytes_raw()).decode() + "\n")

    @classmethod
    def load(cls, path: Path) -> PrivateKey:
        """Read a key file; raise Problem unless only its owner can read it and it holds a key."""
        try:
            with path.open(encoding="ascii", errors="replace") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                if mode & 0o077:
                    raise Problem(f"{path} is open to others (mode {mode:o}): chmod 600 it")
                if mode & ~0o600:
                    raise Problem(f"{path} has the mode {mode:o}: chmod 600 it")
                return cls(_key_bytes(file.read()))
        except OSError as error:
            raise Problem(f"{path}: {error.strerror}") from None
        except ValueError as error:
            raise Problem(f"{path}: {error}") from None


def _key_bytes(text: str) -> bytes:
    try:
        raw = b64decode(text.strip(), validate=True)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise ValueError("a key is 32 bytes in base64, 44 characters")
    return raw


def verify(model: type[S], payload: bytes, keys: Iterable[PublicKey]) -> S:
    """Return the message in a signed payload; raise Rejected unless one of the keys has signed it."""
    signed: Signed[S] = decode(_ENVELOPES[model], payload)
    for key in keys:
        if key.id == signed.key:
            signature = b64decode(signed.signature)
            # A signature has only one valid text: the unused bits of base64 must be zero.
            if b64encode(signature).decode() == signed.signature and key.verifies(signed.message, signature):
                return signed.message
            raise Rejected(
                Reason.BAD_SIGNATURE, f"the signature is not valid for the message and key {key.id}"
            )
    raise Rejected(Reason.UNKNOWN_KEY, f"key {signed.key} is not trusted here")
