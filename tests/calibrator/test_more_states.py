"""A stream of more than two states, from its policy to its releases, settings and ledger, in one cohort at hand."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushmq.__main__ import main
from hushmq.agent.accept_settings import Trust, check_noise
from hushmq.broker.contract.messages import Batch, LedgerState, NoiseSetting, Release, decode, encode
from hushmq.broker.contract.noise_message import CategoricalNoiseMessage
from hushmq.broker.contract.operator_loss import operator_loss
from hushmq.broker.contract.packing import bits_for, pack
from hushmq.broker.contract.policy_message import (
    MOST_LEARNED_STATES,
    Assumption,
    Audiences,
    Bins,
    DeviceWindow,
    Policy,
    StreamPolicy,
    Window,
)
from hushmq.broker.contract.problem import Problem, Reason
from hushmq.broker.contract.theta_message import (
    CategoricalThetaMessage,
    TransitionIntervalsMessage,
    theta_message,
)
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.learning.learned_theta import LearnedTheta, write_learned
from hushmq.calibrator.ledger.device_exposure import UNPROVED, DeviceExposure
from hushmq.calibrator.ledger.live_accounts import read_accounts
from hushmq.calibrator.ledger.verify_ledger import verify as verify_ledger
from hushmq.calibrator.ledger.window_spending import spending
from hushmq.calibrator.models import categorical_model
from hushmq.calibrator.settings.calibrate import Issuer, issue_setting
from hushmq.calibrator.settings.choose_noise import best_noise, mixable, provable_message
from hushmq.calibrator.settings.stored_settings import cohort_setting
from hushmq.evaluation.estimation.categorical_coverage import FOUR
from hushmq.evaluation.estimation.sanitized_categorical import sanitized
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import Certificate as Proof
from hushmq.pufferfish.categorical.contraction import certificate_for, certified_loss
from hushmq.pufferfish.categorical.emission import randomized_response
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from tests.calibrator.conftest import Databases
from tests.calibrator.site import CALIBRATOR, START, TOPICS, Desk, desk, signed, sqlite

STREAM = "activity"
STATES = ("lying", "sitting", "walking", "running")
K = len(STATES)
TICKS = 20


def around(share: float, P: np.ndarray = FOUR) -> CategoricalThetaMessage:
    away = ~np.eye(K, dtype=bool)
    pi = np.linalg.matrix_power(P, 500)[0]
    back = (pi[:, None] * P).T / pi[:, None]

    def ends(matrix: np.ndarray) -> dict[str, Any]:
        low = np.where(away, matrix * (1 - share), 1 - (1 - matrix) * (1 + share)).clip(0, 1)
        high = np.where(away, matrix * (1 + share), 1 - (1 - matrix) * (1 - share)).clip(0, 1)
        return {"low": tuple(map(tuple, low.tolist())), "high": tuple(map(tuple, high.tolist()))}

    return CategoricalThetaMessage(**ends(P), backward=TransitionIntervalsMessage(**ends(back)))


def stream_policy(**changes: Any) -> StreamPolicy:
    fields: dict[str, Any] = {
        "states": STATES,
        "period_ms": 1000,
        "discretiser": Bins(edges=(1.0, 2.0, 3.0)),
        "theta": Assumption(start=around(0.5), floor=around(0.05)),
        "adversary": "prior",
        "epsilon": Audiences(operator=8.0, public=4.0),
        "windows": {"short": Window(ticks=TICKS)},
    }
    return StreamPolicy(**(fields | changes))


def policy(version: int = 1, **changes: Any) -> Policy:
    return Policy(version=version, cohort="test", streams={STREAM: stream_policy(**changes)})


def states(count: int, seed: int = 0) -> bytes:
    return bytes(random.Random(seed).choices(range(K), weights=(4, 3, 2, 1), k=count))


def sent(device: str, first: int, found: bytes, *, noise: int = 1, bits: int = bits_for(K)) -> Arrived:
    message = Batch(
        first=first, after=None, count=len(found), bits=bits, states=pack(found, bits), noise=noise
    )
    return Arrived(TOPICS.batch(device, STREAM), encode(message))


def follow(at: Desk, **changes: Any) -> NoiseSetting:
    at.cohort.receive([Arrived(TOPICS.policy, signed(policy(**changes)))])
    return at.cohort.calibrate()[STREAM].message


def window(at: Desk, number: int, *, devices: int = 3, ticks: int = TICKS) -> None:
    """Every device sends a window, and the clock moves past its end and the grace."""
    first = START + number * ticks
    at.clock.tick = first + ticks + 1
    at.cohort.receive([sent(f"d{n}", first, states(ticks, seed=100 * number + n)) for n in range(devices)])


def releases(at: Desk) -> list[Release]:
    return [decode(Release, one.payload) for one in at.cohort.unsent()]


def verified(at: Desk) -> dict[str, bool]:
    with at.engine.begin() as db:
        return {check.name: check.passed for check in verify_ledger(db, STREAM)}


def test_a_setting_is_made_that_the_device_accepts(tmp_path: Path) -> None:
    """The calibrator's certificate proves the promise for the Θ it names, and the agent agrees."""
    with desk(sqlite(tmp_path)) as at:
        setting = follow(at, device_windows={"own": DeviceWindow(ticks=100, scale=80.0)})
        stream = at.cohort.policy.streams[STREAM]
        check_noise(setting, stream, Trust((), (), 20.0, 1e-6))
        assert isinstance(setting.noise, CategoricalNoiseMessage)
        assert (
            certified_loss(setting.theta.chains, setting.noise.certificate.proof) <= stream.epsilon.operator
        )
        # and hardly anything is left lying about
        assert certified_loss(setting.theta.chains, setting.noise.certificate.proof) > 0.999 * 8.0


