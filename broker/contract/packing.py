"""Packs states into bytes: each takes the smallest sufficient number of bits, the first state the highest bits."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence

from hushmq.broker.contract.problem import Reason, Rejected


def bits_for(states: int) -> int:
    """Return the number of bits that one of `states` states takes."""
    return max(1, (states - 1).bit_length())


def packed_size(count: int, bits: int) -> int:
    """Return the number of bytes that `count` states of `bits` bits take."""
    return (count * bits + 7) // 8


def pack(states: Sequence[int], bits: int = 1) -> str:
    """Return the packed states in base64; the last byte is padded with zero bits."""
    size = packed_size(len(states), bits)
    if bits in _DIGITS:
        number = int(bytes(states).translate(_DIGITS[bits]) or b"0", 1 << bits)
    else:
        number = int("".join([_TEXTS[bits][state] for state in states]) or "0", 2)
    number <<= size * 8 - len(states) * bits
    return b2a_base64(number.to_bytes(size, "big"), newline=False).decode()


def unpack(text: str, count: int, bits: int = 1) -> bytes:
    """Return the states of a packed text, one byte each; raise Rejected unless `pack` makes exactly this text."""
    try:
        packed = a2b_base64(text, strict_mode=True)
    except ValueError:
        raise Rejected(Reason.MALFORMED, "states: not base64") from None
    if len(packed) != packed_size(count, bits):
        raise Rejected(
            Reason.MALFORMED, f"states: {len(packed)} bytes do not hold {count} states of {bits} bits"
        )
    if b2a_base64(packed, newline=False) != text.encode():
        raise Rejected(Reason.MALFORMED, "states: the spare bits of the base64 are not zero")
    number = int.from_bytes(packed, "big")
    spare = len(packed) * 8 - count * bits
    if number & ((1 << spare) - 1):
        raise Rejected(Reason.MALFORMED, "states: the padding bits are not zero")
    number >>= spare
    if bits in _FORMATS:
        return f"{number:0{count}{_FORMATS[bits]}}".encode().translate(_VALUES)
    if bits == 2:
        return b"".join([_QUARTERS[byte] for byte in packed])[:count]
    text, states = f"{number:0{count * bits}b}", _STATES[bits]
    return bytes([states[text[start : start + bits]] for start in range(0, count * bits, bits)])


# Converting between an integer and its digits in a base that is a power of two takes linear time.
_DIGITS = {
    bits: bytes(b"0123456789abcdefghijklmnopqrstuv"[value % (1 << bits)] for value in range(256))
    for bits in range(1, 6)
}
_FORMATS = {1: "b", 3: "o", 4: "x"}
_VALUES = bytes(int(chr(digit), 16) if chr(digit) in "0123456789abcdef" else 0 for digit in range(256))
_QUARTERS = [bytes(byte >> shift & 3 for shift in (6, 4, 2, 0)) for byte in range(256)]
_TEXTS = {bits: [f"{value:0{bits}b}" for value in range(1 << bits)] for bits in range(5, 9)}
_STATES = {bits: {text: value for value, text in enumerate(texts)} for bits, texts in _TEXTS.items()}
