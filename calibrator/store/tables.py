"""The calibrator's tables."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()

# SQLite gives rowids, and so sequence numbers, only to columns declared INTEGER.
Sequence = BigInteger().with_variant(Integer, "sqlite")

policy = Table(
    "policy",
    metadata,
    Column("version", BigInteger, primary_key=True),
    Column("payload", LargeBinary, nullable=False),
)

superseded_policy = Table(
    "superseded_policy",
    metadata,
    Column("version", BigInteger, primary_key=True),
    Column("until", String(32), nullable=False),
    Column("payload", LargeBinary, nullable=False),
)
"""Policies that were followed `until` a newer one was: what was charged and issued then is checked against them."""

setting = Table(
    "setting",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("version", BigInteger, primary_key=True),
    Column("policy", BigInteger, nullable=False),
    Column("device", String(64), nullable=True),
    Column("issued", BigInteger, nullable=False, server_default="0"),
    Column("noise", Text, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)
"""Every setting ever made. `device` is None for the cohort's; no tick before `issued` can carry its noise, which is
written by `Noise.as_json` (pufferfish/protocols.py)."""

LONGEST_BATCH = 65_536
"""Ticks in a batch at most: how far before a tick a row that holds it can begin."""

batch = Table(
    "batch",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("stream", String(64), primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("last", BigInteger, nullable=False),
    Column("noise", BigInteger, nullable=False),
    Column("states", LargeBinary, nullable=False),
    Index("batch_of_stream", "stream", "first"),
)
"""Counted sanitized states, one byte each; pruned once every window over them has closed."""

filled = Table(
    "filled",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("stream", String(64), primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("last", BigInteger, nullable=False),
    Column("noise", BigInteger, nullable=False),
    Column("states", LargeBinary, nullable=False),
    Index("filled_of_stream", "stream", "first"),
)
"""Perturbed stand-ins for ticks that had not arrived when a window over them closed. They count in every later window
over the same ticks too, whatever arrives by then: one tick, one draw. Pruned with `batch`."""

roster = Table(
    "roster",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("device", String(64), primary_key=True),
    Column("since", BigInteger, primary_key=True),
    Column("until", BigInteger, nullable=True),
    Column("admitted", BigInteger, nullable=False),
    Column("left_out", String(64), nullable=True),
    Column("region", Text, nullable=True),
)
"""Whose ticks a window counts: of the devices with since ≤ its first tick < until. `admitted` is the number of the
shortest window in which the device was admitted. A device that is `left_out`, for the reason that stands there, is in
no window that closes from then on; `region` is what its charged statistics say of its chain (`Theta.as_tree`)."""

accounted = Table(
    "accounted",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("stream", String(64), primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("last", BigInteger, nullable=False),
)
"""Runs of ticks that are counted or known to be gaps. What lies between two runs is a hole."""

tally = Table(
    "tally",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("stream", String(64), primary_key=True),
    Column("counted", BigInteger, nullable=False),
    Column("late", BigInteger, nullable=False),
)

extent = Table(
    "extent",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("noise", BigInteger, primary_key=True),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
)
"""The ticks at which any device used a noise version: the operator's timeline."""

quarantine = Table(
    "quarantine",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("reason", String(32), nullable=False),
    Column("strikes", BigInteger, nullable=False),
    Column("until", Float(53), nullable=False),
)
"""Devices that misbehaved: how often, why last, and until when (seconds since the epoch) they are quarantined."""

device_tilt = Table(
    "device_tilt",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("policy", BigInteger, primary_key=True),
    Column("tilt", BigInteger, nullable=False),
)
"""What device-made windows cost at every tick under each policy ever followed, in nano-nats rounded up."""

stream_share = Table(
    "stream_share",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("policy", BigInteger, primary_key=True),
    Column("tick", BigInteger, nullable=False),
    Column("share", Float(53), nullable=False),
)
"""The share of its account's tilt that a stream may use under each policy followed, and the tick from which on."""

