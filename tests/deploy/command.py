"""Whether the words of a command line are what hushmq takes, without doing anything."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from hushmq.__main__ import load, parser_of


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The options in the words after `hushmq`; Problem when it would refuse them."""
    return parser_of(words[0], load(words[0])).parse_args(list(words[1:]))
