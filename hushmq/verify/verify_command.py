"""`hushmq verify`: the independent checker at the command line."""

from __future__ import annotations

import argparse

from hushmq.broker.contract.problem import Problem
from hushmq.verify.verify_report import configure, verify

__all__ = ["configure", "run"]


def run(args: argparse.Namespace) -> int:
    try:
        return verify(args)
    except ValueError as error:
        raise Problem(str(error)) from None
