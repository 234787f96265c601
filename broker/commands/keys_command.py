"""`hushmq keys`: make signing keys and show their public halves.

Ops sign policies, the calibrator signs noise settings; a device's configuration lists the public keys it trusts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from hushmq.broker.contract.signature import PrivateKey, PublicKey

SUMMARY = "make and show signing keys"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "To rotate a key: make a new one; list both, old and new, where it is trusted (ops_keys of devices and\n"
        "calibrator, calibrator_keys of devices; SIGHUP reads the lists again); use the new one (ops: push the policy\n"
        "again, signed with it; calibrator: signing_key_file, restart); take the old one off the lists.\n\n"
        "examples:\n  hushmq keys new ops.key\n  hushmq keys show ops.key calibrator.key\n"
        "  hushmq keys show --json ops.key"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="new|show")
    new = actions.add_parser("new", help="make a private key file (mode 600) and print its public key")
    new.add_argument("files", nargs=1, type=Path, metavar="FILE", help="the private key file to write")
    show = actions.add_parser("show", help="print the public keys of private key files")
    show.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a private key file")
    for each in (new, show):
        each.add_argument("--json", action="store_true", help="one JSON object a line")


def run(args: argparse.Namespace) -> int:
    for file in args.files:
        if args.action == "new":
            key = PrivateKey.generate()
            key.save(file)
        else:
            key = PrivateKey.load(file)
        print(_line(file, key.public, as_json=args.json))
    return 0


def _line(file: Path, key: PublicKey, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"file": str(file), "public": str(key), "id": key.id})
    return f"{key}  {key.id}  {file}"
