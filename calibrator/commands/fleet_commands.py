"""`hushmq fleet`: the cohorts of a fleet's database and the workers that serve them.

The actions describe themselves without the calibrator's dependencies; those are needed to run one.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

EXAMPLES = """examples:
  hushmq fleet add ward-1 ward-2 --config fleet.toml     # then push their policies
  hushmq fleet show --config fleet.toml
  hushmq fleet verify --config fleet.toml
  hushmq calibrator run --config fleet.toml              # a worker, on as many machines as you like
  hushmq ledger show --config fleet.toml --cohort ward-1"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", required=True, metavar="add|show|verify")
    adding = actions.add_parser(
        "add", help="add cohorts to the database; workers whose settings match them serve them from then on"
    )
    adding.add_argument("cohorts", nargs="+", metavar="COHORT", help="names of cohorts, as in their policies")
    showing = actions.add_parser("show", help="the workers, and who serves which cohort")
    verifying = actions.add_parser(
        "verify", help="verify the ledgers of all cohorts; exit code 1 if anything is wrong"
    )
    verifying.add_argument(
        "--cohort", metavar="PATTERN", default="*", help="these cohorts only; default: all"
    )
    for action in (adding, showing, verifying):
        action.add_argument(
            "--config", type=Path, required=True, metavar="FILE", help="the fleet's settings file"
        )
        action.add_argument("--json", action="store_true", help="as one JSON object")


def run(args: argparse.Namespace) -> int:
    from hushmq.calibrator.fleet_config import load_fleet  # noqa: PLC0415  # the parser alone needs none of it

    config = load_fleet(args.config)
    match args.action:
        case "add":
            return _add(args, config)
        case "show":
            return _show(args, config)
    return _verify(args, config)


def _add(args: argparse.Namespace, config: Any) -> int:
    from hushmq.calibrator.fleet.cohort_tables import create_cohort  # noqa: PLC0415  # as above

    for cohort in args.cohorts:
        config.settings_of(cohort)
        _ = config.signing_key(cohort)
    added = {cohort: create_cohort(config.database, cohort, reopening=False) for cohort in args.cohorts}
    if args.json:
        print(json.dumps({"added": added}))
    else:
        for cohort, new in added.items():
            print(f"{cohort}: {'added' if new else 'was there already'}")
    return 0


def _show(args: argparse.Namespace, config: Any) -> int:
    from hushmq.calibrator.fleet.fleet_survey import survey  # noqa: PLC0415  # as above

    claims = survey(config.database)
    workers = {
        peer.name: {
            "version": peer.version,
            "cohorts": sorted(name for name, claimant in claims.claimants.items() if claimant == session),
        }
        for session, peer in sorted(claims.peers.items(), key=lambda item: item[1].name)
    }
    unclaimed = sorted(name for name, claimant in claims.claimants.items() if claimant is None)
    if args.json:
        print(json.dumps({"workers": workers, "unclaimed": unclaimed}))
        return 0
    for name, worker in workers.items():
        print(f"{name:24}  hushmq {worker['version']:10}  serves {len(worker['cohorts'])} cohorts")
    print(f"{len(claims.claimants)} cohorts in the database, {len(unclaimed)} of them served by nobody")
    if unclaimed:
        print(f"  {', '.join(unclaimed[:10])}{', …' if len(unclaimed) > 10 else ''}")
    return 0


def _verify(args: argparse.Namespace, config: Any) -> int:
    from fnmatch import fnmatchcase  # noqa: PLC0415  # as above

    from hushmq.calibrator.fleet.cohort_tables import known_cohorts  # noqa: PLC0415  # as above
    from hushmq.calibrator.fleet.verify_cohorts import verify_cohort  # noqa: PLC0415  # as above

    chosen = [cohort for cohort in known_cohorts(config) if fnmatchcase(cohort, args.cohort)]
    wrong = {cohort: found for cohort in chosen if (found := verify_cohort(config.settings_of(cohort)))}
    if args.json:
        print(json.dumps({"right": not wrong, "cohorts": len(chosen), "wrong": wrong}))
    else:
        for cohort, checks in wrong.items():
            for check in checks:
                print(f"WRONG  {cohort}: {check}")
        print(f"{len(chosen) - len(wrong)} of {len(chosen)} ledgers are right")
    return 1 if wrong else 0
