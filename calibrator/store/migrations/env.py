"""Alembic runs this file for every command: it connects the revisions to the database that is handed over.

The connection is within a transaction, which the caller ends (calibrator/store/revisions.py).
"""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], render_as_batch=True)
context.run_migrations()