@pytest.mark.slow
def test_windows_are_released_charged_and_verified(databases: Databases) -> None:
    """Histograms of the cohort and of each device, one ledger entry for each scope, and verify recomputes it all: on
    SQLite and on PostgreSQL. Before the first theta update: so few states may by chance exclude the policy's start.
    """
    windows = {"short": Window(ticks=TICKS, scopes=("cohort", "device")), "long": Window(ticks=2 * TICKS)}
    with desk(databases.fresh()) as at:
        follow(at, windows=windows)
        for number in range(3):
            window(at, number)
            at.cohort.close_due()
        found = releases(at)
        assert {one.scope for one in found} == {"cohort", "d0", "d1", "d2"}
        assert {one.window for one in found} == {"short", "long"}
        for one in found:
            assert one.states == STATES
            assert len(one.counts) == len(one.frequencies) == K
            assert one.theta.k == K
            assert one.loss <= one.budget
            assert one.ticks == one.devices * (one.last - one.first + 1)
        (state,) = at.cohort.ledger_states()
        assert decode(LedgerState, encode(state)) == state
        assert 0 < state.public.loss <= 4.0
        assert 0 < state.operator.loss <= 8.0
        assert state.entries == 3 + 3 + 1
        checks = verified(at)
        assert all(checks.values()), checks


@pytest.mark.slow
def test_for_ever_costs_the_budget_once_and_more_is_refused(tmp_path: Path) -> None:
    """Windows go on and on within ε; a policy with less ε cannot release over the past any more."""
    with desk(sqlite(tmp_path)) as at:
        follow(at)
        for number in range(30):
            window(at, number, devices=1)
            assert [one.refusal for one in at.cohort.close_due().windows] == [None]
        (state,) = at.cohort.ledger_states()
        assert state.public.loss <= 4.0
        at.cohort.receive(
            [Arrived(TOPICS.policy, signed(policy(2, epsilon=Audiences(operator=8.0, public=0.05))))]
        )
        at.cohort.calibrate()
        window(at, 30, devices=1)
        (closed,) = at.cohort.close_due().windows
        assert closed.charge is None
        assert "would be" in closed.refusal.reason
        assert at.cohort.ledger_states()[0].stopped is not None


def test_frequencies_are_freed_of_the_noise(tmp_path: Path) -> None:
    """Over a long window debiased frequencies are within a few standard errors of the truth, and proper if asked."""
    ticks = 4000
    with desk(sqlite(tmp_path)) as at:
        setting = follow(at, windows={"long": Window(ticks=ticks, proper=True)})
        emission = np.array(setting.noise.noise.rows)
        truth = np.linalg.matrix_power(FOUR, 500)[0]
        rng = np.random.default_rng(1)
        found = sanitized(np.repeat(FOUR[None], 12, axis=0), emission, ticks=ticks, rng=rng)
        at.clock.tick = START + ticks + 1
        at.cohort.receive([sent(f"d{n}", START, row.tobytes()) for n, row in enumerate(found)])
        at.cohort.close_due()
        (one,) = releases(at)
        assert sum(one.frequencies) == pytest.approx(1)
        assert min(one.frequencies) >= 0
        off = np.abs(np.array(one.frequencies) - truth) / np.array(one.standard_errors)
        assert off.max() < 4
        assert all(low <= high for low, high in one.intervals)
        assert max(one.standard_errors) < 0.2


