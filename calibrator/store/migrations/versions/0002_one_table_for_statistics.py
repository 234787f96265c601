"""One table for statistics and one for the learned Θ, whatever the number of states.

`statistic` and `statistic_k` become one `statistic`, whose lists are JSON; `belief` and `belief_k` become
`learned_theta`. In `learning`, `lasting` is now `persistent_shares` and `hidden` is `undetectable`. No number changes:
JSON holds every float exactly.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

BANDS = range(4)


def upgrade() -> None:
    db = op.get_bind()
    statistics = [*_binary_statistics(db), *_categorical_statistics(db)]
    thetas = [*_binary_thetas(db), *_categorical_thetas(db)]
    for table in ("statistic", "statistic_k", "belief", "belief_k"):
        op.drop_table(table)
    statistic = op.create_table(
        "statistic",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("block", sa.BigInteger, primary_key=True),
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("noise", sa.BigInteger, primary_key=True),
        sa.Column("ticks", sa.BigInteger, nullable=False),
        sa.Column("starts", sa.Text, nullable=False),
        sa.Column("groups", sa.Text, nullable=False),
        sa.Column("variance", sa.Float(53), nullable=False),
    )
    learned_theta = op.create_table(
        "learned_theta",
        sa.Column("stream", sa.String(64), primary_key=True),
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("theta", sa.Text, nullable=False),
    )
    op.bulk_insert(statistic, statistics)
    op.bulk_insert(learned_theta, thetas)
    with op.batch_alter_table("learning") as learning:
        learning.alter_column("lasting", new_column_name="persistent_shares")
        learning.alter_column("hidden", new_column_name="undetectable")


def _binary_statistics(db: sa.Connection) -> list[dict[str, object]]:
    """The ones, then the changes of each band."""
    names = [f"{name}_{band}" for name in ("starts", "changes") for band in BANDS]
    keys = ("stream", "block", "device", "noise", "ticks")
    old = sa.table("statistic", *map(sa.column, (*keys, "ones", *names, "variance")))
    return [
        {
            **{key: getattr(row, key) for key in keys},
            "starts": json.dumps([getattr(row, f"starts_{band}") for band in BANDS]),
            "groups": json.dumps([[row.ones], *([getattr(row, f"changes_{band}")] for band in BANDS)]),
            "variance": row.variance,
        }
        for row in db.execute(sa.select(old))
    ]


def _categorical_statistics(db: sa.Connection) -> list[dict[str, object]]:
    """The counts, then the pairs of each band, row after row of its matrix."""
    keys = ("stream", "block", "device", "noise", "ticks", "starts", "variance")
    old = sa.table("statistic_k", *map(sa.column, (*keys, "counts", "pairs")))
    return [
        {
            **{key: getattr(row, key) for key in keys},
            "groups": json.dumps(
                [
                    json.loads(row.counts),
                    *([count for line in band for count in line] for band in json.loads(row.pairs)),
                ]
            ),
        }
        for row in db.execute(sa.select(old))
    ]


def _binary_thetas(db: sa.Connection) -> list[dict[str, object]]:
    ends = ("q_low", "q_high", "r_low", "r_high")
    old = sa.table("belief", *map(sa.column, ("stream", "device", *ends)))
    return [
        {
            "stream": row.stream,
            "device": row.device,
            "theta": json.dumps({"q": [row.q_low, row.q_high], "r": [row.r_low, row.r_high]}),
        }
        for row in db.execute(sa.select(old))
    ]


def _categorical_thetas(db: sa.Connection) -> list[dict[str, object]]:
    old = sa.table("belief_k", *map(sa.column, ("stream", "device", "chains")))
    return [
        {"stream": row.stream, "device": row.device, "theta": row.chains}
        for row in db.execute(sa.select(old))
    ]
