"""`hushmq calibrator run` and `check-config`."""

from __future__ import annotations

import argparse
import signal
import socket
from pathlib import Path

from hushmq.broker.contract.problem import Problem
from hushmq.broker.service.log import logger
from hushmq.calibrator.calibrator_config import Config, load
from hushmq.calibrator.run_calibrator import Calibrator
from hushmq.calibrator.store.open_database import open_to_read, plain_engine


def run(args: argparse.Namespace) -> int:
    config = load(args.config)
    if args.action == "check-config":
        _check(config)
        print(
            f"{args.config}: right; cohort {config.cohort}, {len(config.broker.urls)} broker(s), "
            f"key {config.keys.signing_key.public.id}"
        )
        return 0
    return _run(args.config, config)


def _check(config: Config) -> None:
    """Raise Problem unless the database can be opened, if it is there, and every broker's name can be resolved."""
    engine = plain_engine(config.database)
    if engine.dialect.name != "sqlite" or Path(engine.url.database or "").exists():
        open_to_read(config.database).dispose()
    for endpoint in config.broker.endpoints():
        try:
            socket.getaddrinfo(endpoint.host, endpoint.port)
        except OSError as error:
            raise Problem(f"broker.urls: {endpoint.host} cannot be resolved: {error.strerror}") from None


def _run(path: Path, config: Config) -> int:
    calibrator = Calibrator(
        config, load=lambda: load(path), logger_of=lambda one: logger(one.log.level, one.log.form)
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: calibrator.stop())
    signal.signal(signal.SIGHUP, lambda *_: calibrator.ask_reload())
    calibrator.run()
    return 0
