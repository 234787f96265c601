"""Messages that were changed: what a bad device, a bad peer or a bad disk makes of a right one.

A tree of JSON is changed at a random place (numbers at the ends of every range, other types, missing, doubled and
unknown fields), or its bytes are. Everything follows from the seed, so that a failure can be repeated.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

FUZZ_S = float(os.environ.get("HUSHMQ_FUZZ_S", "0"))
"""Seconds for each fuzzer, of processor time; 0 for a fixed small number of messages, the same at every run."""
SEED = int(os.environ.get("HUSHMQ_FUZZ_SEED", "0"))

NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 0.5, -0.0, 1e-9, 5e-324, 1e-300, 1e-160, 1 - 2**-53, 1e12, 1e16, 1e150, 1e300, 1.7e308, -1e300,
    2**31, 2**53 - 1, 2**53, 2**62, 2**63 - 1, 2**63, -(2**63), 10**30, 10**400, -(10**400), True,
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    None, "", "0", "cohort", "\u0000", "é" * 70, "$SYS", "a" * 100_000, [], {}, [[]], {"v": 1}, [0, 0], [None],
)  # fmt: skip
JUNK: tuple[bytes, ...] = (
    b"", b"{", b"null", b"[]", b"{}", b"\xff\xfe", b'{"v":1}', b'{"v":2}', b"1e999", b"NaN", b"[" * 50_000,
    b'{"v":1,"v":2}', b"9" * 5_000, b'"\\ud800"', b" " * 300_000,
)  # fmt: skip
"""Payloads that are changed no further."""


def rounds(quick: int) -> Iterator[random.Random]:
    """A generator of randomness for each round: `quick` rounds, or as many as FUZZ_S takes. A round says its seed."""
    began, number = time.process_time(), 0
    while time.process_time() - began < FUZZ_S if FUZZ_S else number < quick:
        yield random.Random(f"{SEED}/{number}")
        number += 1


def mutated(payload: bytes, rng: random.Random) -> bytes:
    """One payload made of another."""
    kind = rng.random()
    if kind < 0.1:
        return rng.choice(JUNK)
    if kind < 0.25:
        return _changed_bytes(payload, rng)
    try:
        tree = json.loads(payload)
    except ValueError:
        return _changed_bytes(payload, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        tree = _changed_tree(tree, rng)
    return json.dumps(tree).encode()


def _changed_bytes(payload: bytes, rng: random.Random) -> bytes:
    found = bytearray(payload)
    for _ in range(rng.randint(1, 4)):
        if not found:
            break
        at = rng.randrange(len(found))
        match rng.randrange(4):
            case 0:
                found[at] = rng.randrange(256)
            case 1:
                del found[at : at + rng.randint(1, 20)]
            case 2:
                found[at:at] = found[: rng.randint(1, 40)]
            case _:
                found[at] ^= 1 << rng.randrange(8)
    return bytes(found)


def _changed_tree(tree: Any, rng: random.Random) -> Any:
    places = list(_places(tree)) if isinstance(tree, dict | list) else []
    if not places:
        return deepcopy(rng.choice(NUMBERS + OTHERS))
    parent, key = rng.choice(places)
    value = deepcopy(parent[key])
    match rng.randrange(7):
        case 0 if isinstance(parent, dict):
            del parent[key]
        case 0:
            parent.pop(key)
        case 1 if isinstance(parent, dict):
            parent[rng.choice(("extra", "v", "", "é", str(key) * 2))] = value
        case 1:
            parent.insert(key, value)
        case 2:
            parent[key] = deepcopy(rng.choice(OTHERS))
        case 6 if _is_whole(value) and isinstance(parent, list) and len(parent) > 1:
            moved = rng.choice([number for number in NUMBERS if isinstance(number, int)])
            other = (key + 1) % len(parent)
            parent[key] = value - moved
            if _is_whole(parent[other]):  # the sum of the list stays as it is
                parent[other] += moved
        case 3 if isinstance(value, int | float) and abs(value) < 1e280:
            parent[key] = rng.choice((-value, value + 1, value - 1, value * 2, value / 3, value * 1e18))
        case _:
            parent[key] = rng.choice(NUMBERS)
    return tree


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a tree, as its parent and the key there."""
    for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _places(value)