@pytest.mark.parametrize(
    ("found", "bits"), [(bytes([0, 1, 0]), 1), (bytes([0, 1, 5]), 3), (bytes([0, 1, 3]), 8)]
)
def test_states_the_stream_does_not_have_are_refused(tmp_path: Path, found: bytes, bits: int) -> None:
    """A batch with other bits than its stream's, or with a state beyond them, is malformed and counts nothing."""
    with desk(sqlite(tmp_path)) as at:
        follow(at)
        at.clock.tick += 100
        at.cohort.receive([sent("d0", START, found, bits=bits)])
        assert at.cohort.rejected[Reason.MALFORMED] == 1
        assert at.cohort.counted == 0


def test_how_many_states_a_stream_has_never_changes(tmp_path: Path) -> None:
    """A policy that would price four states' entries as three states' is refused, and the old one is followed."""
    rows = ((0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.1, 0.1, 0.8))
    theta = CategoricalThetaMessage(low=rows, high=rows)
    fewer = {
        "states": STATES[:3],
        "discretiser": Bins(edges=(1.0, 2.0)),
        "theta": Assumption(start=theta, floor=theta),
    }
    with desk(sqlite(tmp_path)) as at:
        follow(at)
        at.cohort.receive([Arrived(TOPICS.policy, signed(policy(2, **fewer)))])
        assert at.cohort.rejected[Reason.STATES_CHANGED] == 1
        assert at.cohort.policy.version == 1


@pytest.mark.slow
def test_where_nothing_is_proved_nothing_is_released_and_the_account_says_so(tmp_path: Path) -> None:
    """Evidence of chains that never forget widens Θ: what was released is beyond every budget, and work goes on."""
    with desk(sqlite(tmp_path)) as at:
        follow(at)
        window(at, 0)
        at.cohort.close_due()
        forever = CategoricalTheta(*(TransitionIntervals.point(np.eye(K).tolist()) for _ in range(2)))
        with at.engine.begin() as db:
            write_learned(db, STREAM, LearnedTheta(forever, {"d0": forever}))
        window(at, 1)
        (closed,) = at.cohort.close_due().windows
        assert closed.charge is None
        assert closed.refusal is not None
        (state,) = at.cohort.ledger_states()
        assert decode(LedgerState, encode(state)) == state
        assert state.public.loss == state.operator.loss == UNPROVED
        assert state.stopped is not None
        assert at.cohort.calibrate() == {}
        assert at.cohort.calibrate_devices().in_force == {STREAM: {}}
    assert main(["ledger", "show", "--database", sqlite(tmp_path), "--json"]) == 0
    assert main(["ledger", "verify", "--database", sqlite(tmp_path)]) == 1


def test_of_three_states_the_fourth_number_is_refused(tmp_path: Path) -> None:
    """Two bits hold four numbers: the one that stands for no state is refused."""
    three = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    rows = tuple(map(tuple, three.tolist()))
    theta = CategoricalThetaMessage(low=rows, high=rows)
    with desk(sqlite(tmp_path)) as at:
        follow(
            at,
            states=STATES[:3],
            discretiser=Bins(edges=(1.0, 2.0)),
            theta=Assumption(start=theta, floor=theta),
        )
        at.clock.tick += 100
        at.cohort.receive([sent("d0", START, bytes([0, 2, 3]))])
        assert at.cohort.rejected[Reason.MALFORMED] == 1
        at.cohort.receive([sent("d0", START, bytes([0, 2, 1]))])
        assert at.cohort.counted == 3


