"""Policies that are no longer followed are kept, so that what was promised under them can be checked.

Policies superseded before this revision are lost: settings and entries made under them stay, and a check of them says
that their policy is missing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "superseded_policy",
        sa.Column("version", sa.BigInteger, primary_key=True),
        sa.Column("until", sa.String(32), nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
