"""`hushmq broker`: create a site, manage its identities, generate a broker's configuration, or run a broker."""

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
from hushmq.broker.provision.authority import check_valid, due
from hushmq.broker.provision.generate import generate, generate_bridge
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
  hushmq broker config mosquitto-bridge --site home --out bridge --path /etc/mosquitto/hushmq
  hushmq broker revoke --site home wearable-1
  hushmq broker init --site clinic --cohort clinic --node a=10.0.0.1 --node b=10.0.0.2 --node c=10.0.0.3"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="init|add-device|hand-out|renew|revoke|show|config|run"
    )

    init = actions.add_parser(
        "init", help="create a site: its description, certificate authority and secrets"
    )
    init.add_argument("--cohort", required=True, help="name of the cohort, as in the topics")
    init.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="name or address by which devices reach the broker; may be repeated",
    )
    init.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="NAME=HOST[:PORT]",
        help="for a NATS cluster, instead of --host: a node's name and address; give it three or five times",
    )
    init.add_argument("--listen", default="0.0.0.0", help="address to listen on (default: all)")  # noqa: S104  # a broker must be reachable
    init.add_argument("--port", type=int, default=8883, help="port to listen on (default: 8883)")
    init.add_argument(
        "--identify",
        choices=["password", "certificate"],
        default="password",
        help="how clients authenticate (default: password)",
    )
    init.add_argument("--no-tls", action="store_true", help="disable TLS (on the loopback address only)")

    add = actions.add_parser("add-device", help="add an identity, and write its credentials to a folder")
    add.add_argument("name", help="the device's name, as in its topics")
    add.add_argument("--role", choices=ROLES, default="device", help="its access rights (default: device)")

    again = actions.add_parser("hand-out", help="write the credentials of an existing identity to a folder")
    again.add_argument("name", help="the identity's name")

    renew = actions.add_parser(
        "renew", help="sign a new certificate for an identity, and write it to a folder"
    )
    renew.add_argument("name", help="the identity's name")
    for each in (add, again, renew):
        each.add_argument(
            "--out", type=Path, required=True, metavar="FOLDER", help="the folder to write the credentials to"
        )

    revoke = actions.add_parser("revoke", help="remove an identity, and revoke its credentials")
    revoke.add_argument("name", help="the identity's name")

    show = actions.add_parser("show", help="list identities, addresses and the expiry of certificates")
    show.add_argument("--json", action="store_true", help="print one JSON object")

    config = actions.add_parser("config", help="generate a broker's complete configuration")
    config.add_argument(
        "kind",
        choices=["nats", "mosquitto", "mosquitto-bridge"],
        help="the broker to configure; or the bridge by which a home's Mosquitto fetches what Home Assistant shows",
    )
    config.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the folder to write it to")
    config.add_argument(
        "--path",
        type=Path,
        metavar="FOLDER",
        help="its folder on the broker's machine (default: the folder it is written to)",
    )

    config.add_argument(
        "--identity",
        metavar="NAME",
        help="who a bridge connects as (default: the only one with the role home-assistant)",
    )

    run = actions.add_parser("run", help="run the embedded broker until interrupted")
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
                f"{args.name} is revoked; a broker not started by `hushmq broker run` needs its new configuration"
            )
            return 0
        case "show":
            return _show(SiteFolder(args.site), as_json=args.json)
        case "config":
            print("\n".join(map(str, _config(args))))
            return 0
    return _run(args.site)


def _config(args: argparse.Namespace) -> list[Path]:
    folder = SiteFolder(args.site)
    if args.kind == "mosquitto-bridge":
        return generate_bridge(folder, args.out, path=args.path, identity=args.identity)
    if args.identity is not None:
        raise Problem("--identity: it is for mosquitto-bridge only")
    return generate(args.kind, folder, args.out, path=args.path)


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
        raise Problem(
            "--host: give a name or address by which devices reach the broker (for a cluster: --node)"
        )
    folder = SiteFolder.create(args.site, descriptions.parse(settings, "hushmq broker init"))
    print(f"{folder.path / 'site.toml'}: cohort {args.cohort} at {', '.join(folder.description.urls)}")
    return 0


def _node(text: str) -> dict[str, object]:
    """Parse `NAME=HOST[:PORT]` into the fields of a node in site.toml; raise Problem when it is invalid."""
    name, _, address = text.partition("=")
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not name or not host:
        raise Problem(f"--node: {text!r} is not valid: write NAME=HOST or NAME=HOST:PORT")
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
    """Print the identities and the expiry of their certificates; return 1 if a certificate is due for renewal."""
    description = folder.description
    broker = folder.expires()
    who = [(role, name, folder.expires(name)) for role in ROLES for name in description.named(role)]
    if as_json:
        identities = [{"role": role, "name": name, "certificate": _end(end)} for role, name, end in who]
        site = {"cohort": description.cohort, "urls": description.urls, "certificate": _end(broker)}
        print(json.dumps({**site, "identities": identities}))
    else:
        print(
            f"cohort {description.cohort} at {', '.join(description.urls)}; "
            f"{_until(broker, 'no certificate from hushmq')}"
        )
        width = max((len(name) for _, name, _ in who), default=0)
        for role, name, end in who:
            print(f"{role:<14} {name:<{width}}  {_until(end, 'password')}")
    return 1 if any(end is not None and due(end) for end in (broker, *(end for _, _, end in who))) else 0


def _end(end: datetime | None) -> dict[str, object] | None:
    return None if end is None else {"ends": end.isoformat(), "due": due(end)}


def _until(end: datetime | None, without: str) -> str:
    return without if end is None else f"certificate until {end:%Y-%m-%d}{', RENEW IT' if due(end) else ''}"


def _run(path: Path) -> int:
    """Run NATS until a signal stops it; apply a changed site.toml as soon as it is saved."""
    path = path.absolute()  # the broker's working directory is another folder
    saved = _saved(path)
    folder = SiteFolder(path)
    if folder.description.nodes:
        raise Problem("site.toml: nodes: this command runs no cluster; see hushmq broker config nats")
    folder.complete()
    if (tls := folder.server_tls()) is not None:
        check_valid(tls.certificate)
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
        websocket_port=folder.description.websocket_port,
    )
    with server:
        log.info("broker_running", addresses=folder.description.urls, pid=server.pid)
        while not stopping.wait(0.25):
            if server.pid is None:
                raise Problem(f"the broker ended: {server.last_log_line()} (log: {server.log})")
            if (now := _saved(path)) != saved:
                saved = now
                _reload(path, server, folder.description, log)
    log.info("broker_stopped")
    return 0


def _saved(path: Path) -> tuple[int, int, int] | None:
    """Return the identity of the saved site.toml. Called before the file is read, so that no change is missed."""
    try:
        found = (path / "site.toml").stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


RESTART = ("identify", "listen", "nodes", "port", "tls")
"""Settings of a site that a running broker cannot change."""


def _check_reload(now: descriptions.Description, running: descriptions.Description) -> None:
    """Raise Problem where more than identities has changed since the broker was started."""
    for name in RESTART:
        if getattr(now, name) != getattr(running, name):
            raise Problem(f"{name}: it has changed, which needs a restart of the broker")


def _reload(path: Path, server: NatsServer, running: descriptions.Description, log: Any) -> None:
    try:
        folder = SiteFolder(path)
        _check_reload(folder.description, running)
        folder.complete()
        server.reload(folder.site())
    except Problem as problem:
        log.warning("site_reload_refused", problem=str(problem))
    else:
        log.info("site_reloaded", identities=len(server.site.identities))
