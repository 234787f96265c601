"""The epochs of a stream: where its states changed their meaning, or Θ was contradicted.

Streams that are followed already are in their first epoch, which is written down with their next policy.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    entry = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "epoch",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.String(16), nullable=False),
        sa.Column("policy", sa.BigInteger, nullable=False),
        sa.Column("ops", sa.BigInteger, nullable=False),
        sa.Column("meaning", sa.String(32), nullable=False),
        sa.Column("settings", sa.BigInteger, nullable=False),
        sa.Column("ended_theta", sa.Text, nullable=True),
        sa.Column("entry", entry, sa.ForeignKey("ledger.id"), nullable=True),
    )
