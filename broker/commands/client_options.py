"""Options of the commands that connect to a broker: its address, and the credentials."""

from __future__ import annotations

import argparse
from pathlib import Path

from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import level
from hushmq.broker.mqtt.endpoint import Endpoint, Tls, refuse_clear_text
from hushmq.broker.provision.site_folder import SiteFolder
from hushmq.broker.service.settings_file import read_secret

CLEAR_TEXT = "--password-in-clear-text"


def add_broker(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--site",
        type=Path,
        metavar="SITE",
        help="instead of all options about the broker: the folder of a site on this machine",
    )
    parser.add_argument(
        "--broker",
        action="append",
        default=[],
        metavar="URL",
        help="mqtt[s]://host[:port] or ws[s]://host[:port]; may be repeated, for the nodes of a cluster",
    )
    parser.add_argument("--username", help="the identity with which to connect")
    parser.add_argument(
        "--password-file", type=Path, metavar="FILE", help="a file with the password, mode 600"
    )
    add_clear_text(parser)
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


def add_clear_text(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        CLEAR_TEXT,
        action="store_true",
        help="accept that everybody on the network can read the password, which mqtt:// and ws:// do not encrypt",
    )


def endpoints(args: argparse.Namespace, identity: str = "ops") -> list[Endpoint]:
    """Return the endpoints that the options name, to be tried in turn; raise Problem when an option is invalid.

    With `--site`, that of an identity of the site.
    """
    if args.site is not None:
        if args.broker or args.password_file or args.ca or args.certificate or args.certificate_key:
            raise Problem(
                "--site: it says all about the broker: give either it, or --broker and what belongs to it"
            )
        return [SiteFolder(args.site).endpoint(args.username or identity)]
    if not args.broker:
        raise Problem("--broker: missing; give --broker, or --site for a site on this machine")
    password = None
    if args.password_file is not None:
        password = read_secret(args.password_file, "--password-file")
    tls = None
    if args.ca or args.certificate or args.certificate_key:
        if (args.certificate is None) != (args.certificate_key is None):
            raise Problem("--certificate and --certificate-key go together: give both or neither")
        tls = Tls(args.ca, args.certificate, args.certificate_key)
    found = [Endpoint.parse(url, username=args.username, password=password, tls=tls) for url in args.broker]
    if not args.password_in_clear_text:
        refuse_clear_text(found, setting="--broker", risk=CLEAR_TEXT)
    return found


def cohort_of(args: argparse.Namespace) -> str:
    """Return the cohort that `--cohort` names, or that of `--site`; raise Problem where there is none."""
    if args.cohort is None and args.site is None:
        raise Problem("--cohort: missing; give the cohort, or --site for a site on this machine")
    cohort: str = args.cohort if args.cohort is not None else SiteFolder(args.site).description.cohort
    try:
        return level(cohort)
    except ValueError as error:
        raise Problem(f"--cohort: {error}") from None
