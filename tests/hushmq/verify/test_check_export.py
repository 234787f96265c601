"""A true export holds; one thing changed, by a stranger or by the calibrator itself, is found with its reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hushmq.broker.contract.policy_message import Assumption, Audiences, DeviceWindow
from hushmq.broker.contract.theta_message import theta_message
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.verify.claims import Verdict
from hushmq.verify.signed_text import canonical
from tests.calibrator import test_joined_streams as joined
from tests.calibrator import test_more_states as more
from tests.calibrator.settings.test_device_settings import QUICK, SLOW, believe
from tests.calibrator.site import CALIBRATOR, OPS, STRANGER, STREAM, desk, policy, sqlite
from tests.hushmq.verify.exported import (
    TWO,
    Tree,
    changed,
    checked,
    device_window,
    exported,
    faults,
    first_claim,
    next_second,
    sealed_again,
    signed_again,
    stream_of,
    two_state_export,
    wide_policy,
)
from tests.hushmq.verify.exported import WIDE as START_THETA


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exports")


@pytest.fixture(scope="module")
def true(folder: Path) -> Tree:
    """Two policies, the second of which allows the public more; devices release windows themselves as well."""
    own = {"own": DeviceWindow(ticks=100, scale=40.0)}
    with desk(sqlite(folder)) as here:
        here.adopt(policy(windows=TWO, adversary="prior", device_windows=own))
        for number in range(2):
            here.window(number)
            here.cohort.close_due()
        next_second()
        here.adopt(
            policy(
                2,
                windows=TWO,
                adversary="prior",
                epsilon=Audiences(operator=4.0, public=1.5),
                device_windows=own,
            )
        )
        next_second()
        here.window(2, noise=2)
        here.cohort.close_due()
        return exported(here)


@pytest.fixture(scope="module")
def of_more_states(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    with desk(sqlite(tmp_path_factory.mktemp("k"))) as here:
        more.follow(here)
        for number in range(2):
            more.window(here, number)
            here.cohort.close_due()
        return exported(here)


def test_a_true_export_holds(true: Tree, folder: Path) -> None:
    """Everything is recomputed, and every loss lies within bounds that leave no room for doubt."""
    claims = checked(true, folder)
    assert faults(claims) == {}
    losses = {one.about: one for one in claims if one.recomputed is not None}
    assert {"motion: setting 1", "motion: operator", "motion: public"} <= losses.keys()
    for one in losses.values():
        low, high = one.recomputed or (0, 0)
        assert 0 < low <= high
        assert float(high) <= (one.stated or one.budget or 0) * (1 + 1e-8)
    # Both policies are there, and each entry was held against the one in force.
    assert [one["until"] is None for one in true["policies"]] == [False, True]
    assert {one["budget"] for one in stream_of(true)["releases"]} == {1.0, 1.5}


def test_the_other_adversaries_too(tmp_path: Path) -> None:
    """The informed one, and the undecided one, who needs a narrow Θ."""
    informed = two_state_export(tmp_path, "informed", windows=1)
    assert faults(checked(informed, tmp_path)) == {}
    stream_of(informed)["state"]["public"]["loss"] *= 0.98
    assert "above what is stated" in str(faults(checked(sealed_again(informed), tmp_path)).values())
    narrow = theta_message(BinaryTheta(0.29, 0.3, 0.29, 0.3))
    (tmp_path / "undecided").mkdir()
    undecided = two_state_export(
        tmp_path / "undecided", "undecided", theta=Assumption(start=narrow, floor=narrow), windows=1
    )
    assert faults(checked(undecided, tmp_path)) == {}
    stream_of(undecided)["state"]["operator"]["loss"] *= 0.99
    assert "less than was proved" in str(faults(checked(sealed_again(undecided), tmp_path)).values())


def test_more_states_hold(of_more_states: Tree, folder: Path) -> None:
    """Certificates and timelines of four states, by sets that were enumerated."""
    assert faults(checked(of_more_states, folder)) == {}


def test_device_specific_settings_hold(tmp_path: Path) -> None:
    """A device with its own Θ and noise is priced by both, in both accounts."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(wide_policy())
        believe(here, {"": START_THETA, "d0": QUICK, "d1": SLOW})
        here.cohort.calibrate()
        versions = {
            device: one.message.version
            for device, one in here.cohort.calibrate_devices().in_force[STREAM].items()
        }
        assert versions
        for number in range(2):
            device_window(here, number, {"d0": 1, "d1": 1, "d2": 1} | versions)
        tree = exported(here)
    assert stream_of(tree)["devices"]
    assert faults(checked(tree, tmp_path)) == {}
    # Its Θ decides: with a slower one the operator's loss is more than is stated.
    lie = changed(tree)
    device = min(stream_of(lie)["devices"])
    stream_of(lie)["devices"][device] = {"q": {"low": 0.01, "high": 0.31}, "r": {"low": 0.01, "high": 0.31}}
    assert faults(checked(sealed_again(lie), tmp_path))[
        "motion: operator, the loss against the prior adversary"
    ][0] in {Verdict.FAILS, Verdict.NOT_PROVEN}


