"""The tables of hushmq 0.1, which had no revisions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    # SQLite gives rowids, and so sequence numbers, only to columns declared INTEGER.
    sequence = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "policy",
        sa.Column("version", sa.BigInteger, primary_key=True),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "setting",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("version", sa.BigInteger, primary_key=True),
        sa.Column("policy", sa.BigInteger, nullable=False),
        sa.Column("device", sa.String(64), nullable=True),
        sa.Column("issued", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("noise", sa.Text, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "batch",
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("first", sa.BigInteger, primary_key=True),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("noise", sa.BigInteger, nullable=False),
        sa.Column("states", sa.LargeBinary, nullable=False),
    )
    op.create_index("batch_of_stream", "batch", ["stream", "first"])
    op.create_table(
        "accounted",
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("first", sa.BigInteger, primary_key=True),
        sa.Column("last", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "tally",
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("counted", sa.BigInteger, nullable=False),
        sa.Column("late", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "extent",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("noise", sa.BigInteger, primary_key=True),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "quarantine",
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("strikes", sa.BigInteger, nullable=False),
        sa.Column("until", sa.Float(53), nullable=False),
    )
    op.create_table(
        "device_tilt",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("policy", sa.BigInteger, primary_key=True),
        sa.Column("tilt", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "ledger",
        sa.Column("id", sequence, primary_key=True, autoincrement=True),
        sa.Column("stream", sa.String(64), nullable=False),
        sa.Column("window", sa.String(64), nullable=False),
        sa.Column("scope", sa.String(64), nullable=False, server_default="cohort"),
        sa.Column("audience", sa.String(16), nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("tilt", sa.BigInteger, nullable=False),
        sa.Column("noise", sa.BigInteger, nullable=False),
        sa.Column("noise_digest", sa.String(32), nullable=False),
        sa.Column("why", sa.String(64), nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ledger_of_stream", "ledger", ["stream", "id"])
    op.create_table(
        "statistic",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("block", sa.BigInteger, primary_key=True),
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("noise", sa.BigInteger, primary_key=True),
        sa.Column("ticks", sa.BigInteger, nullable=False),
        sa.Column("ones", sa.BigInteger, nullable=False),
        sa.Column("starts_0", sa.BigInteger, nullable=False),
        sa.Column("starts_1", sa.BigInteger, nullable=False),
        sa.Column("starts_2", sa.BigInteger, nullable=False),
        sa.Column("starts_3", sa.BigInteger, nullable=False),
        sa.Column("changes_0", sa.BigInteger, nullable=False),
        sa.Column("changes_1", sa.BigInteger, nullable=False),
        sa.Column("changes_2", sa.BigInteger, nullable=False),
        sa.Column("changes_3", sa.BigInteger, nullable=False),
        sa.Column("variance", sa.Float(53), nullable=False),
    )
    op.create_table(
        "pending",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("noise", sa.BigInteger, primary_key=True),
        sa.Column("ticks", sa.BigInteger, nullable=False),
        sa.Column("starts", sa.Text, nullable=False),
        sa.Column("groups", sa.Text, nullable=False),
        sa.Column("tilt", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "learning",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("windows", sa.BigInteger, nullable=False),
        sa.Column("lasting", sa.Text, nullable=False),
        sa.Column("hidden", sa.Float(53), nullable=False),
        sa.Column("contradictions", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "belief",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("q_low", sa.Float(53), nullable=False),
        sa.Column("q_high", sa.Float(53), nullable=False),
        sa.Column("r_low", sa.Float(53), nullable=False),
        sa.Column("r_high", sa.Float(53), nullable=False),
    )
    op.create_table(
        "statistic_k",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("block", sa.BigInteger, primary_key=True),
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("noise", sa.BigInteger, primary_key=True),
        sa.Column("ticks", sa.BigInteger, nullable=False),
        sa.Column("starts", sa.Text, nullable=False),
        sa.Column("counts", sa.Text, nullable=False),
        sa.Column("pairs", sa.Text, nullable=False),
        sa.Column("variance", sa.Float(53), nullable=False),
    )
    op.create_table(
        "belief_k",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("chains", sa.Text, nullable=False),
    )
    op.create_table(
        "release",
        sa.Column("entry", sequence, sa.ForeignKey("ledger.id"), primary_key=True),
        sa.Column("topic", sa.String(400), primary_key=True),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("sent", sa.Boolean, nullable=False),
    )
    op.create_table(
        "closed",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("window", sa.String(64), primary_key=True),
        sa.Column("scope", sa.String(64), primary_key=True),
        sa.Column("through", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "collected",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("window", sa.String(64), primary_key=True),
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("first", sa.BigInteger, primary_key=True),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "aggregate",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("topic", sa.String(400), nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("sent", sa.Boolean, nullable=False),
    )
