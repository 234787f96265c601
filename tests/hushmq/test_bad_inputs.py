"""Bad input to any command: one line that names what is wrong, exit code 2, and no traceback."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hushmq.__main__ import COMMANDS, main
from hushmq.documents.command_tree import subcommands, whole_parser

POLICY = """
cohort = "home"
[streams.motion]
states = ["still", "moving"]
period_ms = 500
discretiser = { kind = "threshold", at = 0.5 }
epsilon = { operator = 4.0, public = 2.0 }
windows = { hour = { ticks = 7200 } }
theta.start = { q = { low = 0.05, high = 0.45 }, r = { low = 0.05, high = 0.45 } }
theta.floor = { q = { low = 0.1, high = 0.2 }, r = { low = 0.1, high = 0.2 } }
"""
HERE = Path("/dev/null/x")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site, and files that are wrong in one way each."""
    folder = tmp_path_factory.mktemp("bad")
    assert main(["init", str(folder / "home"), "--yes", "--listen", "127.0.0.1", "--port", "1"]) == 0
    home = folder / "home"
    (folder / "text").write_text("no settings\n")
    (folder / "empty").write_text("")
    (folder / "bytes").write_bytes(b"\xff\xfe\x00")
    (folder / "list.json").write_text("[]")
    (folder / "open.key").write_text((home / "ops" / "ops.key").read_text())
    (folder / "open.key").chmod(0o644)
    (folder / "short.key").write_text("abc\n")
    (folder / "short.key").chmod(0o600)
    (folder / "nothing.password").write_text("")
    (folder / "nothing.password").chmod(0o600)
    (folder / "policy.toml").write_text(POLICY)
    for name, (old, new) in POLICIES.items():
        assert old in POLICY, old
        (folder / f"{name}.toml").write_text(POLICY.replace(old, new, 1))
    settings = (home / "calibrator.toml").read_text()
    for name, (old, new) in CALIBRATORS.items():
        assert old in settings, old
        (home / f"{name}.toml").write_text(settings.replace(old, new, 1))
    assert main(["device", "add", str(home), "ring", "--source", "simulate", "--here"]) == 0
    agent = (home / "here" / "ring" / "agent.toml").read_text()
    for name, (old, new) in AGENTS.items():
        assert old in agent, old
        (home / "here" / "ring" / f"{name}.toml").write_text(agent.replace(old, new, 1))
    (folder / "chain.json").write_text(json.dumps({"transition": [[0.5, 0.6], [0.5, 0.5]]}))
    return folder


