"""Files and texts from outside, changed at random: every reader of ours gives a value or one clear refusal.

Every module that parses is named here, so that a new one is either fuzzed or said to read what we wrote ourselves.
`make fuzz` runs it for longer.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from hushmq.agent.agent_config import Config as AgentConfig
from hushmq.agent.sources.parse_value import Reader, Unreadable
from hushmq.agent.storage import outbox_mark
from hushmq.agent.watch.raised_alarms import RaisedAlarms
from hushmq.broker.commands.policy_file import check_policy, read_policy, read_signed
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PublicKey
from hushmq.broker.provision.device_bundle import read_bundle
from hushmq.broker.provision.site_description import read as read_description
from hushmq.broker.service.settings_file import read_settings
from hushmq.calibrator.fleet_config import is_fleet
from hushmq.calibrator.ledger.high_water_mark import read_marks
from hushmq.capacity.unit_costs import published_costs, read_costs
from hushmq.commands.chain_file import read_chains
from hushmq.console.access.users_file import UsersFile, hash_password
from hushmq.console.activity.activity_log import read_log
from hushmq.plan.read_recording import read_recording
from hushmq.verify.export_file import read_export
from tests.calibrator.site import policy
from tests.mutations import JUNK, mutated, rounds

ROOT = Path(__file__).parents[2]
KEY = b64encode(b"o" * 32).decode()
AGENT = f"""device = "d0"
cohort = "home"
folder = "state"
[broker]
urls = ["mqtt://127.0.0.1:1"]
[trust]
ops_keys = ["{KEY}"]
calibrator_keys = ["{KEY}"]
epsilon_max = 4.0
[streams.motion.source]
kind = "simulate"
q = 0.1
r = 0.2
seed = 1
"""
SITE = 'cohort = "home"\nhosts = ["127.0.0.1"]\ndevices = ["d0", "d1"]\nsubscribers = ["app"]\n'
POLICY = json.dumps(policy().model_dump(mode="json"))
CHAINS = {"chains": [{"transition": [[0.9, 0.1], [0.2, 0.8]], "initial": [0.5, 0.5]}], "length": 10}
BUNDLE = {
    "kind": "hushmq-bundle", "v": 1, "device": "d0", "cohort": "home", "files": {"agent.toml": AGENT}
}  # fmt: skip
MARK = (
    b'{"motion": {"period_ms": 1000, "watermark": 3, "reserved": 9, "sampled": 3, "dropped": 0, "buffered": 1, '
    b'"waiting": [[3, 3]]}}'
)
LOG = {
    "number": 1,
    "at": "2026-01-01T00:00:00Z",
    "who": "ops",
    "kind": "push",
    "subject": "motion",
    "words": "once",
    "digest": "ab",
    "ledger": {"motion": [1, "a"]},
}


def _policy(path: Path) -> None:
    tree = read_policy(path)
    if read_signed(tree, path) is None:
        check_policy(tree, path, version=1)


def _value(path: Path) -> None:
    for reader in (Reader("number"), Reader("label"), Reader("json", "a.b"), Reader("json", where={"a": 1})):
        try:
            reader.read(path.read_bytes())
        except Unreadable:
            continue


def _marked(body: bytes) -> bytes:
    return b"1 %x\n%s\n" % (crc32(b"1 " + body), body)


def _recording(path: Path) -> None:
    for threshold in (None, 0.5):
        try:
            read_recording(path, None, None, threshold)
        except Problem:
            continue


def _key(path: Path) -> None:
    PublicKey.parse(path.read_bytes().decode(errors="replace"))


READERS: dict[str, tuple[str, bytes, Callable[[Path], object]]] = {
    "agent/sources/parse_value.py": ("value.txt", b'{"a": {"b": 1.5}}', _value),
    "agent/storage/outbox_mark.py": ("mark", _marked(MARK), outbox_mark._read),
    "agent/watch/raised_alarms.py": (
        "alarms.json",
        b'{"motion": {"digest": "ab", "stop_from": 3}}',
        lambda path: RaisedAlarms(path.parent),
    ),
    "broker/commands/policy_file.py": ("policy.json", POLICY.encode(), _policy),
    "broker/contract/signature.py": ("ops.key", KEY.encode(), _key),
    "broker/provision/device_bundle.py": ("d0.bundle", json.dumps(BUNDLE).encode(), read_bundle),
    "broker/provision/site_description.py": ("site.toml", SITE.encode(), read_description),
    "broker/service/settings_file.py": (
        "agent.toml",
        AGENT.encode(),
        lambda path: read_settings(path, AgentConfig, prefix="NO_", environment={}),
    ),
    "calibrator/fleet_config.py": ("fleet.toml", b'cohorts = ["a", "b"]\n', is_fleet),
    "calibrator/ledger/high_water_mark.py": (
        "marks.json",
        b'{"motion": {"entries": 3, "head": "ab"}}',
        read_marks,
    ),
    "console/access/users_file.py": ("users.json", b"", lambda path: UsersFile(path).users()),
    "console/activity/activity_log.py": (
        "log.jsonl",
        json.dumps(LOG).encode(),
        lambda path: list(read_log(path)),
    ),
    "hushmq/capacity/unit_costs.py": (
        "costs.json",
        json.dumps(published_costs().as_tree()).encode(),
        read_costs,
    ),
    "hushmq/commands/json_file.py": ("chains.json", json.dumps(CHAINS).encode(), read_chains),
    "hushmq/plan/read_recording.py": ("recording.csv", b"t,state\n" + b"1,on\n2,off\n" * 60, _recording),
    "hushmq/verify/export_file.py": (
        "export.json",
        b'{"export": 1, "policies": [], "settings": [], "keys": {"ops": [], "calibrator": ""}}',
        read_export,
    ),
}
"""By module: a file's name, a right one, and who reads it."""

