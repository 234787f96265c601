"""The broker of the demo: a NATS server that it starts, or the user's."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from hushmq.broker.commands.client_options import CLEAR_TEXT
from hushmq.broker.contract.problem import Problem
from hushmq.broker.mqtt.endpoint import Endpoint, Tls, refuse_clear_text
from hushmq.broker.provision.nats import NatsServer
from hushmq.demo.demo_plan import OPS, BrokerAddress, DemoPlan

PASSWORD_VARIABLE = "HUSHMQ_BROKER_PASSWORD"  # noqa: S105  # the name of a variable, not a password


@dataclass(slots=True)
class DemoBroker:
    """A NATS server started by the demo, or the address of the user's broker."""

    address: BrokerAddress
    server: NatsServer | None

    @classmethod
    def open(cls, args: argparse.Namespace, plan: DemoPlan, folder: Path) -> DemoBroker:
        if args.broker is None:
            server = NatsServer(plan.site, folder / "broker", port=args.port)
            server.start()
            return cls(BrokerAddress(f"mqtt://{server.host}:{server.port}"), server)
        scheme, mark, rest = args.broker.partition("://")
        username, _, host = rest.rpartition("@")
        if ":" in username:
            raise Problem(f"--broker: give the password in {PASSWORD_VARIABLE}, not in the address")
        address = BrokerAddress(
            f"{scheme}{mark}{host}",
            username or None,
            os.environ.get(PASSWORD_VARIABLE),
            None if args.ca is None else args.ca.absolute(),
            password_in_clear_text=args.password_in_clear_text,
            shared=True,
        )
        broker = cls(address, None)
        endpoint = broker.endpoint(OPS)  # a bad address is reported before anything starts
        if not args.password_in_clear_text:
            refuse_clear_text([endpoint], setting="--broker", risk=CLEAR_TEXT)
        return broker

    def endpoint(self, name: str) -> Endpoint:
        if self.server is not None:
            return self.server.endpoint(name)
        address = self.address
        tls = None if address.ca is None else Tls(address.ca)
        return Endpoint.parse(address.url, username=address.username, password=address.password, tls=tls)

    @property
    def name(self) -> str:
        return f"nats on port {self.server.port}" if self.server is not None else self.address.url

    def close(self) -> None:
        if self.server is not None:
            self.server.kill()  # half a second faster than a graceful stop, and its data is discarded
