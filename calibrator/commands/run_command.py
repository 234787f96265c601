"""`hushmq calibrator run` and `check-config`."""

from __future__ import annotations

import argparse
import signal
import socket
from pathlib import Path
from typing import Any

from hushmq.broker.contract.problem import Problem
from hushmq.broker.service.log import logger
from hushmq.broker.service.settings_file import BrokerSection
from hushmq.calibrator.calibrator_config import Config, load
from hushmq.calibrator.fleet.cohort_tables import known_cohorts
from hushmq.calibrator.fleet_config import is_fleet, load_fleet
from hushmq.calibrator.run_calibrator import Calibrator, StartDaemon
from hushmq.calibrator.store.open_database import open_to_read, plain_engine


def run(args: argparse.Namespace) -> int:
    if is_fleet(args.config):
        return _run_fleet(args)
    config = load(args.config)
    if args.action == "check-config":
        _check(config)
        print(
            f"{args.config}: right; cohort {config.cohort}, {len(config.broker.urls)} broker(s), "
            f"key {config.keys.signing_key.public.id}"
        )
        return 0
    return _work(
        Calibrator(
            config,
            start=StartDaemon(lambda: load(args.config)),
            load=lambda: load(args.config),
            logger_of=lambda one: logger(one.log.level, one.log.form),
        )
    )


def _run_fleet(args: argparse.Namespace) -> int:
    from hushmq.calibrator.fleet.start_worker import StartWorker  # noqa: PLC0415  # most calibrators serve one cohort

    config = load_fleet(args.config)
    if args.action == "check-config":
        for cluster in config.clusters or ("",):
            _resolve(config.broker_of(cluster), f"clusters.{cluster}" if cluster else "broker")
        there = known_cohorts(config)
        print(
            f"{args.config}: right; worker {config.name}, serves {len(there)} of the database's cohorts, "
            f"{len(config.clusters) or 1} cluster(s)"
        )
        return 0
    return _work(
        Calibrator(
            config,
            start=StartWorker(lambda: load_fleet(args.config)),
            load=lambda: load_fleet(args.config),
            logger_of=lambda one: logger(one.log.level, one.log.form),
        )
    )


def _check(config: Config) -> None:
    """Raise Problem unless the database can be opened, if it is there, and every broker's name can be resolved."""
    engine = plain_engine(config.database)
    if engine.dialect.name != "sqlite" or Path(engine.url.database or "").exists():
        open_to_read(config.database).dispose()
    _resolve(config.broker, "broker")


def _resolve(section: BrokerSection, name: str) -> None:
    for endpoint in section.endpoints(name):
        try:
            socket.getaddrinfo(endpoint.host, endpoint.port)
        except OSError as error:
            raise Problem(f"{name}.urls: {endpoint.host} cannot be resolved: {error.strerror}") from None


def _work(calibrator: Calibrator[Any]) -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: calibrator.stop())
    signal.signal(signal.SIGHUP, lambda *_: calibrator.ask_reload())
    calibrator.run()
    return 0
