"""`hushmq broker`: make a site, say who may connect, generate a broker's configuration, or run one here."""

from __future__ import annotations

import argparse
import json
import signal
import threading
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision import site_description as descriptions
from hushmq.broker.provision.access_rights import ROLES
from hushmq.broker.provision.authority import due
from hushmq.broker.provision.generate import generate
from hushmq.broker.provision.nats import NatsServer
from hushmq.broker.provision.site_folder import SiteFolder
from hushmq.broker.service.log import logger

SUMMARY = "run or configure a broker"

_EXAMPLES = """examples:
  hushmq broker init --site home --cohort home --host broker.home.lan
  hushmq broker hand-out --site home calibrator --out calibrator
  hushmq broker add-device --site home wearable-1 --out wearable-1
  hushmq broker run --site home
  hushmq broker show --site home
  hushmq broker config mosquitto --site home --out mosquitto --path /etc/mosquitto/hushmq
  hushmq broker revoke --site home wearable-1
  hushmq broker init --site clinic --cohort clinic --node a=10.0.0.1 --node b=10.0.0.2 --node c=10.0.0.3"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="init|add-device|hand-out|renew|revoke|show|config|run"
    )

    init = actions.add_parser("init", help="make a site: its description, a certificate authority, secrets")
    init.add_argument("--cohort", required=True, help="name of the cohort, as in the topics")
    init.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="name or address by which devices reach the broker; may be given again",
    )
    init.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="NAME=HOST[:PORT]",
        help="for a cluster of NATS, instead of --host: a node's name, and where it is reached; three times or five",
    )
    init.add_argument("--listen", default="0.0.0.0", help="address to listen on (default: all)")  # noqa: S104  # a broker is there to be reached
    init.add_argument("--port", type=int, default=8883, help="port to listen on (default: 8883)")
    init.add_argument(
        "--identify",
        choices=["password", "certificate"],
        default="password",
        help="how everyone proves who they are (default: password)",
    )
    init.add_argument("--no-tls", action="store_true", help="on the loopback address only: no TLS")

    add = actions.add_parser("add-device", help="let one more in, and hand out what it needs")
    add.add_argument("name", help="the device's name, as in its topics")
    add.add_argument("--role", choices=ROLES, default="device", help="what it may do (default: device)")

    again = actions.add_parser("hand-out", help="hand out what somebody needs who is let in already")
    again.add_argument("name", help="whose")

    renew = actions.add_parser("renew", help="sign a new certificate for somebody, and hand it out")
    renew.add_argument("name", help="whose")
    for each in (add, again, renew):
        each.add_argument(
            "--out", type=Path, required=True, metavar="FOLDER", help="where to put the secrets"
        )

    revoke = actions.add_parser("revoke", help="let somebody in no more")
    revoke.add_argument("name", help="whom")

    show = actions.add_parser("show", help="who may connect, where, and when certificates end")
    show.add_argument("--json", action="store_true", help="one JSON object")

    config = actions.add_parser("config", help="generate a complete configuration")
    config.add_argument("kind", choices=["nats", "mosquitto"], help="for which broker")
    config.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where to write it")
    config.add_argument(
        "--path",
        type=Path,
        metavar="FOLDER",
        help="where it will lie on the broker's machine (default: where it is written)",
    )

    run = actions.add_parser("run", help="run the embedded broker here, until interrupted")
    for each in (init, add, again, renew, revoke, show, config, run):
        each.add_argument(
            "--site",
            type=Path,
            default=Path("site"),
            metavar="FOLDER",
            help="the site's folder (default: site)",
        )


def run(args: argparse.Namespace) -> int:
    match args.action:
        case "init":
            return _init(args)
        case "add-device" | "hand-out" | "renew":
            return _hand_out(args)
        case "revoke":
            SiteFolder(args.site).revoke(args.name)
            print(
                f"{args.name} is revoked; a broker that does not run by `hushmq broker run` needs its new config"
            )
            return 0
        case "show":
            return _show(SiteFolder(args.site), as_json=args.json)
        case "config":
            files = generate(args.kind, SiteFolder(args.site), args.out, path=args.path)
            print("\n".join(map(str, files)))
            return 0
    return _run(args.site)


def _init(args: argparse.Namespace) -> int:
    nodes = [_node(text) for text in args.node]
    settings = {
        "cohort": args.cohort,
        "hosts": args.host or [node["host"] for node in nodes],
        "listen": args.listen,
        "port": args.port,
        "identify": args.identify,
        "tls": "none" if args.no_tls else "own-authority",
        "nodes": nodes,
    }
    if not settings["hosts"]:
        raise Problem("--host: how do devices reach the broker? Give a name or address (a cluster: --node)")
    folder = SiteFolder.create(args.site, descriptions.parse(settings, "hushmq broker init"))
    print(f"{folder.path / 'site.toml'}: cohort {args.cohort} at {', '.join(folder.description.urls)}")
    return 0


def _node(text: str) -> dict[str, object]:
    """`NAME=HOST[:PORT]` as it stands in site.toml."""
    name, _, address = text.partition("=")
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not name or not host:
        raise Problem(f"--node: {text!r} is none: write NAME=HOST or NAME=HOST:PORT")
    return {"name": name, "host": host, **({} if port is None else {"port": port})}


def _hand_out(args: argparse.Namespace) -> int:
    folder = SiteFolder(args.site)
    if args.action == "add-device":
        folder.add(args.role, args.name)
    elif args.action == "renew":
        folder.renew(args.name)
    print(folder.hand_out(args.name, args.out.absolute()), end="")
    return 0


def _show(folder: SiteFolder, *, as_json: bool) -> int:
    """Who may connect; exit code 1 if a certificate is due to be renewed."""
    description = folder.description
    broker = folder.expires()
    who = [(role, name, folder.expires(name)) for role in ROLES for name in description.named(role)]
    if as_json:
        told = [{"role": role, "name": name, "certificate": _end(end)} for role, name, end in who]
        site = {"cohort": description.cohort, "urls": description.urls, "certificate": _end(broker)}
        print(json.dumps({**site, "identities": told}))
    else:
        print(
            f"cohort {description.cohort} at {', '.join(description.urls)}; {_until(broker, 'no certificate of ours')}"
        )
        width = max(len(name) for _, name, _ in who)
        for role, name, end in who:
            print(f"{role:<11} {name:<{width}}  {_until(end, 'password')}")
    return 1 if any(end is not None and due(end) for end in (broker, *(end for _, _, end in who))) else 0


def _end(end: datetime | None) -> dict[str, object] | None:
    return None if end is None else {"ends": end.isoformat(), "due": due(end)}


def _until(end: datetime | None, without: str) -> str:
    return without if end is None else f"certificate until {end:%Y-%m-%d}{', RENEW IT' if due(end) else ''}"


def _run(path: Path) -> int:
    """Run NATS until told to stop; a changed site.toml is taken over as it is saved."""
    path = path.absolute()  # the broker runs in a folder of its own
    saved = _saved(path)
    folder = SiteFolder(path)
    if folder.description.nodes:
        raise Problem("site.toml: nodes: a cluster is not run from here; see hushmq broker config nats")
    folder.complete()
    log = logger()
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    server = NatsServer(
        folder.site(),
        path / "nats",
        host=folder.description.listen,
        port=folder.description.port,
        tls=folder.server_tls(),
    )
    with server:
        log.info("broker running", addresses=folder.description.urls, pid=server.pid)
        while not stopping.wait(0.25):
            if server.pid is None:
                raise Problem(f"the broker ended: {server.last_words()} (log: {server.log})")
            if (now := _saved(path)) != saved:
                saved = now
                _take_over(path, server, log)
    log.info("broker stopped")
    return 0


def _saved(path: Path) -> tuple[int, int, int] | None:
    """What changes whenever site.toml is saved. Looked at before the file is read, so that no change is missed."""
    try:
        found = (path / "site.toml").stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _take_over(path: Path, server: NatsServer, log: Any) -> None:
    try:
        folder = SiteFolder(path)
        folder.complete()
        server.reload(folder.site())
    except Problem as problem:
        log.warning("site not taken over", problem=str(problem))
    else:
        log.info("site taken over", identities=len(server.site.identities))
