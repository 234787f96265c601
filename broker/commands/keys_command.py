"""`hushmq keys`: create signing keys and print their public keys.

Ops sign policies, the calibrator signs noise settings; a device's configuration lists the public keys it trusts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from hushmq.broker.contract.signature import PrivateKey, PublicKey

SUMMARY = "create and show signing keys"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "To rotate a key: create a new one; list both, old and new, where the key is trusted (ops_keys of devices and\n"
        "calibrator, calibrator_keys of devices; SIGHUP reloads the lists); use the new one (ops: push the policy\n"
        "again, signed with it; calibrator: signing_key_file, restart); remove the old one from the lists.\n\n"
        "examples:\n  hushmq keys new ops.key\n  hushmq keys show ops.key calibrator.key\n"
        "  hushmq keys show --json ops.key"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="new|show")
    new = actions.add_parser("new", help="create a private key file (mode 600) and print its public key")
    new.add_argument("files", nargs=1, type=Path, metavar="FILE", help="the private key file to write")
    show = actions.add_parser("show", help="print the public keys of private key files")
    show.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a private key file")
    for each in (new, show):
        each.add_argument("--json", action="store_true", help="print one JSON object per line")


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
