"""Packed states: exactly one text for every run of states, and every other text refused."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmq.broker.contract.packing import bits_for, pack, packed_size, unpack
from hushmq.broker.contract.problem import Reason, Rejected


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[int], int]:
    bits = draw(st.integers(1, 8))
    return draw(st.lists(st.integers(0, 2**bits - 1), min_size=1, max_size=300)), bits


@given(runs())
def test_packing_is_undone_by_unpacking(run: tuple[list[int], int]) -> None:
    """Every run of states is unpacked unchanged, from a text of the documented size."""
    states, bits = run
    text = pack(states, bits)
    assert list(unpack(text, len(states), bits)) == states
    assert len(text) == 4 * -(-packed_size(len(states), bits) // 3)


@given(runs(), st.data())
def test_no_other_text_stands_for_the_same_states(run: tuple[list[int], int], data: st.DataObject) -> None:
    """A text changed in any one character is refused or unpacks to other states, so texts can be compared directly."""
    states, bits = run
    text = pack(states, bits)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(codec="ascii"))
    changed = text[:at] + other + text[at + 1 :]
    try:
        result = list(unpack(changed, len(states), bits))
    except Rejected:
        assert changed != text
    else:
        assert (result == states) == (changed == text)


@given(st.text(max_size=40), st.integers(1, 100), st.integers(1, 8))
def test_rubbish_is_rejected_never_anything_else(text: str, count: int, bits: int) -> None:
    """Whatever the text, unpack returns `count` states or raises Rejected."""
    try:
        states = unpack(text, count, bits)
    except Rejected:
        return
    assert len(states) == count
    assert max(states) < 2**bits


@pytest.mark.parametrize(
    ("text", "count", "message"),
    [
        ("A", 1, "not base64"),
        ("AA=", 1, "not base64"),
        ("A A=", 1, "not base64"),
        ("AA==\n", 1, "not base64"),
        ("é===", 1, "not base64"),
        ("AA==", 9, "1 bytes do not hold 9 states"),
        ("AAA=", 8, "2 bytes do not hold 8 states"),
        (b64encode(b"\x01").decode(), 7, "padding bits"),
        ("AB==", 8, "spare bits"),
    ],
)
def test_each_fault_has_its_message(text: str, count: int, message: str) -> None:
    """Invalid base64, a wrong count and non-zero padding have different messages."""
    with pytest.raises(Rejected, match=message) as caught:
        unpack(text, count)
    assert caught.value.reason is Reason.MALFORMED


def test_a_state_takes_the_smallest_whole_number_of_bits() -> None:
    """bits_for(k) is the least b with 2^b ≥ k."""
    assert [bits_for(k) for k in (2, 3, 4, 5, 8, 9, 256)] == [1, 2, 2, 3, 3, 4, 8]


def test_states_take_their_bits_first_state_first() -> None:
    """As below for two, three and five bits: 3 0 1 2 is C6; 7 0 5 is E2 80; 31 1 is F8 40."""
    assert pack([3, 0, 1, 2], 2) == b64encode(bytes([0xC6])).decode()
    assert pack([7, 0, 5], 3) == b64encode(bytes([0xE2, 0x80])).decode()
    assert pack([31, 1], 5) == b64encode(bytes([0xF8, 0x40])).decode()


@pytest.mark.parametrize("bits", range(1, 9))
def test_the_longest_batch_goes_round(bits: int) -> None:
    """65,536 states of any width."""
    states = bytes(n * 7919 % (1 << bits) for n in range(65_536))
    assert unpack(pack(states, bits), len(states), bits) == states


def test_binary_states_take_one_bit_each_first_state_first() -> None:
    """The layout on the wire, computed by hand: 10110000 1 is B0 80."""
    assert pack([1, 0, 1, 1, 0, 0, 0, 0, 1]) == b64encode(bytes([0xB0, 0x80])).decode()