POLICIES = {
    "unnamed": ('["still", "moving"]', '["", "moving"]'),
    "two-lines": ('["still", "moving"]', '["a\\nb", "moving"]'),
    "twice": ('["still", "moving"]', '["still", "still"]'),
    "one-state": ('["still", "moving"]', '["still"]'),
    "periode": ("period_ms", "periode_ms"),
    "no-period": ("period_ms = 500", ""),
    "period-0": ("period_ms = 500", "period_ms = 0"),
    "nan": ("operator = 4.0", "operator = nan"),
    "inf": ("at = 0.5", "at = inf"),
    "epsilon-30": ("operator = 4.0", "operator = 30.0"),
    "epsilon-0": ("public = 2.0", "public = 0.0"),
    "endless": ("ticks = 7200", "ticks = 1000000000000"),
    "no-ticks": ("ticks = 7200", "ticks = 0"),
    "half-ticks": ("ticks = 7200", "ticks = 0.5"),
    "narrow-start": ("low = 0.05, high = 0.45 }, r", "low = 0.15, high = 0.45 }, r"),
    "upside-down": ("low = 0.05, high = 0.45 }, r", "low = 0.5, high = 0.45 }, r"),
    "no-cohort": ('cohort = "home"', ""),
    "bad-cohort": ('cohort = "home"', 'cohort = "a/b"'),
    "bad-stream": ("streams.motion", 'streams."a b"'),
    "bad-kind": ('"threshold"', '"oracle"'),
    "unknown": ("period_ms", "colour = 1\nperiod_ms"),
    "adversary": ("period_ms", 'adversary = "nobody"\nperiod_ms'),
    "stand-in": ("period_ms", 'stand_in = "running"\nperiod_ms'),
    "version-0": ('cohort = "home"', 'version = 0\ncohort = "home"'),
    "no-toml": ('cohort = "home"', "cohort ="),
}
CALIBRATORS = {
    "mongo": ("sqlite:///calibrator/ledger.db", "mongodb:///x"),
    "no-url": ("sqlite:///calibrator/ledger.db", "ledger.db"),
    "grace": ("grace_s = 20.0", "grace_s = -1"),
    "graze": ("grace_s = 20.0", "graze_s = 1"),
    "grace-nan": ("grace_s = 20.0", "grace_s = nan"),
    "key": ("calibrator.key", "none.key"),
    "ops": ('ops_keys = ["', 'ops_keys = ["x", "'),
    "url": ("mqtts://127.0.0.1", "http://127.0.0.1"),
    "name": ("mqtts://127.0.0.1:1", "mqtts://nowhere.invalid:1"),
    "password": ("passwords/calibrator", "passwords/none"),
    "ca": ("authority/ca.pem", "site.toml"),
}
AGENTS = {
    "device": ('device = "ring"', 'device = "a b"'),
    "folder": ('folder = "data"', ""),
    "kind": ('kind = "simulate"', 'kind = "oracle"'),
    "q": ("q = 0.2", "q = 1.2"),
    "trust": ("epsilon_max = 4.0", "epsilon_max = 40.0"),
    "typo": ("epsilon_max", "epsilon_mux"),
    "secret": ('password_file = "password"', 'password_file = "absent"'),
    "urls": ("urls = [", 'urls = ["mqtt://a:b:c", '),
}
B = "--broker mqtt://127.0.0.1:1"
BAD = [
    "nonsense", "", "--nonsense", "agent", "agent fly", "broker", "keys", "calibrator", "ledger", "device", "policy",
    "releases", "console", "completion nonsense",
    *(f"push {{dir}}/{name}.toml --key {{home}}/ops/ops.key {B} --yes" for name in POLICIES),
    f"push {{dir}}/policy.toml {B} --yes",
    f"push {{dir}}/policy.toml --key {{dir}}/open.key {B} --yes",
    f"push {{dir}}/policy.toml --key {{dir}}/short.key {B} --yes",
    f"push {{dir}}/policy.toml --key {{dir}}/none.key {B} --yes",
    "push {dir}/policy.toml --key {home}/ops/ops.key --yes",
    f"push {{dir}}/none.toml --key {{home}}/ops/ops.key {B} --yes",
    f"push {{dir}}/bytes --key {{home}}/ops/ops.key {B} --yes",
    f"push {{dir}}/list.json --key {{home}}/ops/ops.key {B} --yes",
    f"push {{dir}}/policy.toml --key {{home}}/ops/ops.key {B} --yes --timeout -1",
    "push {dir}/policy.toml --key {home}/ops/ops.key --broker http://x --yes",
    "push {dir}/policy.toml --key {home}/ops/ops.key --broker mqtt://a:b@c --yes",
    "push {dir}/policy.toml --key {home}/ops/ops.key --broker mqtt://x:0 --yes",
    f"push {{dir}}/policy.toml --key {{home}}/ops/ops.key {B} --password-file {{dir}}/nothing.password --yes",
    f"push {{dir}}/policy.toml --key {{home}}/ops/ops.key {B} --password-file {{dir}}/none --yes",
    f"push {{dir}}/policy.toml --site {{home}} {B} --yes",
    "push {dir}/policy.toml --site {dir}/none --yes",
    "policy sign {dir}/policy.toml --key {home}/ops/ops.key --out {dir}/s.json",
    "policy sign {dir}/nan.toml --key {home}/ops/ops.key --version 1 --out {dir}/s.json",
    "policy sign {dir}/policy.toml --key {dir}/short.key --version 1 --out {dir}/s.json",
    "policy sign {dir}/policy.toml --key {home}/ops/ops.key --version 0 --out {dir}/s.json",
    "policy sign {dir}/policy.toml --key {home}/ops/ops.key --version 1 --out /dev/null/x",
    *(f"calibrator check-config --config {{home}}/{name}.toml" for name in CALIBRATORS),
    "calibrator check-config --config {dir}/none.toml",
    "calibrator check-config --config {dir}/text",
    "calibrator check-config --config {dir}/empty",
    "calibrator check-config --config {dir}/bytes",
    "calibrator check-config --config {dir}",
    *(f"agent check-config --config {{home}}/here/ring/{name}.toml" for name in AGENTS),
    "agent check-config --config {dir}/none.toml",
    "agent check-config --config {dir}/bytes",
    "agent run --config {dir}/empty",
    "fleet", "fleet show", "fleet show --config {dir}/none.toml", "fleet show --config {dir}/text",
    "fleet show --config {home}/calibrator.toml", "fleet verify --config {dir}/empty", "fleet add --config {dir}/empty",
    "agent status",
    "agent enroll {dir}/none.bundle",
    "agent enroll {dir}/text",
    "agent enroll {dir}",
    "broker init --site {dir}/text --cohort home --host a",
    "broker init --site {dir}/new --cohort Home --host a",
    "broker init --site {dir}/new --cohort home",
    "broker init --site {dir}/new --cohort home --host a --port 0",
    "broker init --site {dir}/new --cohort home --host a --port x",
    "broker init --site {dir}/new --cohort home --host a --no-tls",
    "broker init --site {dir}/new --cohort home --node a",
    "broker init --site {home} --cohort home --host a",
    "broker run --site {dir}/none",
    "broker run --site {dir}/text",
    "broker show --site {dir}/none",
    "broker hand-out --site {home} nobody --out {dir}/out",
    "broker renew --site {home} ops --out {dir}/out",
    "broker revoke --site {home} nobody",
    "broker add-device --site {home} ops --out {dir}/out",
    "broker config oracle --site {home} --out {dir}/out",
    "keys new {dir}/open.key",
    "keys new /dev/null/x",
    "keys show {dir}/none.key",
    "keys show {dir}/short.key",
    "keys show {dir}/open.key",
    f"watch {B}",
    f"watch --cohort A {B}",
    f"watch --cohort home {B} --seconds 0",
    f"watch --cohort home {B} --only everything",
    "watch --site {dir}/none",
    "init {home} --yes",
    "init {dir}/text --yes",
    "init {dir}/new",
    "up {dir}/none",
    "up {dir}/text",
    "up {home} --print oracle",
    "up {home} --user me",
    "device add {home} new",
    "device add {home} new --source oracle",
    "device add {dir}/none new --source stdin",
    "device list {dir}/none",
    "device revoke {home} nobody",
    "device forget {home} ring",
    "device forget {dir}/none ring --yes",
    "device forget {home} ops --yes",
    "device forget {home} A --yes",
    "releases plot {home}",
    "releases export {dir}/none",
    "releases export {home} --format xml",
    "releases export mongodb:///x",
    "ledger show --database sqlite:////none/at/all.db",
    "ledger show --database mongodb:///x",
    "ledger show --database nonsense",
    "ledger show --config {dir}/none.toml",
    "ledger plot --database sqlite:////none/at/all.db",
    "ledger verify --database oracle9://x",
    "ledger export --database sqlite:////none.db --format bundle",
    "ledger price {dir}/none.json",
    "ledger price {dir}/list.json",
    "ledger price {dir}/text",
    "calibrate --q 0.1 --r 0.2",
    "calibrate --q 2 --r 0.2 --epsilon 1",
    "calibrate --q x --r 0.2 --epsilon 1",
    "calibrate --q 0.1 --epsilon 1",
    "calibrate --q 0.1 --r 0.2 --epsilon 0",
    "calibrate --q 0.1 --r 0.2 --epsilon nan",
    "calibrate --q 0.1 --r 0.2 --epsilon 1 --stride 0",
    "calibrate --q 0.1 --r 0.2 --epsilon 1 --adversary god",
    "calibrate --regimes {dir}/none.json --epsilon 1",
    "calibrate --regimes {dir}/list.json --epsilon 1",
    "price --q 0.1 --r 0.2 --rho0 0.7 --rho1 0.7",
    "price --q 0.1 --r 0.2 --rho0 0 --rho1 0.1",
    "price --q 0.1 --r 0.2",
    "scale --chain {dir}/none.json --epsilon 1",
    "scale --chain {dir}/chain.json --epsilon 1 --ticks 10",
    "verify {dir}/none.json",
    "verify {dir}/list.json",
    "audit --config {dir}/none.toml",
    "audit",
    "plan --window day=24h",
    "plan --lasting 1h,2h",
    "plan --lasting soon,2h --window day=24h",
    "plan --recording {dir}/text --every 1s --window day=24h",
    "plan --recording {dir}/bytes --every 1s --window day=24h",
    "demo --seconds 1",
    "demo --agents 1",
    "demo --port 0",
    "demo --epsilon nan",
    "demo --ca x",
    "explain nonsense",
    "calibrator readmit --config {home}/calibrator.toml --stream a --device b",
    "calibrator upgrade --database mongodb:///x",
    "console run", "console run --config {dir}/none.toml", "console run --config {dir}/bytes", "console fly",
    "console user",
    "console init --calibrator {dir}/none.toml --out {dir}/new", "console user add ann --config {dir}/none.toml",
    "console user add ann --config {home}/console.toml --role king",
    "console user remove nobody --config {dir}/none.toml",
    "console user list --config {dir}/text", "console verify-log --config {dir}/none.toml",
    "capacity", "capacity --devices 0", "capacity --devices x", "capacity --devices 10 --policy {dir}/none.toml",
    "capacity --devices 10 --window soon", "capacity --devices 10 --costs {dir}/text", "ledger archive",
    "ledger archive --config {dir}/none.toml --out {dir}/new --keep-days 7",
    "ledger archive --config {home}/calibrator.toml --out {dir}/new --keep-days -1",
    "fleet add a --config {dir}/none.toml", "fleet verify --config {dir}/none.toml",
    "device fly {home}", "device add {home} A --source stdin", "device add {home} new --source serial=",
    "device add {home} new --source mqtt=http://x/y", "device list {dir}/text", "device revoke {dir}/none x",
    "verify {dir}/text", "verify {dir}/bytes", "verify {dir}", "verify {dir}/none.json --nonsense",
    "audit --config {dir}/text", "audit --q 2 --r 0.1 --rho0 0.1 --rho1 0.1",
    "releases plot {dir}/none", "releases plot {home} --output x.pdf", "releases export sqlite:////none/at/all.db",
    "capacity --devices 5 --policy {dir}/text",
    "ledger disclose --database sqlite:////none.db", "ledger reconcile", "ledger plot --config {dir}/text",
    "calibrator run --config {dir}/none.toml", "agent status --config {dir}/none.toml",
    "policy sign {dir}/none.toml --key {home}/ops/ops.key --version 1 --out {dir}/s.json",
    "explain loss --q 2 --r 1", "explain timeline {dir}/none.json", "explain scale {dir}/list.json", "explain stride",
    "explain loss --q 0.1 --r 0.1 --output /none/x.svg",
    "plan --lasting 1h,2h --window day=24h --devices 0", "plan --lasting 1h,2h --window day=24h --error 0",
    "plan --lasting 1h,2h,3h --window day=24h", "plan --lasting 1h,2h --window day",
    "plan --lasting 1h,2h --window day=24h --write /none/x",
]  # fmt: skip


