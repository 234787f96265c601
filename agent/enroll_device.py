"""Lets a device join a site: unpacks its bundle, checks the connection, writes a unit where asked."""

from __future__ import annotations

import argparse
import getpass
import json
import time
from pathlib import Path
from typing import Any

from hushmq.agent.agent_config import Config, load
from hushmq.agent.sources.source_config import Serial
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.broker_process import write_private
from hushmq.broker.provision.device_bundle import read_bundle
from hushmq.broker.provision.unit_file import unit
from hushmq.broker.service.log import logger

CONNECT_S = 15.0
"""How long the broker may take to let the device in."""


def enroll(args: argparse.Namespace) -> Path:
    """Enroll, and return the path of the settings; raise Problem when something is not right."""
    bundle = read_bundle(args.bundle)
    folder: Path = args.folder or Path(bundle.device)
    settings = bundle.unpack(folder, replace=args.replace)
    config = load(settings, {})
    found: dict[str, Any] = {
        "device": config.device,
        "settings": str(settings),
        "streams": list(config.streams),
    }
    if not args.offline:
        found["broker"] = check_connection(config, settings)
    if args.unit is not None:
        _write_unit(args.unit, settings, config, user=args.user or getpass.getuser())
        found["unit"] = str(args.unit)
    if args.json:
        print(json.dumps(found))
        return settings
    print(f"{config.device} of the cohort {config.cohort}: {settings}")
    if "broker" in found:
        print(f"the broker lets it in: {found['broker']}")
    if args.unit is not None:
        print(f"{args.unit}: systemctl daemon-reload && systemctl enable --now {args.unit.name}")
    elif not args.run:
        print(f"next: hushmq agent run --config {settings}")
    return settings


def check_connection(config: Config, settings: Path) -> str:
    """Connect once as the device; return the address that let it in; raise Problem when none does."""
    topics = Topics(config.cohort)
    connection = Connection(
        endpoints=config.broker.endpoints(),
        client_id=f"enroll-{config.device}-{time.monotonic_ns():x}",
        subscriptions=[topics.policy, topics.seen(config.device)],
        keep_session=False,
        log=logger("error"),
    )
    connection.start()
    try:
        if connection.wait_connected(CONNECT_S):
            return ", ".join(config.broker.urls)
        raise Problem(
            f"{settings} is written, but no broker lets {config.device} in: "
            f"{connection.last_error or 'no answer'}; the agent will keep trying"
        )
    finally:
        connection.stop()


def _write_unit(path: Path, settings: Path, config: Config, *, user: str) -> None:
    text = unit(
        f"hushmq agent of the device {config.device}",
        ["agent", "run", "--config", str(settings.absolute())],
        user=user,
        writable=config.folder.absolute().parent,
        notifies=True,
        more="MemoryMax=128M",
        private_devices=not any(isinstance(one.source, Serial) for one in config.streams.values()),
    )
    try:
        write_private(path, text)
        path.chmod(0o644)
    except OSError as error:
        raise Problem(f"--unit: {path}: {error.strerror}") from None
