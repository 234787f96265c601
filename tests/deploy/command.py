"""Parses a command line of hushmq without running it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from hushmq.__main__ import load, parser_of


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the options in the words after `hushmq`; raise Problem if hushmq would refuse them."""
    return parser_of(words[0], load(words[0])).parse_args(list(words[1:]))
