"""Options of the commands that connect to a broker: its address, and the credentials."""

from __future__ import annotations

import argparse
from pathlib import Path

from hushmq.broker.contract.problem import Problem
from hushmq.broker.mqtt.endpoint import Endpoint, Tls
from hushmq.broker.service.settings_file import read_secret


def add_broker(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--broker",
        required=True,
        action="append",
        metavar="URL",
        help="mqtt://host[:port] or mqtts://host[:port]; may be repeated, for the nodes of a cluster",
    )
    parser.add_argument("--username", help="the identity with which to connect")
    parser.add_argument(
        "--password-file", type=Path, metavar="FILE", help="a file with the password, mode 600"
    )
    parser.add_argument(
        "--ca",
        type=Path,
        metavar="FILE",
        help="certificate authority trusted to sign the broker's certificate, PEM",
    )
    parser.add_argument("--certificate", type=Path, metavar="FILE", help="client certificate, PEM")
    parser.add_argument(
        "--certificate-key", type=Path, metavar="FILE", help="private key of the client certificate, PEM"
    )


def endpoints(args: argparse.Namespace) -> list[Endpoint]:
    """Return the endpoints that the options name, to be tried in turn; raise Problem when an option is invalid."""
    password = None
    if args.password_file is not None:
        password = read_secret(args.password_file, "--password-file")
    tls = None
    if args.ca or args.certificate or args.certificate_key:
        if (args.certificate is None) != (args.certificate_key is None):
            raise Problem("--certificate and --certificate-key go together: give both or neither")
        tls = Tls(args.ca, args.certificate, args.certificate_key)
    return [Endpoint.parse(url, username=args.username, password=password, tls=tls) for url in args.broker]
