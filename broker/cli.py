"""`hushmq broker`: make a site, say who may connect, generate a broker's configuration, or run one here."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path
from types import FrameType

import structlog

from broker import description as descriptions
from broker.generate import generate
from broker.nats import NatsServer
from broker.problem import Problem
from broker.site import ROLES
from broker.site_folder import SiteFolder

SUMMARY = "run or configure a broker"

_EXAMPLES = """examples:
  hushmq broker init --site home --cohort home --host broker.home.lan
  hushmq broker add-device --site home wearable-1 --out wearable-1
  hushmq broker run --site home
  hushmq broker config mosquitto --site home --out mosquitto --path /etc/mosquitto/hushmq
  hushmq broker revoke --site home wearable-1"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(dest="action", required=True, metavar="init|add-device|revoke|config|run")

    init = actions.add_parser("init", help="make a site: its description, a certificate authority, secrets")
    init.add_argument("--cohort", required=True, help="name of the cohort, as in the topics")
    init.add_argument(
        "--host",
        required=True,
        action="append",
        metavar="NAME",
        help="name or address by which devices reach the broker; may be given again",
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
    add.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where to put its secrets")

    revoke = actions.add_parser("revoke", help="let somebody in no more")
    revoke.add_argument("name", help="whom")

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
    for each in (init, add, revoke, config, run):
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
        case "add-device":
            return _add(args)
        case "revoke":
            SiteFolder(args.site).revoke(args.name)
            print(
                f"{args.name} is revoked; a broker that does not run by `hushmq broker run` needs its new config"
            )
            return 0
        case "config":
            files = generate(args.kind, SiteFolder(args.site), args.out, path=args.path)
            print("\n".join(map(str, files)))
            return 0
    return _run(args.site)


def _init(args: argparse.Namespace) -> int:
    settings = {
        "cohort": args.cohort,
        "hosts": args.host,
        "listen": args.listen,
        "port": args.port,
        "identify": args.identify,
        "tls": "none" if args.no_tls else "own-authority",
    }
    folder = SiteFolder.create(args.site, descriptions.parse(settings, "hushmq broker init"))
    print(f"{folder.path / 'site.toml'}: cohort {args.cohort} at {', '.join(folder.description.urls)}")
    return 0


def _add(args: argparse.Namespace) -> int:
    folder = SiteFolder(args.site)
    folder.add(args.role, args.name)
    print(folder.hand_out(args.name, args.out.absolute()), end="")
    return 0


def _run(path: Path) -> int:
    """Run NATS until told to stop; a changed site.toml is taken over as it is saved."""
    path = path.absolute()  # the broker runs in a folder of its own
    saved = _saved(path)
    folder = SiteFolder(path)
    if folder.description.nodes:
        raise Problem("site.toml: nodes: a cluster is not run from here; see hushmq broker config nats")
    folder.complete()
    log = structlog.get_logger()
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


def _take_over(path: Path, server: NatsServer, log: structlog.typing.FilteringBoundLogger) -> None:
    try:
        folder = SiteFolder(path)
        folder.complete()
        server.reload(folder.site())
    except Problem as problem:
        log.warning("site not taken over", problem=str(problem))
    else:
        log.info("site taken over", identities=len(server.site.identities))
