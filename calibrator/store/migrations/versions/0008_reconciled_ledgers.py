"""What ops signed so that a ledger restored from an old backup may be charged again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "reconciled",
        sa.Column(
            "entry",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            sa.ForeignKey("ledger.id"),
            primary_key=True,
        ),
        sa.Column("stream", sa.String(64), nullable=False),
        sa.Column("after", sa.BigInteger, nullable=False),
        sa.Column("entries", sa.BigInteger, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
