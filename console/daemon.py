"""The console's process: the broker's messages in, pages out, everything on one event loop.

The connection's network thread hands every message to the loop; queries run on worker threads, what takes long in
processes of its own.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvicorn
from anyio import to_thread

from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import TopicKind, Topics
from hushmq.broker.mqtt.connection import Connection
from hushmq.console.console_config import ConsoleConfig
from hushmq.console.pages.console_app import make_app
from hushmq.console.pages.console_context import ConsoleContext

FLUSH_S = 0.2
"""The log is written, and the disk waited for, this often at most."""
HEALTH_S = 5.0
DEVICES_S = 5.0
"""What the calibrator decided about devices is read, for the log, this often."""
SHOWN: tuple[TopicKind, ...] = ("policy", "noise", "status", "release", "ledger")


class ConsoleDaemon:
    """Runs until it is stopped."""

    def __init__(self, config: ConsoleConfig, *, log: Any) -> None:
        self._log = log
        self.context = ConsoleContext(config, log)
        self._server = uvicorn.Server(
            uvicorn.Config(
                make_app(self.context),
                host=config.listen,
                port=config.port,
                ssl_certfile=None if config.tls is None else str(config.tls.certificate),
                ssl_keyfile=None if config.tls is None else str(config.tls.key),
                log_config=None,
                access_log=False,
                server_header=False,
                ws="none",
                http="h11",
                loop="asyncio",
                lifespan="off",
                timeout_graceful_shutdown=1,
            )
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection = Connection(
            endpoints=config.broker.endpoints(),
            client_id=f"console-{config.cohort}-{time.monotonic_ns():x}",
            subscriptions=[Topics(config.cohort).all(kind) for kind in SHOWN],
            on_message=self._on_message,
            on_change=self._on_change,
            keep_session=False,
            log=log,
        )

    def run(self, ready: Callable[[str], None]) -> None:
        """Serve until a signal or `stop`; `ready` is called with the console's address."""
        asyncio.run(self._run(ready))

    def stop(self) -> None:
        """End soon; may be called from another thread."""
        self._server.should_exit = True

    async def _run(self, ready: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(ValueError, RuntimeError):  # not on the main thread: whoever runs us calls `stop`
                self._loop.add_signal_handler(number, self.stop)
        self.context.record("console", "console", "the console starts", who="console")
        self.context.note_access()
        tasks = [
            asyncio.create_task(one) for one in (self._flush(), self._watch_health(), self._watch_devices())
        ]
        try:
            await self._serve(ready)
        finally:
            for task in tasks:
                task.cancel()
            await self.context.jobs.stop()
            self._connection.stop()
            self.context.record("console", "console", "the console ends", who="console")
            self.context.close()
            self._log.info(
                "console_stopped",
                log_entries=self.context.activity.count,
                log_head=self.context.activity.head,
            )

    async def _serve(self, ready: Callable[[str], None]) -> None:
        config = self._server.config
        if not config.loaded:
            config.load()
        self._server.lifespan = config.lifespan_class(config)
        try:
            await self._server.startup()
        except SystemExit:
            raise Problem(f"listen: {config.host}:{config.port} cannot be opened: is it in use?") from None
        self._connection.start()
        self.context.renderer.compile_all()
        url = self._address()
        self._log.info(
            "console_started",
            url=url,
            log_entries=self.context.activity.count,
            log_head=self.context.activity.head,
        )
        ready(url)
        try:
            await self._server.main_loop()
        finally:
            await self._server.shutdown()

    def _address(self) -> str:
        config = self.context.config
        port = self._server.servers[0].sockets[0].getsockname()[1]
        scheme = "http" if config.tls is None else "https"
        return f"{scheme}://{config.hosts[0] if config.hosts else config.listen}:{port}/"

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            with suppress(Problem):  # a users file that is damaged is said to whoever logs in
                self.context.note_users()
            self.context.activity.flush()
            if not self._connection.connected:
                self.context.site.set_connected(False, self._connection.last_error)

    async def _watch_health(self) -> None:
        url = self.context.config.health_url
        while url is not None:
            found = await to_thread.run_sync(_health, url)
            if found != self.context.health:
                self.context.health = found
                self.context.changes.note("health")
            await asyncio.sleep(HEALTH_S)

    async def _watch_devices(self) -> None:
        while True:
            await self.context.note_devices()
            await asyncio.sleep(DEVICES_S)

    # On the network thread:

    def _on_message(self, topic: str, payload: bytes, retained: bool) -> None:
        self._post(self.context.site.receive, topic, payload, retained)

    def _on_change(self, connected: bool) -> None:
        self._post(self.context.site.set_connected, connected)

    def _post(self, function: Callable[..., None], *arguments: object) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(function, *arguments)


def _health(url: str) -> dict[str, object]:
    """What the calibrator's /health answers."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310  # http or https, as the settings say
            tree = json.loads(answer.read(65_536))
    except urllib.error.HTTPError as error:
        with error:
            tree = _tree(error.read(65_536))
    except (OSError, ValueError):
        tree = {"healthy": False, "silent": url}
    return tree if isinstance(tree, dict) else {}


def _tree(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return {"healthy": False, "wrong": ["something that is no report"]}
