"""Messages of a site, as the broker would hand them to the console."""

from __future__ import annotations

from sqlalchemy import select

from hushmq.broker.contract.messages import Refusal, Release, Status, StreamStatus, decode, encode
from hushmq.broker.contract.topics import Topics
from hushmq.calibrator.store import tables as store
from hushmq.console.state.live_site import LiveSite
from hushmq.console.store.read_only_database import ReadOnlyDatabase
from tests.calibrator.site import policy, signed

TOPICS = Topics("test")
STREAM = "motion"


def status(
    *,
    online: bool | None = True,
    policy: int = 1,
    refused: Refusal | None = None,
    noise: int = 1,
    buffered: int = 0,
    dropped: int = 0,
) -> Status:
    one = StreamStatus(noise=noise, sampled=100, buffered=buffered, dropped=dropped)
    return Status(online=online, policy=policy, refused=refused, streams={STREAM: one})


def report(site: LiveSite, device: str, message: Status) -> None:
    """A device reports its status."""
    site.receive(TOPICS.status(device), encode(message), False)


def publish_stored(site: LiveSite, database: ReadOnlyDatabase) -> None:
    """The policy, the settings and the releases of a database arrive, as the calibrator published them."""
    site.receive(TOPICS.policy, signed(policy()), True)
    settings = database.read_here(lambda db: db.execute(select(store.setting)).all())
    for row in settings:
        site.receive(TOPICS.noise(row.stream, row.device), row.payload, True)
    for row in database.read_here(lambda db: db.execute(select(store.release)).all()):
        release = decode(Release, row.payload)
        site.receive(TOPICS.release(release.stream, release.window, release.scope), row.payload, True)
