"""Options of the commands that connect to a broker for a while: where it is, and as whom."""

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
        help="mqtt://host[:port] or mqtts://host[:port]; may be given again, for the nodes of a cluster",
    )
    parser.add_argument("--username", help="identity at the broker")
    parser.add_argument(
        "--password-file", type=Path, metavar="FILE", help="a file with the password, mode 600"
    )
    parser.add_argument("--ca", type=Path, metavar="FILE", help="authority that vouches for the broker, PEM")
    parser.add_argument("--certificate", type=Path, metavar="FILE", help="one's own certificate, PEM")
    parser.add_argument(
        "--certificate-key", type=Path, metavar="FILE", help="the key of that certificate, PEM"
    )


def endpoints(args: argparse.Namespace) -> list[Endpoint]:
    """Where the options say to connect, one after the other until one answers, or Problem."""
    password = None
    if args.password_file is not None:
        password = read_secret(args.password_file, "--password-file")
    tls = None
    if args.ca or args.certificate or args.certificate_key:
        if (args.certificate is None) != (args.certificate_key is None):
            raise Problem("--certificate and --certificate-key go together: give both or neither")
        tls = Tls(args.ca, args.certificate, args.certificate_key)
    return [Endpoint.parse(url, username=args.username, password=password, tls=tls) for url in args.broker]