@pytest.mark.slow
def test_many_states_are_released_and_nothing_is_learned(tmp_path: Path) -> None:
    """With more states than can be learned about the whole budget goes into the histograms."""
    k = MOST_LEARNED_STATES + 1
    rows = tuple(tuple(0.45 + 0.05 if u == v else 0.5 / (k - 1) for v in range(k)) for u in range(k))
    theta = CategoricalThetaMessage(low=rows, high=rows)
    with desk(sqlite(tmp_path)) as at:
        setting = follow(
            at,
            states=tuple(f"s{n}" for n in range(k)),
            discretiser=Bins(edges=tuple(map(float, range(1, k)))),
            theta=Assumption(start=theta, floor=theta),
        )
        stream = at.cohort.policy.streams[STREAM]
        noise = setting.noise.noise
        spent = spending(stream, "short", theta=setting.theta.chains, noises=[noise])
        assert spent.learning == 0
        at.clock.tick = START + TICKS + 1
        at.cohort.receive([sent("d0", START, bytes(n % k for n in range(TICKS)), bits=bits_for(k))])
        (closed,) = at.cohort.close_due().windows
        assert closed.charge is not None
        assert all(verified(at).values())


@pytest.mark.slow
def test_theta_is_learned_and_a_better_setting_made(tmp_path: Path) -> None:
    """With enough evidence Θ narrows, a setting with more signal is pushed, and mixtures stay within the promise."""
    ticks = 10_000
    with desk(sqlite(tmp_path)) as at:
        first = follow(
            at,
            theta=Assumption(start=around(0.5), floor=around(0.01)),
            epsilon=Audiences(operator=10.0, public=8.0),
            windows={"long": Window(ticks=ticks)},
            misfit="report",
        )
        rng = np.random.default_rng(4)
        emission = np.array(first.noise.noise.rows)
        for number in range(4):
            found = sanitized(np.repeat(FOUR[None], 10, axis=0), emission, ticks=ticks, rng=rng)
            begin = START // ticks * ticks + (number + 1) * ticks
            at.clock.tick = begin + ticks + 1
            at.cohort.receive([sent(f"d{n}", begin, row.tobytes()) for n, row in enumerate(found)])
            assert [one.refusal for one in at.cohort.close_due().windows] == [None]
        second = at.cohort.calibrate()[STREAM].message
        stream = at.cohort.policy.streams[STREAM]
        assert second.version == 2
        assert first.theta.contains(second.theta)
        assert second.theta.contains(around(0.01))
        assert second.noise.noise.signal > 1.05 * first.noise.noise.signal
        check_noise(second, stream, Trust((), (), 20.0, 1e-6))
        largest = max(one.noise.noise.tilts[0] for one in (first, second))
        assert second.theta.chains.constant_loss(largest, largest, "prior") <= stream.epsilon.operator
        assert all(verified(at).values())
        own = at.cohort.calibrate_devices().in_force
        for setting in own[STREAM].values():
            check_noise(setting.message, stream, Trust((), (), 20.0, 1e-6))


def test_own_settings_mix_within_the_promise(tmp_path: Path) -> None:
    """What a device was given before holds back a new setting of the cohort's, as for two states."""
    with desk(sqlite(tmp_path)) as at:
        setting = follow(at)
        stream = at.cohort.policy.streams[STREAM]
        narrow = around(0.05).chains
        bold = best_noise(narrow, stream)
        with at.engine.begin() as db:
            accounts = read_accounts(
                db, STREAM, stream, theta=setting.theta.chains, device_thetas={"d0": narrow}
            )
            issuer = Issuer("test", CALIBRATOR, 1)
            issue_setting(db, accounts, issuer, theta=narrow, noise=bold, device="d0")
        (exposure,) = accounts.exposures.values()
        assert exposure == DeviceExposure("d0", narrow, (setting.noise.noise, bold), ((0, bold),))
        assert exposure.operator_loss(stream) <= stream.epsilon.operator
        wide = setting.theta.chains
        kept = mixable(bold, [setting.noise.noise], theta=wide, policy=stream)
        assert kept.tilts[0] >= setting.noise.noise.tilts[0] * (1 - 1e-6)


def test_noise_for_the_informed_adversary_is_pushed_with_a_proof_for_him(tmp_path: Path) -> None:
    """It is checked as devices check it, and has a larger loss to him than to the prior adversary."""
    with desk(sqlite(tmp_path)) as at:
        follow(at)
        stream = at.cohort.policy.streams[STREAM].model_copy(update={"adversary": "informed"})
    narrow = around(0.05).chains
    pushed = provable_message(best_noise(narrow, stream), narrow, stream)
    tilt = pushed.noise.tilts[0]
    found = operator_loss(theta_message(narrow), pushed, 0.0, "informed")
    assert 0.99 * stream.epsilon.operator < found <= stream.epsilon.operator
    assert narrow.constant_loss(tilt, tilt, "prior") < found


