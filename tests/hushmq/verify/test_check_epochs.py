"""Exports of streams with more than one epoch: what is true holds, and each thing that is false is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hushmq.verify.claims import Verdict
from hushmq.verify.signed_text import canonical
from tests.calibrator import test_joined_streams as joined
from tests.calibrator.ledger.test_epochs import OTHER, learn, until_contradicted
from tests.calibrator.moving_cohort import FAST, SLOW, MovingCohort, moving_policy
from tests.calibrator.settings.test_device_settings import QUICK, believe
from tests.calibrator.site import CALIBRATOR, STREAM, desk, sqlite
from tests.hushmq.verify.exported import (
    WIDE,
    Tree,
    changed,
    checked,
    device_window,
    exported,
    faults,
    sealed_again,
    stream_of,
    wide_policy,
)

Change = Callable[[Tree], None]


def with_a_changed_meaning(folder: Path, adversary: str) -> Tree:
    """A window under a narrow Θ, then a policy with another threshold, and windows under that."""
    with desk(sqlite(folder)) as here:
        moving = MovingCohort(here)
        moving.follow(moving_policy(adversary=adversary))
        with here.engine.begin() as db:
            learn(db)
        moving.window(FAST)
        moving.follow(moving_policy(2, discretiser=OTHER, adversary=adversary))
        for _ in range(3):
            moving.window(SLOW)
        return exported(here)


def with_a_contradiction(folder: Path, adversary: str) -> Tree:
    """A fast chain is learned and becomes slow; the stream goes on in a second epoch."""
    with desk(sqlite(folder)) as here:
        moving = MovingCohort(here)
        until_contradicted(moving, adversary=adversary)
        for _ in range(3):
            assert moving.window(SLOW).charge is not None
        return exported(here)


@pytest.fixture(scope="module")
def changed_meaning(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return with_a_changed_meaning(tmp_path_factory.mktemp("meaning"), "prior")


@pytest.fixture(scope="module")
def contradiction(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return with_a_contradiction(tmp_path_factory.mktemp("contradiction"), "prior")


@pytest.mark.parametrize("adversary", ["prior", "informed"])
def test_a_changed_meaning_holds(tmp_path: Path, adversary: str) -> None:
    """Both epochs are within the budget, for both audiences, with what the other one tells."""
    tree = with_a_changed_meaning(tmp_path, adversary)
    claims = checked(tree, tmp_path)
    assert faults(claims) == {}
    losses = {one.about: one for one in claims if one.recomputed is not None and one.budget is not None}
    for about in ("motion: public", "motion: operator"):
        for name in (about, f"{about}, epoch 1"):
            low, high = losses[name].recomputed or (0, 0)
            assert 0.7 * (losses[name].budget or 0) < low <= high <= (losses[name].budget or 0)


@pytest.mark.parametrize("adversary", ["prior", "informed"])
def test_a_contradiction_holds_as_it_is_stated(tmp_path: Path, adversary: str) -> None:
    """The first epoch has lost more than the budget, and says so; the second keeps it."""
    claims = checked(with_a_contradiction(tmp_path, adversary), tmp_path)
    assert faults(claims) == {}
    broken = {one.about: one for one in claims if "which is said" in one.detail}
    assert broken.keys() == {"motion: public, epoch 1", "motion: operator, epoch 1"}
    assert all(float((one.recomputed or (0, 0))[0]) > 4 for one in broken.values())
    assert float((broken["motion: operator, epoch 1"].recomputed or (0, 0))[0]) > 8


def test_streams_that_share_an_account(tmp_path: Path) -> None:
    """One stream gets another meaning: the account begins an epoch, and both tell of the ticks of both epochs."""
    names = ("motion", "door")
    with desk(sqlite(tmp_path)) as here:
        first = joined.policy(names)
        here.adopt(first)
        joined.window(here, names, 0)
        here.cohort.close_due()
        door = first.streams["door"].model_copy(update={"discretiser": OTHER})
        here.adopt(first.model_copy(update={"version": 2, "streams": dict(first.streams) | {"door": door}}))
        for number in range(1, 5):
            joined.window(here, names, number)
            here.cohort.close_due()
        tree = exported(here)
    assert [len(tree["streams"][name]["epochs"]) for name in names] == [2, 2]
    claims = checked(tree, tmp_path)
    assert faults(claims) == {}
    assert {one.about for one in claims if "epoch 1" in one.about} == {
        f"{name}: {audience}, epoch 1" for name in names for audience in ("operator", "public")
    }
    for audience in ("operator", "public"):
        assert_found(tree, tmp_path, _states_less(audience), f"motion: {audience}, epoch 1", "what is stated")


def test_a_stream_that_comes_back_with_another_meaning(tmp_path: Path) -> None:
    """While it was gone there was another stream, which never released anything: both are in the export."""
    with desk(sqlite(tmp_path)) as here:
        moving = MovingCohort(here)
        moving.follow(moving_policy())
        moving.window(FAST)
        without = moving_policy(2)
        moving.follow(without.model_copy(update={"streams": {"other": without.streams[STREAM]}}))
        here.cohort.calibrate()
        moving.follow(moving_policy(3, discretiser=OTHER))
        tree = exported(here)
    assert tree["streams"].keys() == {STREAM, "other"}
    assert [one["reason"] for one in _epochs(tree)] == ["first", "meaning"]
    assert faults(checked(tree, tmp_path)) == {}


def test_device_specific_settings_of_an_ended_epoch(tmp_path: Path) -> None:
    """What device-specific settings lost is stated, and also that it puts the next epoch over its budget."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(wide_policy())
        believe(here, {"": WIDE, "d0": QUICK})
        here.cohort.calibrate()
        version = here.cohort.calibrate_devices().in_force[STREAM]["d0"].message.version
        device_window(here, 0, {"d0": version, "d1": 1, "d2": 1})
        here.adopt(wide_policy(epoch=2).model_copy(update={"version": 2}))
        tree = exported(here)
    found = faults(checked(tree, tmp_path))
    assert found == {
        "motion: operator, the loss against the prior adversary": (
            Verdict.FAILS,
            "what is stated is over the budget",
        )
    }
    assert_found(tree, tmp_path, _states_less("operator"), "operator, epoch 1", "what is stated")