def _tilt(tree: Tree) -> None:
    entry = stream_of(tree)["entries"][1]
    entry["tilt"] = int(entry["tilt"] * 0.99)


def _tilt_and_release(tree: Tree) -> None:
    """Charge 1% less than the noise costs, in the release as well."""
    entry = stream_of(tree)["entries"][1]
    entry["tilt"] = int(entry["tilt"] * 0.99)
    for release in stream_of(tree)["releases"]:
        if release["entry"] == entry["id"]:
            release["tilt"] = entry["tilt"]


def _missing(tree: Tree) -> None:
    del stream_of(tree)["entries"][-1]
    last = stream_of(tree)["entries"][-1]["id"]
    releases = stream_of(tree)["releases"]
    stream_of(tree)["releases"] = [one for one in releases if one["entry"] <= last]


def _swapped(tree: Tree) -> None:
    entries = stream_of(tree)["entries"]
    entries[0], entries[1] = entries[1], entries[0]


def _twice(tree: Tree) -> None:
    entries = stream_of(tree)["entries"]
    entries.append(entries[-1] | {"id": entries[-1]["id"] + 1})


def _weak_noise(tree: Tree) -> None:
    """1% less noise in a setting that the calibrator signs, and the digests of entries made to fit."""
    envelope = tree["settings"][0]["signed"]
    noise = envelope["message"]["noise"]
    noise["rho0"], noise["rho1"] = noise["rho0"] * 0.99, noise["rho1"] * 0.99
    signed_again(envelope, "NoiseSetting")


def _more_epsilon(tree: Tree) -> None:
    """Releases that name a larger budget than the policy in force."""
    for release in stream_of(tree)["releases"]:
        release["budget"] = 1.5


def _stated(tree: Tree) -> None:
    stream_of(tree)["state"]["public"]["loss"] *= 0.99


def _stated_operator(tree: Tree) -> None:
    stream_of(tree)["state"]["operator"]["loss"] *= 0.99


def _stated_release(tree: Tree) -> None:
    stream_of(tree)["releases"][-1]["loss"] *= 0.99


def _narrow_theta(tree: Tree) -> None:
    stream_of(tree)["state"]["public"]["theta"]["q"] = {"low": 0.26, "high": 0.29}


def _strangers_policy(tree: Tree) -> None:
    signed_again(tree["policies"][0]["signed"], "Policy", STRANGER)


def _strangers_setting(tree: Tree) -> None:
    signed_again(tree["settings"][0]["signed"], "NoiseSetting", STRANGER)


def _old_policy(tree: Tree) -> None:
    tree["policies"].reverse()


def _scale(tree: Tree) -> None:
    stream_of(tree)["releases"][0]["scale"] *= 0.99


def _louder_device_windows(tree: Tree) -> None:
    """With ten times the noise device windows would cost less: but ops did not sign that."""
    tree["policies"][1]["signed"]["message"]["streams"][STREAM]["device_windows"]["own"]["scale"] = 400.0