def test_a_proof_that_fails_by_a_rounding_costs_a_little_tilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is pushed was checked as devices check it: the first proof is off, the noise pushed has one that holds."""
    with desk(sqlite(tmp_path)) as at:
        follow(at)
        stream = at.cohort.policy.streams[STREAM]
    narrow = around(0.05).chains
    noise = best_noise(narrow, stream)
    whole = provable_message(noise, narrow, stream)
    assert whole.noise == noise

    def off(theta: CategoricalTheta, tau: float, *, informed: bool) -> Proof:
        """A certificate that claims a millionth less than is proved, unless the tilt is smaller than was asked for."""
        found = certificate_for(theta, tau, informed=informed)
        if tau < noise.tilts[0]:
            return found
        left, right = ((hops, R * (1 - 1e-6)) for hops, R in (found.left, found.right))
        return Proof(found.tau, left, right)

    monkeypatch.setattr(categorical_model, "certificate_for", off)
    less = provable_message(noise, narrow, stream)
    assert operator_loss(theta_message(narrow), less, 0.0, "prior") <= stream.epsilon.operator
    assert less.noise.tilts[0] == pytest.approx(noise.tilts[0], rel=1.1e-6)
    assert less.noise.tilts[0] < noise.tilts[0]


def test_no_setting_that_devices_refuse_is_signed(tmp_path: Path) -> None:
    """Noise too weak for its Θ is not pushed, nor stored: one line says why."""
    with desk(sqlite(tmp_path)) as at:
        setting = follow(at)
        stream = at.cohort.policy.streams[STREAM]
        bold = best_noise(around(0.05).chains, stream)
        theta, issuer = setting.theta.chains, Issuer("test", CALIBRATOR, 1)
        with at.engine.begin() as db:
            accounts = read_accounts(db, STREAM, stream, theta=theta)
            with pytest.raises(Problem, match="no device would take this noise"):
                issue_setting(db, accounts, issuer, theta=theta, noise=bold)
        with at.engine.begin() as db:
            found = cohort_setting(db, STREAM, 1)
        assert found is not None
        assert found.message == setting


@pytest.mark.slow
def test_a_changed_noise_is_found_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verify names a matrix that is not the one entries were charged through; show tells Θ either way."""
    with desk(sqlite(tmp_path)) as at:
        follow(at)
        window(at, 0)
        at.cohort.close_due()
    url = sqlite(tmp_path)
    assert main(["ledger", "show", "--database", url]) == 0
    assert "4 states that stay" in capsys.readouterr().out
    assert main(["ledger", "show", "--database", url, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)[STREAM]
    assert len(told["theta"]["low"]) == K
    assert told["entries"][0]["noise"] == 1
    assert main(["ledger", "export", "--database", url]) == 0
    assert "noise_digest" in capsys.readouterr().out
    with desk(url) as at, at.engine.begin() as db:
        bolder = json.dumps({"emission": randomized_response(K, 5.0)})
        db.exec_driver_sql("UPDATE setting SET noise = ?", (bolder,))
    assert main(["ledger", "verify", "--database", url, "--json"]) == 1
    wrong = {one["check"] for one in json.loads(capsys.readouterr().out)["checks"] if not one["passed"]}
    assert {"noise as it was charged through", "settings keep the operator's promise"} <= wrong


def test_the_class_of_a_setting_is_the_one_it_was_made_for(tmp_path: Path) -> None:
    """Θ survives the wire: what the device computes from the message holds no chain that the calibrator left out."""
    with desk(sqlite(tmp_path)) as at:
        setting = follow(at)
        again = decode(NoiseSetting, encode(setting)).theta.chains
        assert around(0.5).chains.contains(again)
        assert again.contains(CategoricalTheta(*(TransitionIntervals(*(ends,) * 2) for ends in both(FOUR))))


def both(P: np.ndarray) -> list[tuple[tuple[float, ...], ...]]:
    pi = np.linalg.matrix_power(P, 500)[0]
    back = (pi[:, None] * P).T / pi[:, None]
    return [tuple(map(tuple, each.tolist())) for each in (P, back)]
