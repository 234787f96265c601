"""The calibrator's databases of both kinds, for what reads them here."""

from __future__ import annotations

from tests.calibrator.conftest import databases, postgres_databases, postgres_server, sqlite_databases

__all__ = ["databases", "postgres_databases", "postgres_server", "sqlite_databases"]