def _epochs(tree: Tree) -> list[Tree]:
    rows: list[Tree] = stream_of(tree)["epochs"]
    return rows


def _begins_later(tree: Tree) -> None:
    _epochs(tree)[1]["first"] += 1


def _begins_earlier(tree: Tree) -> None:
    _epochs(tree)[1]["first"] -= 100


def _restated(tree: Tree) -> None:
    """What is stated of ended epochs, made to fit where they begin."""
    (one,) = stream_of(tree)["ended"]
    one["last"] = _epochs(tree)[1]["first"] - 1
    stream_of(tree)["state"]["ended"] = [one]


def _narrower(tree: Tree) -> None:
    """A Θ that contains the floor, and not what was believed after the contradiction."""
    _epochs(tree)[1]["ended_theta"] = json.dumps({"q": [0.37, 0.41], "r": [0.37, 0.41]})


def _narrower_than_the_floor(tree: Tree) -> None:
    _epochs(tree)[1]["ended_theta"] = json.dumps({"q": [0.385, 0.4], "r": [0.385, 0.4]})


def _no_entry(tree: Tree) -> None:
    stream = stream_of(tree)
    stream["entries"] = [one for one in stream["entries"] if one["audience"] != "epoch"]


def _no_row(tree: Tree) -> None:
    del _epochs(tree)[1]


def _no_epoch(tree: Tree) -> None:
    """As if there had never been a second epoch."""
    _no_entry(tree)
    _no_row(tree)
    stream_of(tree)["ended"] = []
    stream_of(tree)["state"] |= {"epoch": 1, "ended": []}


def _states_less(audience: str, share: float = 0.99) -> Change:
    def change(tree: Tree) -> None:
        (one,) = stream_of(tree)["ended"]
        one[audience] *= share
        stream_of(tree)["state"]["ended"] = [one]

    return change


def _publishes_less(tree: Tree) -> None:
    stream_of(tree)["state"]["ended"][0]["public"] *= 0.99


def _publishes_nothing(tree: Tree) -> None:
    stream_of(tree)["state"]["ended"] = []


def _same_meaning(tree: Tree) -> None:
    _epochs(tree)[1]["meaning"] = _epochs(tree)[0]["meaning"]


def _settings_of_the_old(tree: Tree) -> None:
    """The new epoch's settings, as if they had been issued before it."""
    _epochs(tree)[1]["settings"] += 1


def _settings_of_the_new(tree: Tree) -> None:
    """The last setting of the old epoch, as if it had been issued in the new one."""
    _epochs(tree)[1]["settings"] -= 1


