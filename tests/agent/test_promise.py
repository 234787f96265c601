"""Streams of more than two states: a device applies a setting only if its certificate proves a loss within ε.

Each row of the tables is slightly invalid in one respect; beside it stands a valid one, which is applied.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushmq.agent.accept_settings import Settings, Trust
from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.noise_message import (
    BinaryNoiseMessage,
    CategoricalNoiseMessage,
    CertificateMessage,
    CertificateSideMessage,
)
from hushmq.broker.contract.operator_loss import operator_loss, windows_loss
from hushmq.broker.contract.policy_message import Assumption, Audiences, DeviceWindow
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.theta_message import CategoricalThetaMessage, TransitionIntervalsMessage
from hushmq.broker.contract.topics import Address
from hushmq.pufferfish.categorical.contraction import certificate_for, certified_loss, largest_tilt
from hushmq.pufferfish.categorical.emission import randomized_response, tilt_of
from hushmq.pufferfish.noise.perturber import word_counts
from hushmq.pufferfish.quilt.markov_chain import Chain
from tests.agent import peer
from tests.agent.activity import (
    CHAIN,
    FLOOR,
    START,
    activity_noise,
    activity_policy,
    best_proof,
    emission,
    theta_of_four,
)
from tests.agent.peer import CALIBRATOR, DEVICE, OPS, sign
from tests.pufferfish import oracles_categorical

POLICY = Address("test", "policy")
NOISE = Address("test", "noise", stream="motion")
WINDOW = {"quarter": DeviceWindow(ticks=900, scale=20.0)}


def fresh(folder: Path, *, rho_min: float = 0.001) -> Settings:
    trust = Trust((OPS.public,), (CALIBRATOR.public,), epsilon_max=4.0, rho_min=rho_min)
    return Settings(folder, trust, cohort="test", device=DEVICE, streams=["motion"])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings with policy 3 and noise 5 in force, for four states."""
    found = fresh(tmp_path)
    assert found.offer(POLICY, sign(activity_policy(3)), {})
    assert found.offer(NOISE, sign(activity_noise(5, policy=3)), {})
    return found


def changed(setting: NoiseSetting, **changes: Any) -> NoiseSetting:
    """Return the setting with parts of its noise replaced."""
    assert isinstance(setting.noise, CategoricalNoiseMessage)
    return setting.model_copy(update={"noise": setting.noise.model_copy(update=changes)})


def claiming(tau: float = 1.0, left: float = 1.0, right: float = 1.0) -> NoiseSetting:
    """Return a valid setting whose certificate claims these multiples of its proved bounds."""
    setting = activity_noise(6, policy=3)
    proof = best_proof(START, 4.0)
    claim = CertificateMessage(
        tau=proof.tau * tau,
        left=CertificateSideMessage(hops=proof.left[0], bound=proof.left[1] * left),
        right=CertificateSideMessage(hops=proof.right[0], bound=proof.right[1] * right),
    )
    return changed(setting, certificate=claim)


PROOF = best_proof(START, 4.0)
SHIFTED = theta_of_four((0.41, 0.6), (0.1, 0.25))
THREE = CategoricalThetaMessage(low=((0.4, 0.2, 0.2),) * 3, high=((0.6, 0.4, 0.4),) * 3)