def test_there_are_enough_and_of_every_command() -> None:
    """200 bad inputs at least, and no command or action without one, but the evaluation, another distribution."""
    assert len(set(BAD)) >= 200
    assert {words.split()[0] for words in BAD if words} >= set(COMMANDS) - {"evaluate"}
    tried = {tuple(words.split()[:2]) for words in BAD}
    for command, _, below in subcommands(whole_parser()):
        actions = {(command, action) for action, _, _ in subcommands(below)}
        assert command == "evaluate" or actions <= tried, actions - tried


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_told_in_one_line(made: Path, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and one line on standard error that says something."""
    line = words.format(dir=made, home=made / "home").split()
    code = main(line)
    shutil.rmtree(made / "new", ignore_errors=True)
    printed = capsys.readouterr()
    assert (code, printed.err.count("\n")) == (2, 1), printed.err
    assert printed.err.startswith("hushmq: ")
    assert len(printed.err) > len("hushmq: ") + 8
    assert "Traceback" not in printed.err


def test_a_misspelt_setting_is_named_and_not_the_one_that_is_missing(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what was meant."""
    assert main(["push", f"{made}/periode.toml", "--site", f"{made}/home", "--yes"]) == 2
    assert (
        "streams.motion.periode_ms: there is no such setting; did you mean period_ms?"
        in capsys.readouterr().err
    )
