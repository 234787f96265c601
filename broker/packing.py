"""States packed into bytes: the smallest whole number of bits each, first state in the highest bits."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence

from broker.problem import Reason, Rejected


def bits_for(states: int) -> int:
    """Bits one of `states` states takes."""
    return max(1, (states - 1).bit_length())


def packed_size(count: int, bits: int) -> int:
    """Bytes that `count` states of `bits` bits take."""
    return (count * bits + 7) // 8


def pack(states: Sequence[int], bits: int = 1) -> str:
    """States as base64; the last byte is filled with zero bits."""
    size = packed_size(len(states), bits)
    if bits == 1:
        number = int(bytes(states).translate(_DIGITS) or b"0", 2)
    else:
        number = 0
        for state in states:
            number = number << bits | state
    number <<= size * 8 - len(states) * bits
    return b2a_base64(number.to_bytes(size, "big"), newline=False).decode()


def unpack(text: str, count: int, bits: int = 1) -> bytes:
    """The states of a packed text, one byte each, or Rejected when it is not exactly what `pack` makes."""
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
        raise Rejected(Reason.MALFORMED, "states: the filling bits are not zero")
    number >>= spare
    if bits == 1:
        return f"{number:0{count}b}".encode().translate(_VALUES)
    mask = (1 << bits) - 1
    return bytes(number >> shift & mask for shift in range((count - 1) * bits, -1, -bits))


_DIGITS = bytes(48 + (value & 1) for value in range(256))
_VALUES = bytes(value & 1 for value in range(256))