REFUSED: dict[str, tuple[NoiseSetting, Reason]] = {
    "flips for four states": (peer.noise(6, policy=3), Reason.POLICY_MISMATCH),
    "three states for four": (
        activity_noise(6, policy=3, theta=THREE, noise=emission(THREE, 2.0)),
        Reason.POLICY_MISMATCH,
    ),
    "Θ that leaves out some of the floor": (
        activity_noise(6, policy=3, theta=SHIFTED),
        Reason.THETA_NARROWER_THAN_FLOOR,
    ),
    "Θ whose reversal leaves out some of the floor": (
        activity_noise(
            6,
            policy=3,
            theta=CategoricalThetaMessage(
                low=START.low,
                high=START.high,
                backward=TransitionIntervalsMessage(low=SHIFTED.low, high=SHIFTED.high),
            ),
            noise=emission(START, 4.0),
        ),
        Reason.THETA_NARROWER_THAN_FLOOR,
    ),
    "a probability below the device's floor": (
        changed(activity_noise(6, policy=3), emission=randomized_response(4, 7.5)),
        Reason.NOISE_BELOW_FLOOR,
    ),
    "a matrix that cannot be drawn": (
        changed(
            activity_noise(6, policy=3),
            emission=((0.25 + 1e-10,) * 4,) * 3 + ((0.25,) * 3 + (0.25 + 2e-10,),),
        ),
        Reason.MALFORMED,
    ),
    "a tilt above the certificate's": (
        changed(activity_noise(6, policy=3), emission=randomized_response(4, PROOF.tau * 1.001)),
        Reason.NOT_PROVEN,
    ),
    "a certificate for a smaller tilt": (claiming(tau=0.999), Reason.NOT_PROVEN),
    "a certificate that claims too little on the left": (claiming(left=0.999), Reason.NOT_PROVEN),
    "a certificate that claims too little on the right": (claiming(right=0.999), Reason.NOT_PROVEN),
    "a certificate for another Θ": (
        activity_noise(6, policy=3, theta=START, noise=emission(FLOOR, 4.0)),
        Reason.NOT_PROVEN,
    ),
    "hops nobody looks at": (
        changed(
            activity_noise(6, policy=3),
            certificate=CertificateMessage(
                tau=PROOF.tau,
                left=CertificateSideMessage(hops=3, bound=9.0),
                right=CertificateSideMessage(hops=3, bound=9.0),
            ),
        ),
        Reason.NOT_PROVEN,
    ),
    "a certificate that proves more than ε": (claiming(left=1.001), Reason.LOSS_ABOVE_EPSILON),
    "noise for a larger ε": (activity_noise(6, policy=3, epsilon=4.01), Reason.LOSS_ABOVE_EPSILON),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_setting_whose_loss_exceeds_epsilon_is_refused(settings: Settings, what: str) -> None:
    """A refused setting changes nothing, and `status` reports its reason; the valid one beside it is applied."""
    setting, reason = REFUSED[what]
    before = dict(settings.noise)
    with pytest.raises(Rejected) as caught:
        settings.offer(NOISE, sign(setting), {})
    assert (caught.value.reason, settings.noise) == (reason, before)
    assert settings.noise_refusals["motion"].reason == reason
    assert settings.offer(NOISE, sign(activity_noise(6, policy=3)), {})
    assert settings.noise["motion"].version == 6


def test_the_undecided_adversary_adds_the_odds_spread(tmp_path: Path) -> None:
    """A certificate proves the loss inside Θ; a device adds the spread to it before it compares with ε."""
    spread = FLOOR.chains.odds_spread
    assert 0.5 < spread < 2.0
    start = Assumption(start=FLOOR, floor=FLOOR)
    found = fresh(tmp_path)
    assert found.offer(POLICY, sign(activity_policy(3, adversary="undecided", theta=start)), {})
    whole = activity_noise(6, policy=3, theta=FLOOR, noise=emission(FLOOR, 4.0))
    with pytest.raises(Rejected) as caught:
        found.offer(NOISE, sign(whole), {})
    assert caught.value.reason == Reason.LOSS_ABOVE_EPSILON
    rest = activity_noise(7, policy=3, theta=FLOOR, noise=emission(FLOOR, 4.0 - spread - 1e-6))
    assert found.offer(NOISE, sign(rest), {})


def test_the_informed_adversary_is_checked_on_the_device(tmp_path: Path) -> None:
    """A certificate for the prior adversary is refused under a policy for the informed; one for him is applied."""
    found = fresh(tmp_path)
    assert found.offer(POLICY, sign(activity_policy(3, adversary="informed")), {})
    with pytest.raises(Rejected, match="not proved for some known state") as caught:
        found.offer(NOISE, sign(activity_noise(6, policy=3)), {})
    assert caught.value.reason == Reason.NOT_PROVEN
    proof = largest_tilt(START.chains, 4.0, informed=True)
    noise = CategoricalNoiseMessage(
        emission=randomized_response(4, proof.tau), certificate=CertificateMessage.of(proof)
    )
    assert found.offer(NOISE, sign(activity_noise(7, policy=3, noise=noise)), {})
    assert 3.99 < operator_loss(START, noise, 0.0, "informed") <= 4.0


def test_with_more_than_two_states_a_policy_names_its_adversary(settings: Settings) -> None:
    """There is no default; and with many states a device would take too long to verify the informed one."""
    with pytest.raises(Rejected, match='write adversary = "prior", "informed" or "undecided"') as caught:
        settings.offer(POLICY, sign(activity_policy(4)).replace(b'"adversary":"prior",', b""), {})
    assert caught.value.reason == Reason.MALFORMED
    low, high = (tuple(tuple(one for _ in range(7)) for _ in range(7)) for one in (0.1, 0.2))
    many = CategoricalThetaMessage(low=low, high=high)
    with pytest.raises(ValueError, match="supported for up to 6 states"):
        activity_policy(
            5, states=tuple("abcdefg"), theta=Assumption(start=many, floor=many), adversary="informed"
        )


def test_binary_noise_is_refused_for_a_theta_of_many_states() -> None:
    """Θ of many states with binary noise, which the message itself refuses, proves no loss."""
    with pytest.raises(Rejected) as caught:
        operator_loss(START, BinaryNoiseMessage(rho0=0.4, rho1=0.4), 0.0, "prior")
    assert caught.value.reason == Reason.NOT_PROVEN


def test_the_number_of_states_never_changes(settings: Settings, tmp_path: Path) -> None:
    """A policy that changes a stream's number of states is refused, also after a restart; a new name is accepted."""
    settings.followed()
    two = sign(peer.policy(4))
    for found in (settings, fresh(tmp_path)):
        found.load({})
        with pytest.raises(Rejected, match="4 states are in use") as caught:
            found.offer(POLICY, two, {})
        assert caught.value.reason == Reason.STATES_CHANGED
        assert found.policy == activity_policy(3)
    other = peer.policy(4).model_copy(update={"streams": {"light": peer.stream_policy()}})
    assert settings.offer(POLICY, sign(other), {})
    settings.followed()
    again = fresh(tmp_path)
    again.load({})
    for found in (settings, again):  # also where a policy in between did not name the stream
        with pytest.raises(Rejected, match="4 states are in use"):
            found.offer(POLICY, sign(peer.policy(5)), {})


def test_windows_and_stream_are_proved_together(tmp_path: Path) -> None:
    """With device windows the stream's tilt must be smaller by theirs, 2/scale for more than two states."""
    found = fresh(tmp_path)
    policy = activity_policy(1, device_windows=WINDOW)
    own = policy.streams["motion"].device_window_tilt
    assert own == 0.1
    assert found.offer(POLICY, sign(policy), {})
    for windows in (0.0, 0.0999):
        with pytest.raises(Rejected) as caught:
            found.offer(NOISE, sign(activity_noise(1, windows=windows)), {})
        assert caught.value.reason == Reason.NOT_PROVEN
    setting = activity_noise(1, windows=own)
    assert isinstance(setting.noise, CategoricalNoiseMessage)
    assert tilt_of(setting.noise.emission) + own <= setting.noise.certificate.tau
    assert found.offer(NOISE, sign(setting), {})


def test_a_policy_whose_windows_cost_too_much_is_refused(tmp_path: Path) -> None:
    """The limit is where the certified loss of 2/scale under the policy's start equals the public's ε."""
    border = 2 / best_proof(START, 2.0).tau
    for scale, fits in ((border * 1.001, True), (border * 0.999, False)):
        found = fresh(tmp_path)
        windows = {"quarter": DeviceWindow(ticks=900, scale=scale)}
        payload = sign(activity_policy(1, device_windows=windows))
        if fits:
            assert found.offer(POLICY, payload, {})
            continue
        with pytest.raises(Rejected, match=r"windows lose .* to the public") as caught:
            found.offer(POLICY, payload, {})
        assert caught.value.reason == Reason.LOSS_ABOVE_EPSILON


def test_windows_are_checked_for_the_theta_of_a_setting_too(tmp_path: Path) -> None:
    """A Θ wider than the policy's start, under which the windows' loss exceeds ε, is refused."""
    found = fresh(tmp_path)
    windows = {"quarter": DeviceWindow(ticks=900, scale=2.001 / best_proof(START, 2.0).tau)}
    assert found.offer(POLICY, sign(activity_policy(1, device_windows=windows)), {})
    wide = theta_of_four((0.3, 0.65), (0.08, 0.3))
    own = 2 / windows["quarter"].scale
    with pytest.raises(Rejected, match="windows lose") as caught:
        found.offer(
            NOISE, sign(activity_noise(1, theta=wide, windows=min(own, 0.9 * best_proof(wide, 4.0).tau))), {}
        )
    assert caught.value.reason == Reason.LOSS_ABOVE_EPSILON


def test_a_theta_that_may_not_mix_has_no_finite_loss(tmp_path: Path) -> None:
    """Windows are refused if no bound on their loss can be proved."""
    stuck = theta_of_four((0.0, 1.0), (0.0, 1.0))
    assert windows_loss(stuck, 0.1, "prior") == float("inf")
    assert windows_loss(stuck, 0.0, "prior") == 0.0
    policy = activity_policy(1, theta={"start": stuck, "floor": FLOOR}, device_windows=WINDOW)
    with pytest.raises(Rejected) as caught:
        fresh(tmp_path).offer(POLICY, sign(policy), {})
    assert caught.value.reason == Reason.LOSS_ABOVE_EPSILON


def test_the_last_valid_settings_are_loaded_without_a_broker(settings: Settings, tmp_path: Path) -> None:
    """Stored settings are verified again in full: a device that now requires more noise refuses them."""
    settings.followed()
    again = fresh(tmp_path)
    assert again.load({}).refused == []
    assert (again.policy, again.noise) == (settings.policy, settings.noise)
    stricter = fresh(tmp_path, rho_min=0.2)
    assert [rejected.reason for rejected in stricter.load({}).refused] == [Reason.NOISE_BELOW_FLOOR]
    assert stricter.noise == {}


def member(theta: CategoricalThetaMessage, seed: int) -> Chain:
    """Return a chain at a random corner of Θ."""
    rng = np.random.default_rng(seed)
    rows = []
    for low, high in zip(theta.low, theta.high, strict=True):
        row, left = list(low), 1 - sum(low)
        for u in rng.permutation(len(low)):
            more = min(high[u] - low[u], left)
            row[u] += more
            left -= more
        rows.append(row)
    return Chain(rows)


@pytest.mark.parametrize("seed", range(4))
def test_the_loss_of_an_applied_setting_is_within_epsilon(settings: Settings, seed: int) -> None:
    """The loss is computed by definition, over all paths and outputs of short streams, from the drawn probabilities."""
    setting = settings.noise["motion"].noise
    assert isinstance(setting, CategoricalNoiseMessage)
    drawn = np.array(word_counts(setting.emission), dtype=np.float64) / 2.0**64
    chain = member(START, seed)
    assert max(oracles_categorical.losses(chain, 4, oracles_categorical.response(drawn, 4))) <= 4.0
    # The check must be able to fail: much less noise exceeds ε.
    loud = np.array(randomized_response(4, 4.5))
    assert max(oracles_categorical.losses(chain, 4, oracles_categorical.response(loud, 4))) > 4.0


@pytest.mark.parametrize("seed", range(2))
def test_stream_and_windows_together_are_within_epsilon(tmp_path: Path, seed: int) -> None:
    """As above, with a histogram of the true states beside the stream."""
    scale = 10.0
    found = fresh(tmp_path)
    policy = activity_policy(1, device_windows={"short": DeviceWindow(ticks=3, scale=scale)})
    assert found.offer(POLICY, sign(policy), {})
    assert found.offer(NOISE, sign(activity_noise(1, windows=0.2)), {})
    setting = found.noise["motion"].noise
    assert isinstance(setting, CategoricalNoiseMessage)
    stream = oracles_categorical.response(np.array(setting.emission), 3)
    window = oracles_categorical.histogram(4, 3, scale)
    both = (stream[:, None, :] * window[None, :, :]).reshape(-1, stream.shape[1])
    chain = member(START, seed)
    assert max(oracles_categorical.losses(chain, 3, both)) <= 4.0
    assert max(oracles_categorical.losses(chain, 3, window)) <= windows_loss(START, 0.2, "prior") <= 2.0


def test_the_chain_that_tests_simulate_is_in_theta() -> None:
    """The simulated chain is in Θ, so that the guarantee applies to its stream."""
    assert FLOOR.intervals.contains(CategoricalThetaMessage(low=CHAIN, high=CHAIN).intervals)


def test_the_loss_of_windows_is_the_certified_one() -> None:
    """The loss of windows uses a certificate for their tilt, not the setting's certificate."""
    assert windows_loss(START, 0.1, "prior") == certified_loss(
        START.chains, certificate_for(START.chains, 0.1)
    )


def test_a_stranger_s_setting_is_refused(settings: Settings) -> None:
    """A setting signed by an unknown key is refused, even if it is otherwise valid."""
    with pytest.raises(Rejected) as caught:
        settings.offer(NOISE, sign(activity_noise(6, policy=3), PrivateKey(b"s" * 32)), {})
    assert caught.value.reason == Reason.UNKNOWN_KEY
    assert activity_policy(3).streams["motion"].epsilon == Audiences(operator=4.0, public=2.0)