def _missing_setting(tree: Tree) -> None:
    del tree["settings"][0]


def _epoch(tree: Tree) -> None:
    stream_of(tree)["entries"][0]["epoch"] = 2


def _adversary(tree: Tree) -> None:
    for one in tree["policies"]:
        one["signed"]["message"]["streams"][STREAM]["adversary"] = "psychic"
        signed_again(one["signed"], "Policy", OPS)


def _group(tree: Tree) -> None:
    one = tree["policies"][1]["signed"]
    one["message"]["streams"][STREAM]["coupled_with"] = "door"
    signed_again(one, "Policy", OPS)


CHANGES: dict[str, tuple[Callable[[Tree], None], str]] = {
    "an entry's tilt": (_tilt, "its release is of another window or tilt"),
    "a tilt below the noise's cost": (_tilt_and_release, "were paid"),
    "swapped entries": (_swapped, "the numbers of entries do not rise"),
    "a window charged twice": (_twice, "charged before"),
    "weaker noise": (_weak_noise, "no bound within the budget was found"),
    "more ε than the policy": (_more_epsilon, "the policy in force 1"),
    "the public's loss": (_stated, "what is stated is less than was proved"),
    "the operator's loss": (_stated_operator, "what is stated is less than was proved"),
    "a release's loss": (_stated_release, "what is stated is less than was proved"),
    "a narrower Θ than the floor": (_narrow_theta, "does not contain the policy's floor"),
    "a policy of a stranger": (_strangers_policy, "policy 1 is not signed by a trusted key of ops"),
    "a setting of a stranger": (
        _strangers_setting,
        "version 1 is not signed by a trusted key of the calibrator",
    ),
    "policies in another order": (_old_policy, "policy 1 comes after policy 2"),
    "a smaller scale": (_scale, "were paid"),
    "a changed policy": (_louder_device_windows, "policy 2 is not signed"),
    "a missing setting": (_missing_setting, "version 1"),
    "an epoch": (_epoch, "a field 'epoch' that this checker does not know"),
    "another adversary": (_adversary, "the adversary 'psychic'"),
    "a group": (_group, "a field 'coupled_with' that this checker does not know"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_dishonest_calibrator_is_found(true: Tree, folder: Path, what: str) -> None:
    """Digests and seals are made anew, as the owner of the key can: what is false is found by what it says."""
    change, reason = CHANGES[what]
    tree = changed(true)
    change(tree)
    found = faults(checked(sealed_again(tree), folder))
    assert reason in str(found.values()), found


@pytest.mark.parametrize("what", CHANGES)
def test_a_stranger_is_found(true: Tree, folder: Path, what: str) -> None:
    """Without the calibrator's key nothing at all can be changed: the first claim, the seal, fails."""
    tree = changed(true)
    CHANGES[what][0](tree)
    first = first_claim(tree, folder)
    assert (first.about, first.verdict) == ("export", Verdict.FAILS)


@pytest.mark.parametrize(
    ("change", "reason"), [(_missing, "did not seal these"), (_swapped, "is not the one that")]
)
def test_the_seal_of_an_older_head(
    true: Tree, folder: Path, change: Callable[[Tree], None], reason: str
) -> None:
    """Entries beside the seal of other entries: even where the whole is sealed."""
    tree = changed(true)
    change(tree)
    again = sealed_again(changed(tree))
    again["streams"][STREAM] |= {name: tree["streams"][STREAM][name] for name in ("entries", "head", "seal")}
    content = {name: value for name, value in again.items() if name != "seal"}

    again["seal"] = CALIBRATOR.seal(b"export\n" + canonical(content))
    found = faults(checked(again, folder))
    assert "export, sealed by the calibrator" not in found
    assert reason in str(found["motion: entries, as written, none missing"])


def _certificate(tree: Tree) -> None:
    envelope = tree["settings"][0]["signed"]
    envelope["message"]["noise"]["certificate"]["right"]["bound"] *= 0.9
    signed_again(envelope, "NoiseSetting")


def _certified_tilt(tree: Tree) -> None:
    envelope = tree["settings"][0]["signed"]
    envelope["message"]["noise"]["certificate"]["tau"] *= 0.99
    signed_again(envelope, "NoiseSetting")


def _stated_k(tree: Tree) -> None:
    tree["streams"][more.STREAM]["state"]["public"]["loss"] *= 0.98


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_certificate, "its certificate proves nothing"),
        (_certified_tilt, "tilts more than its certificate is for"),
        (_stated_k, "less than was proved"),
    ],
)
def test_more_states_are_held_to_their_proofs(
    of_more_states: Tree, folder: Path, change: Callable[[Tree], None], reason: str
) -> None:
    tree = changed(of_more_states)
    change(tree)
    assert reason in str(faults(checked(sealed_again(tree), folder)).values())


