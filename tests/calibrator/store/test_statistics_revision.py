"""Revision 0002: the statistics and the learned Θ of release 0.1 are the same numbers in one table each."""

from __future__ import annotations

import json

import numpy as np
from sqlalchemy import Row, create_engine, select, text

from hushmq.broker.contract.theta_message import theta_message
from hushmq.calibrator.learning.learned_theta import LearnedTheta, read_learned
from hushmq.calibrator.learning.learning_progress import Progress, read_progress
from hushmq.calibrator.models.binary_model import BINARY
from hushmq.calibrator.models.categorical_model import CATEGORICAL
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import open_store
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from tests.calibrator.conftest import Databases
from tests.calibrator.store import stored

POSTURE = "posture"
PAIRS = (7 * np.arange(4 * 9) - 50).reshape(4, 3, 3)
"""Charged noise may leave a count negative."""
VARIANCE = 0.1 + 0.2
HALF = CategoricalTheta.of(
    TransitionIntervals(((0.1, 0.1 + 0.2, 1 / 3),) * 3, ((0.5, 0.6, 2 / 3),) * 3),
)


def old_rows(url: str, table: str) -> list[Row[tuple[object, ...]]]:
    engine = create_engine(url)
    with engine.begin() as db:
        found = list(db.execute(text(f"SELECT * FROM {table}")).all())  # noqa: S608
    engine.dispose()
    return found


def add_more_states(url: str) -> None:
    """A stream of three states, as release 0.1 wrote its statistics and its learned Θ."""
    engine = create_engine(url)
    with engine.begin() as db:
        db.execute(
            text(
                "INSERT INTO statistic_k (stream, block, device, noise, ticks, starts, counts, pairs, variance) "
                "VALUES (:stream, 3, 'd0', 2, 60, '[59, 56, 47, 20]', '[-4, 30, 31]', :pairs, :variance)"
            ),
            {"stream": POSTURE, "pairs": json.dumps(PAIRS.tolist()), "variance": VARIANCE},
        )
        for device in ("", "d0"):
            db.execute(
                text("INSERT INTO belief_k (stream, device, chains) VALUES (:stream, :device, :chains)"),
                {
                    "stream": POSTURE,
                    "device": device,
                    "chains": theta_message(HALF).model_dump_json(),
                },
            )
    engine.dispose()


def test_no_number_changes(databases: Databases) -> None:
    """Every statistic, every Θ and the progress of every stream, of two states and of more, on both databases."""
    url = databases.fresh()
    stored.fill(url)
    add_more_states(url)
    statistics, beliefs, learning = (old_rows(url, name) for name in ("statistic", "belief", "learning"))
    more = old_rows(url, "statistic_k")
    assert statistics
    assert beliefs
    engine = open_store(url)
    with engine.begin() as db:
        found = {
            (row.stream, row.block, row.device, row.noise): row for row in db.execute(select(store.statistic))
        }
        assert len(found) == len(statistics) + len(more)
        for old in statistics:
            row = found[old.stream, old.block, old.device, old.noise]
            assert (row.ticks, row.variance) == (old.ticks, old.variance)
            assert json.loads(row.starts) == [getattr(old, f"starts_{band}") for band in range(4)]
            changes = [[getattr(old, f"changes_{band}")] for band in range(4)]
            assert json.loads(row.groups) == [[old.ones], *changes]
        for old in more:
            row = found[old.stream, old.block, old.device, old.noise]
            assert (row.ticks, row.variance, row.starts) == (old.ticks, old.variance, old.starts)
            pairs = np.array(json.loads(old.pairs))
            assert json.loads(row.groups) == [json.loads(old.counts), *pairs.reshape(4, -1).tolist()]
        row = found[POSTURE, 3, "d0", 2]
        assert (row.ticks, row.variance, json.loads(row.starts)) == (60, VARIANCE, [59, 56, 47, 20])
        assert json.loads(row.groups) == [[-4, 30, 31], *PAIRS.reshape(4, 9).tolist()]
        for stream in {old.stream for old in beliefs}:
            thetas = {
                old.device: BinaryTheta(old.q_low, old.q_high, old.r_low, old.r_high)
                for old in beliefs
                if old.stream == stream
            }
            whole = thetas.pop("", None)
            assert read_learned(db, stream, BINARY) == LearnedTheta(whole, thetas)
        assert read_learned(db, POSTURE, CATEGORICAL) == LearnedTheta(HALF, {"d0": HALF})
        for old in learning:
            shares = tuple(json.loads(old.lasting))
            assert read_progress(db, old.stream) == Progress(
                old.windows, shares, old.hidden, old.contradictions
            )
    engine.dispose()
