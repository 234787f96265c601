"""Releases are found by their topic, since smoothed frequencies use earlier ones of the same topic."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_index("release_of_topic", "release", ["topic", "entry"])
