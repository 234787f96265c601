"""A roster of devices for every stream, and the stand-ins drawn for ticks that did not arrive.

Every device of which something was counted is on the roster from its first tick on.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "filled",
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("first", sa.BigInteger, primary_key=True),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("noise", sa.BigInteger, nullable=False),
        sa.Column("states", sa.LargeBinary, nullable=False),
    )
    op.create_index("filled_of_stream", "filled", ["stream", "first"])
    roster = op.create_table(
        "roster",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("since", sa.BigInteger, primary_key=True),
        sa.Column("until", sa.BigInteger, nullable=True),
        sa.Column("admitted", sa.BigInteger, nullable=False),
        sa.Column("left_out", sa.String(64), nullable=True),
        sa.Column("region", sa.Text, nullable=True),
    )
    accounted = sa.table("accounted", *map(sa.column, ("stream", "device", "first")))
    known = op.get_bind().execute(
        sa.select(accounted.c.stream, accounted.c.device, sa.func.min(accounted.c.first)).group_by(
            accounted.c.stream, accounted.c.device
        )
    )
    op.bulk_insert(
        roster,
        [
            {"stream": stream, "device": device, "since": first, "until": None, "admitted": 0}
            for stream, device, first in known
        ],
    )