ELSEWHERE = {
    "messages of topics: tests/agent/test_fuzz.py, tests/calibrator/test_fuzz.py and test_fuzz_readers.py": """
        agent/accept_settings.py agent/daemon.py broker/commands/rollout.py broker/commands/watch_command.py
        broker/contract/messages.py broker/contract/packing.py calibrator/ingest/count_batches.py
        calibrator/ingest/receive.py
        calibrator/policy/follow_policy.py calibrator/windows/collect_device_windows.py console/state/live_site.py
        hushmq/api/release_reader.py hushmq/demo/audience.py calibrator/ledger/reconcile_ledger.py
        broker/contract/release_smoothing.py calibrator/windows/stored_releases.py console/background/upload_job.py
        calibrator/commands/reconcile_command.py""",
    "trees that a reader of this list has parsed": """
        console/state/plan_choice.py
        hushmq/verify/exported_epochs.py
        hushmq/verify/pricings.py hushmq/verify/check_reconciled.py hushmq/verify/signed_text.py""",
    "archives, whose digests the ledger has": "calibrator/ledger/archive_file.py hushmq/verify/check_archives.py",
    "what we stored ourselves, in a database or over a pipe": """
        hushmq/capacity/measure_windows.py hushmq/setup/up_command.py
        agent/status_socket.py calibrator/roster/left_out.py calibrator/ledger/verify_ledger.py
        calibrator/ledger/policy_epochs.py calibrator/ledger/ledger_export.py calibrator/settings/stored_settings.py
        calibrator/models/choose_model.py calibrator/windows/answer_queries.py calibrator/learning/learned_theta.py
        calibrator/learning/pending_statistics.py calibrator/learning/charged_statistics.py
        calibrator/learning/learning_progress.py calibrator/store/migrations/versions/0002_one_table_for_statistics.py
        console/background/ledger_worker.py console/background/jobs.py console/daemon.py
        console/store/release_groups.py console/store/release_series.py console/pages/releases_page.py
        console/pages/promise_page.py hushmq/audit/audit_command.py""",
}
PARSES = re.compile(
    r"validate_json\(|from_json\(|json\.loads?\(|tomllib\.loads?\(|csv\.reader|b64decode\(|(?<![.\w])(?:decode|unpack)\("
)


def right(name: str) -> bytes:
    """A right file; one with a password is made when it is needed."""
    if name == "console/access/users_file.py":
        users = {"users": {"ops": {"role": "operator", "password": hash_password("x" * 20)}}}
        return json.dumps(users).encode()
    return READERS[name][1]


@pytest.mark.parametrize("name", READERS)
def test_a_changed_file_is_read_or_refused(name: str, tmp_path: Path) -> None:
    """With Problem in one line, or ValueError where the caller makes one of it; no other exception."""
    file, _, read = READERS[name]
    path, sample = tmp_path / file, right(name)
    said = []
    for rng in rounds(8):
        for payload in (*JUNK, *(mutated(sample, rng) for _ in range(20))):
            path.write_bytes(payload)
            path.chmod(0o600)
            try:
                read(path)
            except Problem as problem:
                said.append(str(problem))
            except ValueError:
                continue
    assert not [one for one in said if "\n" in one]


@pytest.mark.parametrize("name", READERS)
def test_a_right_file_is_read(name: str, tmp_path: Path) -> None:
    """So that the fuzzer begins with what a reader takes."""
    file, _, read = READERS[name]
    path = tmp_path / file
    path.write_bytes(right(name))
    path.chmod(0o600)
    read(path)


def test_every_parser_is_named() -> None:
    """A module that parses is fuzzed here or elsewhere, or reads what we stored; a name that parses no more goes."""
    named = set(READERS).union(*(each.split() for each in ELSEWHERE.values()))
    folders = ("agent", "broker", "calibrator", "console", "hushmq", "pufferfish")
    found = {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if PARSES.search(path.read_text(encoding="utf-8"))
    }
    assert found - named == set()
    assert named - found == set()