def _release(tree: Tree) -> None:
    stream_of(tree)["releases"][-1]["loss"] *= 0.99


def _another_number(tree: Tree) -> None:
    _epochs(tree)[1]["number"] = 3


def _unknown(tree: Tree) -> None:
    _epochs(tree)[1]["beside"] = 1


def _both(*changes: Change) -> Change:
    def change(tree: Tree) -> None:
        for one in changes:
            one(tree)

    return change


LIES: dict[str, tuple[Change, str, str]] = {
    "it begins later": (
        _both(_begins_later, _restated),
        "one meaning each",
        "is over two epochs",
    ),
    "it begins earlier": (
        _both(_begins_earlier, _restated),
        "one meaning each",
        "is over two epochs",
    ),
    "Θ below the floor": (
        _narrower_than_the_floor,
        "one meaning each",
        "does not contain the policy's floor",
    ),
    "no entry": (_no_entry, "as they began", "epoch 2 has no entry that began it"),
    "no row": (_no_row, "as they began", "began an epoch that is not there"),
    "less public loss": (_states_less("public"), "public, epoch 1", "what is stated"),
    "less operator loss": (_states_less("operator"), "operator, epoch 1", "what is stated"),
    "much less public loss": (_states_less("public", 0.8), "public, epoch 1", "is above what is stated"),
    "less published": (_publishes_less, "of every epoch", "is not what is stated"),
    "nothing published": (_publishes_nothing, "of every epoch", "is not what is stated"),
    "a release's loss": (_release, "its stated loss", "no bound within the budget was found"),
    "another number": (_another_number, "as they began", "epoch 3 does not follow epoch 1"),
    "an unknown field": (_unknown, "nothing unknown in them", "a field 'beside'"),
}
OF_A_MEANING: dict[str, tuple[Change, str, str]] = {
    "the same meaning": (_same_meaning, "one meaning each", "another meaning within epoch 2"),
    "no second epoch": (
        _no_epoch,
        "one meaning each",
        "policy 2 gives states another meaning within epoch 1",
    ),
    "settings of the old": (_settings_of_the_old, "one meaning each", "setting 2 is on the wrong side"),
    "settings of the new": (_settings_of_the_new, "one meaning each", "setting 1 is on the wrong side"),
}
OF_A_CONTRADICTION: dict[str, tuple[Change, str, str]] = {
    "a narrower Θ": (_narrower, "one meaning each", "narrower than the one that the next began with"),
    "no second epoch": (_no_epoch, "its stated loss", "is over the budget"),
    "settings of the new": (
        _settings_of_the_new,
        "one meaning each",
        "names a setting that was issued after it",
    ),
}


def assert_found(tree: Tree, folder: Path, change: Change, claim: str, reason: str) -> None:
    lie = changed(tree)
    change(lie)
    found = faults(checked(sealed_again(lie), folder))
    assert any(claim in about and reason in detail for about, (_, detail) in found.items()), found


@pytest.mark.parametrize("what", LIES | OF_A_MEANING)
def test_lies_about_a_changed_meaning(changed_meaning: Tree, tmp_path: Path, what: str) -> None:
    """By whoever has the calibrator's key, who makes all digests and seals anew."""
    assert_found(changed_meaning, tmp_path, *(LIES | OF_A_MEANING)[what])


@pytest.mark.parametrize("what", LIES | OF_A_CONTRADICTION)
def test_lies_about_a_contradiction(contradiction: Tree, tmp_path: Path, what: str) -> None:
    assert_found(contradiction, tmp_path, *(LIES | OF_A_CONTRADICTION)[what])


@pytest.mark.parametrize(
    "change", [_begins_later, _begins_earlier, _narrower, _same_meaning, _settings_of_the_new]
)
def test_the_entry_seals_the_row(contradiction: Tree, tmp_path: Path, change: Change) -> None:
    """A row that was changed beside its entry is found by the digest in the entry, even if the whole is sealed."""
    tree = changed(contradiction)
    _epochs(tree)[0]["meaning"] = "0" * 32 if change is _same_meaning else _epochs(tree)[0]["meaning"]
    change(tree)
    content = {name: value for name, value in tree.items() if name != "seal"}
    tree["seal"] = CALIBRATOR.seal(b"export\n" + canonical(content))
    found = faults(checked(tree, tmp_path))
    verdict, detail = found["motion: epochs, as they began"]
    assert verdict is Verdict.FAILS
    assert "epoch 2 is not the one that entry" in detail
