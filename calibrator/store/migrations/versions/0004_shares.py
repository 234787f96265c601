"""The share of every stream of its account, under each policy followed from now on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "stream_share",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("policy", sa.BigInteger, primary_key=True),
        sa.Column("tick", sa.BigInteger, nullable=False),
        sa.Column("share", sa.Float(53), nullable=False),
    )
