"""`hushmq policy sign`: sign a policy where the key of ops is, to be published where the broker is.

So the key never touches a machine with a network: carry the policy there, and the signed policy back.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from hushmq.broker.commands.policy_file import check_policy, payload_of, read_policy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.forecast.policy_text import forecast_lines
from hushmq.broker.forecast.stream_plan import plan_policy

SUMMARY = "sign a policy where the key of ops is"
EXAMPLES = """A signed policy states its version, which only rises: `hushmq push POLICY --dry-run` says the next one.

examples:
  hushmq policy sign policy.toml --key ops.key --version 4 --out signed.json    # where the key is
  hushmq push signed.json --site home                                          # where the broker is"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", required=True, metavar="sign")
    sign = actions.add_parser(
        "sign", help="check and sign a policy, and write it as one file", epilog=EXAMPLES
    )
    sign.add_argument("policy", type=Path, metavar="POLICY", help="the policy file, .toml or .json")
    sign.add_argument("--key", type=Path, required=True, metavar="FILE", help="the private key of ops")
    sign.add_argument("--version", type=int, metavar="N", help="its version (default: that in the file)")
    sign.add_argument(
        "--first",
        metavar="NAMES",
        help="devices that apply it first, with commas; the others wait for another one",
    )
    sign.add_argument("--out", type=Path, required=True, metavar="FILE.json", help="the file to write")
    sign.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    tree = read_policy(args.policy)
    version = args.version if args.version is not None else tree.get("version")
    if version is None:
        raise Problem("--version: missing; say the next version: hushmq push POLICY --dry-run shows it")
    if args.first is not None:
        tree = tree | {"first_devices": [name.strip() for name in args.first.split(",")]}
    policy = check_policy(tree, args.policy, version=version)
    signed = PrivateKey.load(args.key).sign(policy)
    payload = payload_of(signed, args.policy)
    plans = plan_policy(policy, dict.fromkeys(policy.streams, 1))
    try:
        args.out.write_bytes(payload + b"\n")
    except OSError as error:
        raise Problem(f"--out: {args.out}: {error.strerror}") from None
    if args.json:
        print(json.dumps({"version": policy.version, "key": signed.key, "file": str(args.out)}))
        return 0
    print(f"{args.out}: policy {policy.version} of the cohort {policy.cohort}, signed with {signed.key}")
    for name, plan in plans.items():
        print("\n".join(f"  {name}: {line}" for line in forecast_lines(plan)))
    return 0
