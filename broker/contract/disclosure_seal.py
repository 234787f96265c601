"""The bytes of a disclosure that its seal covers: canonical JSON after a prefix of its own.

A disclosure (calibrator/ledger/disclosure.py) says for programs what a site promises.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def disclosed_bytes(content: Mapping[str, Any]) -> bytes:
    """What is sealed of a disclosure, which is given without its seal."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return b"disclosure\n" + text.encode()
