"""The checker's options and its report: a table for a person, or one JSON object for a program."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

from hushmq.verify.check_archives import read_files
from hushmq.verify.check_export import check_export
from hushmq.verify.claims import Claim, Verdict
from hushmq.verify.export_file import read_export
from hushmq.verify.signed_text import key_bytes

NOTES = """Recomputes all that an export claims, with nothing of the mathematics that made it: signatures, digests and
seals, the noise of every setting, what every release states and what both accounts state now. For each loss it prints
what is stated, bounds on what it really is, and a verdict:

holds        proved: the loss is at most as stated, and within the budget
FAILS        refuted: more can be lost than is stated or allowed; or a signature, digest or seal does not fit
not proven   neither was shown
not checked  the export holds something that this checker does not know, or lacks something that it needs

Exit code 0: everything holds. 1: something does not. 2: the export or a key cannot be read. Without --ops-key and
--calibrator-key the keys in the export are used, and a stranger's export passes: get the keys from somebody else.
EXPORT is made by hushmq ledger export --format bundle; docs/verify.md tells what is checked, theorem by theorem.

examples:
  hushmq verify export.json --ops-key ops.pub --calibrator-key calibrator.pub
  hushmq verify export.json --archive archive
  hushmq verify export.json --json
  python -m hushmq.verify export.json"""

COLOURS = {Verdict.HOLDS: "32", Verdict.FAILS: "31", Verdict.NOT_PROVEN: "33", Verdict.NOT_CHECKED: "33"}
WIDTH = 30


def configure(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.epilog = NOTES
    parser.add_argument("export", type=Path, metavar="EXPORT", help="the export of a calibrator's ledger")
    for name, whose in (("--ops-key", "ops"), ("--calibrator-key", "the calibrator")):
        parser.add_argument(
            name,
            action="append",
            metavar="KEY",
            default=[],
            help=f"a public key of {whose} that is trusted, as base64 or a file with it; may be repeated",
        )
    parser.add_argument(
        "--archive",
        action="append",
        type=Path,
        metavar="PATH",
        default=[],
        help="the folder that hushmq ledger archive wrote to, or a file of it; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def verify(args: argparse.Namespace) -> int:
    """Check an export and report; ValueError where it, or a key, cannot be read."""
    try:
        export = read_export(args.export)
    except OSError as error:
        raise ValueError(f"{args.export}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{args.export}: {error}") from None
    archive = read_files(args.archive)
    trusted = {
        "ops": [_key(text) for text in args.ops_key],
        "calibrator": [_key(text) for text in args.calibrator_key],
    }
    on_trust = [owner for owner, keys in trusted.items() if not keys]
    try:
        stated = export.tree["keys"]
        ops = trusted["ops"] or [key_bytes(text) for text in stated["ops"]]
        calibrator = trusted["calibrator"] or [key_bytes(stated["calibrator"])]
        claims = list(check_export(export, ops, calibrator, _bar(), archive))
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"{args.export}: it cannot be checked: {type(error).__name__}: {error}") from None
    right = all(one.verdict is Verdict.HOLDS for one in claims)
    if args.json:
        print(
            json.dumps({"holds": right, "keys_on_trust": on_trust, "claims": [_tree(one) for one in claims]})
        )
    else:
        _print_table(claims, on_trust)
    return 0 if right else 1


def _key(text: str) -> bytes:
    path = Path(text)
    try:
        return key_bytes(path.read_text(encoding="ascii") if path.is_file() else text)
    except (ValueError, OSError):
        raise ValueError(f"{text!r} is neither a public key in base64 nor a file with one") from None


def _tree(claim: Claim) -> dict[str, Any]:
    low, high = (None, None) if claim.recomputed is None else map(_number, claim.recomputed)
    return {
        "about": claim.about,
        "claim": claim.claim,
        "verdict": claim.verdict.value.lower(),
        "detail": claim.detail,
        "budget": claim.budget,
        "stated": claim.stated,
        "low": low,
        "high": high,
    }


def _number(value: Decimal) -> float | None:
    return float(value) if value.is_finite() else None


def _print_table(claims: Sequence[Claim], on_trust: Sequence[str]) -> None:
    paint = _paint(sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    rows = [(one.about, one.claim, _digits(one)) for one in claims]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for claim, row in zip(claims, rows, strict=True):
        cells = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        print(f"{paint(claim.verdict, f'{claim.verdict.value:<11}')}  {cells}  {claim.detail}")
    wrong = [one for one in claims if one.verdict is not Verdict.HOLDS]
    for owner in on_trust:
        print(f"the key of {owner} was taken on trust from the export")
    if wrong:
        print(paint(Verdict.FAILS, f"{len(wrong)} of {len(claims)} claims do not hold"))
    else:
        print(paint(Verdict.HOLDS, f"all {len(claims)} claims hold"))


def _digits(claim: Claim) -> str:
    """Stated, recomputed and allowed, the bounds rounded outwards."""
    if claim.recomputed is None:
        return ""
    stated = "" if claim.stated is None else f"stated {claim.stated:.6f}, "
    low, high = claim.recomputed
    above = f"{high.quantize(_SHOWN, ROUND_CEILING)}" if high.is_finite() else "∞"
    of = "" if claim.budget is None else f", of {claim.budget:g}"
    return f"{stated}is {low.quantize(_SHOWN, ROUND_FLOOR)} to {above}{of}"


_SHOWN = Decimal("1e-6")


def _paint(colours: bool) -> Callable[[Verdict, str], str]:
    return lambda verdict, text: f"\x1b[{COLOURS[verdict]}m{text}\x1b[0m" if colours else text


def _bar() -> Callable[[float], None]:
    """A progress bar on a terminal, removed at the end; no output elsewhere."""
    if not sys.stderr.isatty():
        return lambda share: None

    def show(share: float) -> None:
        filled, end = round(WIDTH * share), "\r\x1b[K" if share >= 1.0 else ""
        drawn = f"\rverify [{'█' * filled}{' ' * (WIDTH - filled)}] {share:4.0%}{end}"
        print(drawn, end="", file=sys.stderr, flush=True)

    return show