ledger = Table(
    "ledger",
    metadata,
    Column("id", Sequence, primary_key=True, autoincrement=True),
    Column("stream", String(64), nullable=False),
    Column("window", String(64), nullable=False),
    Column("scope", String(64), nullable=False, server_default="cohort"),
    Column("audience", String(16), nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("tilt", BigInteger, nullable=False),
    Column("noise", BigInteger, nullable=False),
    Column("noise_digest", String(32), nullable=False),
    Column("why", String(64), nullable=False),
    Column("at", String(32), nullable=False),
    Column("digest", String(64), nullable=False),
    Index("ledger_of_stream", "stream", "id"),
    sqlite_autoincrement=True,
)
"""Append-only. `tilt` is what the entry costs on the sanitized states of each member, in nano-nats rounded up. `noise`
is the version of the setting with the least noise any of those states can carry, for the sum of the tilts of a tick,
through which that sum is amplified when the ledger is priced; `noise_digest` stands for that noise itself. `digest`
covers the entry and the one before it (calibrator/ledger/high_water_mark.py)."""

reconciled = Table(
    "reconciled",
    metadata,
    Column("entry", Sequence, ForeignKey("ledger.id"), primary_key=True),
    Column("stream", String(64), nullable=False),
    Column("after", BigInteger, nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)
"""What ops signed so that a ledger restored from an old backup may be charged again (calibrator/ledger/
reconcile_ledger.py). `entry` is the first of the entries that charge it; numbers of entries go on there from `after`
to above `entries`, so that no number stands for a lost entry and for another one."""

epoch = Table(
    "epoch",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("first", BigInteger, nullable=False),
    Column("reason", String(16), nullable=False),
    Column("policy", BigInteger, nullable=False),
    Column("ops", BigInteger, nullable=False),
    Column("meaning", String(32), nullable=False),
    Column("settings", BigInteger, nullable=False),
    Column("ended_theta", Text, nullable=True),
    Column("entry", Sequence, ForeignKey("ledger.id"), nullable=True),
)
"""The epochs of a stream (calibrator/ledger/epochs.py): `first` is the first tick; `policy` the version of the policy
under which it began, `ops` the number that ops gave it there; `settings` the highest version of a setting issued before
it. `ended_theta`, as JSON, prices the ticks of the epoch before it. `entry` is the ledger entry of tilt 0 whose
`noise_digest` seals all of this; the first epoch has neither."""

statistic = Table(
    "statistic",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("block", BigInteger, primary_key=True),
    Column("device", String(64), primary_key=True),
    Column("noise", BigInteger, primary_key=True),
    Column("ticks", BigInteger, nullable=False),
    Column("starts", Text, nullable=False),
    Column("groups", Text, nullable=False),
    Column("variance", Float(53), nullable=False),
)
"""Statistics that may be learned from, summed over the draws of a block (calibrator/learning/charged_statistics.py):
`groups` carry charged noise, on the first group of the stated `variance`; `ticks` and `starts` are no secret. Lists of
whole numbers are JSON; what they hold is the chain model's (calibrator/models/sufficient_statistics.py)."""

pending = Table(
    "pending",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("device", String(64), primary_key=True),
    Column("noise", BigInteger, primary_key=True),
    Column("ticks", BigInteger, nullable=False),
    Column("starts", Text, nullable=False),
    Column("groups", Text, nullable=False),
    Column("tilt", BigInteger, nullable=False),
)
"""Exact sums of windows that are charged and whose noise is not drawn yet (calibrator/learning/pending_statistics.py);
`tilt` is the least that any of them was charged for it. Lists are JSON. As secret as the states in `batch`, of which
they are sums."""

learning = Table(
    "learning",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("windows", BigInteger, nullable=False),
    Column("persistent_shares", Text, nullable=False),
    Column("undetectable", Float(53), nullable=False),
    Column("contradictions", BigInteger, nullable=False),
)
"""Per stream: windows since the last restart, the misfit at the last theta update, and contradictions so far
(calibrator/learning/learning_progress.py). Lists are JSON."""

learned_theta = Table(
    "learned_theta",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("device", String(64), primary_key=True),
    Column("theta", Text, nullable=False),
)
"""The intersection of all theta updates since the last restart, as JSON (`Theta.as_tree`): of one device or, with an
empty name, of any device of the cohort."""

release = Table(
    "release",
    metadata,
    Column("entry", Sequence, ForeignKey("ledger.id"), primary_key=True),
    Column("topic", String(400), primary_key=True),
    Column("payload", LargeBinary, nullable=False),
    Column("sent", Boolean, nullable=False),
    Index("release_of_topic", "topic", "entry"),
)
"""The bytes to publish, and whether the broker has acknowledged them. The newest of a window are kept, since smoothed
frequencies use them; older ones can be moved to an archive."""

archive = Table(
    "archive",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", String(32), nullable=False),
    Column("releases", BigInteger, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("seal", String(128), nullable=False),
)
"""Files of releases that were moved out of `release` (calibrator/ledger/archive_releases.py): how many, of the entries
`first` to `last`; `digest` covers the file and the digest of the one before it, `seal` is the calibrator's over it."""

closed = Table(
    "closed",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("window", String(64), primary_key=True),
    Column("scope", String(64), primary_key=True),
    Column("through", BigInteger, nullable=False),
)
"""The last tick through which a window's tumbling sequence has been closed."""

DEVICES = "devices"
"""The scope under which `closed` says how far the releases that devices make have been added up."""

collected = Table(
    "collected",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("window", String(64), primary_key=True),
    Column("device", String(64), primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("payload", LargeBinary, nullable=False),
)
"""Releases that devices made, until they are added up, and each device's newest."""

aggregate = Table(
    "aggregate",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("topic", String(400), nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("sent", Boolean, nullable=False),
)
"""Sums of what devices released: the bytes to publish, and whether the broker has acknowledged them."""