def test_a_ledger_over_its_budget_is_not_passed(true: Tree, folder: Path) -> None:
    """Ops lower ε below what was lost: the accounts say so honestly, and the promise does not hold."""
    tree = changed(true)
    envelope = tree["policies"][-1]["signed"]
    envelope["message"]["streams"][STREAM]["epsilon"]["public"] = 0.5
    signed_again(envelope, "Policy", OPS)
    stream_of(tree)["state"]["public"]["budget"] = 0.5
    found = faults(checked(sealed_again(tree), folder))
    assert found["motion: public, the loss against the prior adversary"] == (
        Verdict.FAILS,
        found["motion: public, the loss against the prior adversary"][1],
    )
    assert "over the budget" in found["motion: public, the loss against the prior adversary"][1]


@pytest.mark.parametrize("groups", [None, {"home": ("d0", "d1")}])
def test_streams_and_devices_that_share_an_account(
    tmp_path: Path, groups: dict[str, tuple[str, ...]] | None
) -> None:
    """Tilts of all of them add, within one ε; each setting keeps to its share, and 3% less noise does not."""
    names = ("motion", "door")
    with desk(sqlite(tmp_path)) as here:
        here.adopt(joined.policy(names, groups=groups))
        for number in range(2):
            joined.window(here, names, number)
            here.cohort.close_due()
        tree = exported(here)
    assert stream_of(tree)["state"]["account"] == {"streams": list(names), "devices": 2 if groups else 1}
    assert faults(checked(tree, tmp_path)) == {}
    for change, reason in (
        (_weak_noise, "setting 1, keeps ε of the operator"),
        (_stated_public, "public, the loss against the informed adversary"),
        (_alone, "accounts, of the policy followed"),
    ):
        lie = changed(tree)
        change(lie)
        assert reason in str(faults(checked(sealed_again(lie), tmp_path)).keys()), reason


def _stated_public(tree: Tree) -> None:
    stream_of(tree)["state"]["public"]["loss"] *= 0.99


def _alone(tree: Tree) -> None:
    stream_of(tree)["state"]["account"] = None


def test_streams_that_are_coupled(tmp_path: Path) -> None:
    """Each has an account of its own, of ε divided by 1 + the coupling; a setting made for all of ε is found."""
    names = ("motion", "door")
    with desk(sqlite(tmp_path)) as here:
        here.adopt(joined.policy(names, coupling=0.5))
        for number in range(2):
            joined.window(here, names, number)
            here.cohort.close_due()
        tree = exported(here)
    claims = checked(tree, tmp_path)
    assert faults(claims) == {}
    budgets = {one.about: one.budget for one in claims if one.budget is not None}
    assert budgets["motion: operator"] == pytest.approx(4 / 1.5)
    assert budgets["motion: public"] == budgets["motion: releases"] == pytest.approx(1 / 1.5)
    for change, reason in (
        (_weak_noise, "setting 1, keeps ε of the operator"),
        (_stated_operator, "operator, the loss against the informed adversary"),
        (_whole_epsilon, "releases, what their entries paid for"),
    ):
        lie = changed(tree)
        change(lie)
        assert reason in str(faults(checked(sealed_again(lie), tmp_path)).keys()), reason


def _whole_epsilon(tree: Tree) -> None:
    for release in stream_of(tree)["releases"]:
        release["budget"] = 1.0
