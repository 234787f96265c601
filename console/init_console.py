"""Makes the folder of a console: its identity at the broker, its certificate, its settings and a first user."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hushmq.broker.contract.problem import Problem
from hushmq.broker.mqtt.endpoint import is_loopback
from hushmq.broker.provision.broker_process import write_private
from hushmq.broker.provision.site_description import toml_value
from hushmq.broker.provision.site_folder import SiteFolder
from hushmq.calibrator.calibrator_config import load
from hushmq.console.access.users_file import UsersFile
from hushmq.console.console_config import load_console

IDENTITY = "console"


@dataclass(frozen=True, slots=True)
class NewConsole:
    """What was made."""

    config: Path
    url: str
    user: str
    password: str
    ca: Path | None
    """The authority that browsers must trust; None without TLS."""
    added: bool
    """Whether the broker does not know the identity yet."""


def init_console(
    out: Path,
    *,
    site: Path,
    calibrator: Path,
    hosts: Sequence[str] = (),
    listen: str = "127.0.0.1",
    port: int = 8443,
    user: str = "ops",
    upload: bool = False,
) -> NewConsole:
    """Make the folder; raise Problem when there is a console in it already.

    TLS is from the site's authority. A site without one gets plain HTTP, which is served on loopback only.
    """
    config = out / "console.toml"
    if config.exists():
        raise Problem(f"{out} already holds a console: change its console.toml, or choose another folder")
    folder, theirs = SiteFolder(site), load(calibrator)
    if theirs.cohort != folder.description.cohort:
        raise Problem(f"--calibrator: its cohort is {theirs.cohort}, the site's {folder.description.cohort}")
    own_authority = folder.description.tls == "own-authority"
    if not own_authority and not is_loopback(listen):
        raise Problem(
            f"--listen: {listen}: the site has no authority of its own to make a certificate: use 127.0.0.1"
        )
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    out = out.absolute()
    added = folder.description.role(IDENTITY) is None
    if added:
        folder.add("console", IDENTITY)
    names = list(hosts) or [listen] if is_loopback(listen) else [*hosts, *folder.description.hosts]
    lines = [
        "# Written by hushmq console init. You may edit it.",
        *_settings(
            cohort=theirs.cohort,
            database=theirs.database,
            users_file=str(out / "users.json"),
            log_file=str(out / "log.jsonl"),
            disclosure_file=str(out / "disclosure.json"),
            listen=listen,
            port=port,
            hosts=names,
        ),
        *([] if theirs.mark_file is None else _settings(mark_file=str(theirs.mark_file))),
        f"grace_s = {theirs.grace_s:g}",
        *(
            [f'health_url = "http://{theirs.metrics.host}:{theirs.metrics.port}/health"']
            if theirs.metrics.port
            else ()
        ),
        "",
        folder.hand_out(IDENTITY, out / "broker"),
        "[keys]",
        *_settings(
            ops_keys=list(theirs.keys.ops_keys), calibrator_keys=[str(theirs.keys.signing_key.public)]
        ),
    ]
    if own_authority:
        certificate, key = out / "console.pem", out / "console.key"
        folder.authority.issue_service((certificate, key), names)
        lines += ["", "[tls]", *_settings(certificate=str(certificate), key=str(key))]
    if upload:
        ops = folder.description.ops[0]
        folder.hand_out(ops, out / "upload")
        lines += ["", "[upload]", *_settings(username=ops, password_file=str(out / "upload" / "password"))]
    password = secrets.token_urlsafe(12)
    UsersFile(out / "users.json").add(user, "operator", password)
    write_private(config, "\n".join(lines) + "\n")
    load_console(config)
    return NewConsole(
        config=config,
        url=f"{'https' if own_authority else 'http'}://{names[0]}:{port}/",
        user=user,
        password=password,
        ca=folder.authority.certificate if own_authority else None,
        added=added,
    )


def _settings(**values: str | int | list[str]) -> list[str]:
    return [f"{name} = {toml_value(value)}" for name, value in values.items()]
