"""`hushmq console`: serve the console, set it up, and manage its users and log."""

from __future__ import annotations

import argparse
import getpass
import json
import secrets
import sys
from pathlib import Path

from hushmq.broker.contract.problem import Problem
from hushmq.broker.service.log import logger
from hushmq.console.access.users_file import USER_ROLES, UsersFile
from hushmq.console.console_config import ConsoleConfig, load_console
from hushmq.console.init_console import init_console

EXAMPLES = """examples:
  hushmq console init --site site --calibrator calibrator.toml --out console
  hushmq console run --config console/console.toml
  hushmq console user add ann --role viewer --config console/console.toml
  hushmq console user list --config console/console.toml --json
  hushmq console verify-log --config console/console.toml"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", required=True, metavar="init|run|user|verify-log")
    init = actions.add_parser(
        "init", help="make a folder with settings, a certificate and a first user, an operator"
    )
    init.add_argument(
        "--site", type=Path, default=Path("site"), metavar="FOLDER", help="the site's folder (default: site)"
    )
    init.add_argument(
        "--calibrator", type=Path, required=True, metavar="FILE", help="the calibrator's settings file"
    )
    init.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the folder to make")
    init.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="name or address by which browsers reach it; may be repeated (default: the site's)",
    )
    init.add_argument(
        "--listen", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)"
    )
    init.add_argument("--port", type=int, default=8443, help="port to listen on (default: 8443)")
    init.add_argument("--user", default="ops", help="name of the first user (default: ops)")
    init.add_argument(
        "--upload",
        action="store_true",
        help="let operators publish signed policies, with the site's identity ops",
    )
    init.add_argument("--json", action="store_true", help="print one JSON object")

    run = actions.add_parser("run", help="serve the console until interrupted")
    user = actions.add_parser("user", help="add, remove and list users")
    users = user.add_subparsers(dest="what", required=True, metavar="add|remove|list")
    add = users.add_parser("add", help="add a user, or give one another role or password")
    add.add_argument("name", help="the user's name")
    add.add_argument(
        "--role",
        choices=USER_ROLES,
        default="viewer",
        help="viewer: what the public may see (default); operator: all",
    )
    add.add_argument(
        "--generate", action="store_true", help="make a password and print it, instead of asking for one"
    )
    remove = users.add_parser("remove", help="remove a user, and end the user's sessions")
    remove.add_argument("name", help="the user's name")
    listed = users.add_parser("list", help="list users and roles")
    check = actions.add_parser(
        "verify-log",
        help="recompute the log's chain and compare it with the ledger; exit code 1 if it differs",
    )
    for each in (run, add, remove, listed, check):
        each.add_argument(
            "--config", type=Path, required=True, metavar="FILE", help="the console's settings file"
        )
    for each in (listed, check):
        each.add_argument("--json", action="store_true", help="as one JSON object")


def run(args: argparse.Namespace) -> int:
    match args.action:
        case "init":
            return _init(args)
        case "user":
            return _user(args, UsersFile(load_console(args.config).users_file))
        case "verify-log":
            return _verify_log(load_console(args.config), as_json=args.json)
    return _run(load_console(args.config))


def _run(config: ConsoleConfig) -> int:
    from hushmq.console.daemon import ConsoleDaemon  # noqa: PLC0415  # users are managed without a web server

    daemon = ConsoleDaemon(config, log=logger(config.log.level, config.log.form))
    daemon.run(lambda url: print(f"the console is at {url}", flush=True))
    return 0


def _init(args: argparse.Namespace) -> int:
    made = init_console(
        args.out,
        site=args.site,
        calibrator=args.calibrator,
        hosts=args.host,
        listen=args.listen,
        port=args.port,
        user=args.user,
        upload=args.upload,
    )
    if args.json:
        print(
            json.dumps(
                {
                    "config": str(made.config),
                    "url": made.url,
                    "user": made.user,
                    "password": made.password,
                    "ca": None if made.ca is None else str(made.ca),
                }
            )
        )
        return 0
    print(f"{made.config}: start it with hushmq console run --config {made.config}")
    print(f"address: {made.url}  user: {made.user}  password: {made.password}")
    if made.ca is not None:
        print(f"browsers trust it once they have {made.ca} as an authority")
    if made.added:
        print(
            "a broker not started by `hushmq broker run` needs its new configuration: the identity console is new"
        )
    return 0


def _user(args: argparse.Namespace, users: UsersFile) -> int:
    if args.what == "add":
        password = secrets.token_urlsafe(12) if args.generate else _ask(args.name)
        users.add(args.name, args.role, password)
        print(f"{args.name}: {args.role}{f', password {password}' if args.generate else ''}")
    elif args.what == "remove":
        users.remove(args.name)
        print(f"{args.name} is removed")
    elif args.json:
        print(json.dumps({one.name: one.role for one in users.users().values()}))
    else:
        for one in users.users().values():
            print(f"{one.name:<24}{one.role}")
    return 0


def _ask(name: str) -> str:
    """A password from the terminal, twice; elsewhere the first line of standard input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    first = getpass.getpass(f"password of {name}: ")
    if getpass.getpass("again: ") != first:
        raise Problem("password: the two differ")
    return first


def _verify_log(config: ConsoleConfig, *, as_json: bool) -> int:
    from hushmq.console.activity.verify_log import verify_log  # noqa: PLC0415  # as above
    from hushmq.console.store.read_only_database import ReadOnlyDatabase  # noqa: PLC0415  # as above

    database = ReadOnlyDatabase(config.database)
    try:
        checks = database.read_here(lambda db: list(verify_log(config.log_file, db)))
    finally:
        database.close()
    right = all(one.passed for one in checks)
    if as_json:
        found = [{"check": one.name, "passed": one.passed, "detail": one.detail} for one in checks]
        print(json.dumps({"right": right, "checks": found}))
        return 0 if right else 1
    for one in checks:
        print(f"{'right' if one.passed else 'WRONG'}  {one.name}: {one.detail}")
    return 0 if right else 1
