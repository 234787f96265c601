"""A console without a broker, whose messages the tests hand over, on a database that a calibrator has written."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hushmq.broker.service.log import logger
from hushmq.console.access import users_file
from hushmq.console.access.users_file import UsersFile
from hushmq.console.console_config import load_console
from hushmq.console.pages.console_app import make_app
from hushmq.console.pages.console_context import ConsoleContext
from tests.calibrator.site import CALIBRATOR, OPS, desk
from tests.console.asgi_client import AsgiClient

PASSWORDS = {"ann": "operator-password", "vic": "viewer-password"}
Opened = Callable[..., "Console"]


class Console:
    """A console at hand."""

    def __init__(self, context: ConsoleContext) -> None:
        self.context = context
        self.app = make_app(context)

    def client(self, name: str | None = None) -> AsgiClient:
        """A browser, logged in as one of the users if one is named."""
        client = AsgiClient(self.app)
        if name is not None:
            assert client.login(name, PASSWORDS[name]).status == 303
        return client


@pytest.fixture(scope="session")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ann is an operator, vic a viewer; hashed at a low cost, since every test logs in."""
    file = tmp_path_factory.mktemp("users") / "users.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(users_file, "N", 2**4)
        UsersFile(file).add("ann", "operator", PASSWORDS["ann"])
        UsersFile(file).add("vic", "viewer", PASSWORDS["vic"])
    return file


@pytest.fixture(scope="session")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with three releases of three devices."""
    file = tmp_path_factory.mktemp("ledger") / "ledger.db"
    with desk(f"sqlite:///{file}") as here:
        here.adopt()
        for number in range(3):
            here.window(number)
            here.cohort.close_due()
        here.cohort.mark_sent(here.cohort.unsent())
    return file


@pytest.fixture
def opened(tmp_path: Path, users: Path, ledger: Path) -> Iterator[Opened]:
    """Opens consoles; settings may be added to their files."""
    with ExitStack() as leaving:

        def open_console(name: str = "console", database: Path = ledger, more: str = "") -> Console:
            folder = tmp_path / name
            folder.mkdir()
            (folder / "users.json").write_bytes(users.read_bytes())
            (folder / "users.json").chmod(0o600)
            (folder / "console.toml").write_text(
                f'cohort = "test"\ndatabase = "sqlite:///{database}"\nport = 0\n'
                f'users_file = "{folder}/users.json"\nlog_file = "{folder}/log.jsonl"\n{more}\n'
                '[broker]\nurls = ["mqtt://127.0.0.1:1"]\n'
                f'[keys]\nops_keys = ["{OPS.public}"]\ncalibrator_keys = ["{CALIBRATOR.public}"]\n'
            )
            context = ConsoleContext(
                load_console(folder / "console.toml", {}), logger("error", "json", io.StringIO())
            )
            leaving.callback(context.close)
            context.forecasts.patience_s = 60.0  # tests read a page once, and no event after it
            return Console(context)

        yield open_console
