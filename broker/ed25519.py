"""Ed25519 verification by the OpenSSL that Python's ssl module has loaded already.

`cryptography` brings an OpenSSL of its own: 6 MB of memory, a sixth of what a device's agent has, for a signature
now and then. Where Python's own cannot be reached, or fails the known answers below, `cryptography` is used after all.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

Verify = Callable[[bytes, bytes, bytes], bool]
"""(public key, signature, message) → whether the signature is the key's for the message."""

ED25519 = 1087
"""OpenSSL's number of the algorithm, NID_ED25519."""

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


@cache
def verifier() -> Verify:
    """The verification to use in this process."""
    try:
        found = _of_ssl()
    except (ImportError, AttributeError, OSError):
        return _of_cryptography()
    key, signature, message = KNOWN
    trusted = found(key, signature, message) and not found(key, signature, message + b"\0")
    return found if trusted else _of_cryptography()


def _of_ssl() -> Verify:
    import _ssl  # noqa: PLC0415  # may be missing, or built in and without a file

    library = ctypes.CDLL(_ssl.__file__)  # its names include those of the libcrypto it is linked with
    pointer, number = ctypes.c_void_p, ctypes.c_size_t

    def function(name: str, result: type | None, *arguments: type) -> Callable[..., int | None]:
        called = getattr(library, name)
        called.restype, called.argtypes = result, arguments
        return called  # type: ignore[no-any-return]  # ctypes knows no types

    new_key = function("EVP_PKEY_new_raw_public_key", pointer, ctypes.c_int, pointer, ctypes.c_char_p, number)
    free_key = function("EVP_PKEY_free", None, pointer)
    new_context = function("EVP_MD_CTX_new", pointer)
    free_context = function("EVP_MD_CTX_free", None, pointer)
    begin = function("EVP_DigestVerifyInit", ctypes.c_int, pointer, pointer, pointer, pointer, pointer)
    check = function(
        "EVP_DigestVerify", ctypes.c_int, pointer, ctypes.c_char_p, number, ctypes.c_char_p, number
    )
    forget_errors = function("ERR_clear_error", None)

    def verify(key: bytes, signature: bytes, message: bytes) -> bool:
        opened = new_key(ED25519, None, key, len(key))
        context = new_context()
        try:
            return (
                bool(opened and context)
                and begin(context, None, None, None, opened) == 1
                and check(context, signature, len(signature), message, len(message)) == 1
            )
        finally:
            free_context(context)
            free_key(opened)
            forget_errors()  # a refusal left in the queue would be taken for ssl's own

    return verify


def _of_cryptography() -> Verify:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  # only where it is needed
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    def verify(key: bytes, signature: bytes, message: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

    return verify
