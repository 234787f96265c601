"""The releases that a site has made, read from its calibrator's database."""

from __future__ import annotations

from pathlib import Path

from hushmq.broker.contract.messages import Release
from hushmq.broker.contract.problem import Problem

__all__ = ["releases"]


def releases(
    site: str | Path,
    *,
    stream: str | None = None,
    window: str | None = None,
    scope: str | None = None,
    archive: str | Path | None = None,
) -> list[Release]:
    """The releases that a site has made, oldest first.

    Args:
        site: The folder that `hushmq init` made, a calibrator's settings file, or the URL of its database.
        stream: Of this stream only.
        window: Of this window only.
        scope: Of `"cohort"` or of one device only.
        archive: The folder that `hushmq ledger archive` wrote to; without it, those in the database only.

    Raises Problem when there is no ledger there, or a file of the archive is not as it was written. Needs the extra
    `calibrator`.
    """
    try:
        from hushmq.calibrator.ledger.archived_releases import opened  # noqa: PLC0415  # a device does not have it
        from hushmq.calibrator.store.open_database import open_to_read  # noqa: PLC0415  # as above
        from hushmq.calibrator.windows.stored_releases import stored_releases  # noqa: PLC0415  # as above
    except ModuleNotFoundError as error:
        raise Problem(
            f"reading releases needs {error.name}, which is not installed: pip install 'hushmq[calibrator]'"
        ) from None
    engine = open_to_read(_database(site))
    try:
        with engine.connect() as db:
            archived = opened(db, None if archive is None else Path(archive))
            if archived is not None and (wrong := archived.faults()):
                raise Problem(f"--archive: {wrong[0]}")
            return list(stored_releases(db, stream=stream, window=window, scope=scope, archived=archived))
    finally:
        engine.dispose()


def _database(site: str | Path) -> str:
    from hushmq.calibrator.calibrator_config import load  # noqa: PLC0415  # a device does not have what it needs

    if "://" in str(site):
        return str(site)
    path = Path(site)
    if not path.exists():
        raise Problem(
            f"{site} does not exist: give a site's folder, a calibrator's settings file, or a database"
        )
    return load(path / "calibrator.toml" if path.is_dir() else path).database


def archived_words(site: str | Path) -> str | None:
    """How many releases of a site are in its archive and not in its database, in a sentence; None where none are."""
    from hushmq.calibrator.ledger.archived_releases import (  # noqa: PLC0415  # a device does not have it
        archive_records,
        archived_in_words,
    )
    from hushmq.calibrator.store.open_database import open_to_read, reading  # noqa: PLC0415  # as above

    with reading(open_to_read(_database(site))) as db:
        return archived_in_words(archive_records(db))
