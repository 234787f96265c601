"""Which streams and devices share an account, what each may use of it, and which policies are refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from hushmq.broker.contract.account_share import account_loss, group_of, priced_streams
from hushmq.broker.contract.noise_message import (
    BinaryNoiseMessage,
    CategoricalNoiseMessage,
    CertificateMessage,
)
from hushmq.broker.contract.operator_loss import operator_loss, windows_loss
from hushmq.broker.contract.policy_message import (
    Assumption,
    Audiences,
    Group,
    Labels,
    Policy,
    StreamPolicy,
    Threshold,
)
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.theta_message import theta_message
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import certificate_for

SLOW, FAST = BinaryTheta(0.1, 0.2, 0.1, 0.2), BinaryTheta(0.3, 0.4, 0.3, 0.4)


def stream(chains: BinaryTheta = SLOW, /, **changes: Any) -> StreamPolicy:
    fields: dict[str, Any] = {
        "states": ("away", "home"),
        "period_ms": 1000,
        "discretiser": Threshold(at=1.0),
        "theta": Assumption(start=theta_message(chains), floor=theta_message(chains)),
        "epsilon": Audiences(operator=4.0, public=1.0),
        "windows": {},
    }
    return StreamPolicy(**(fields | changes))


def policy(groups: dict[str, tuple[str, ...]] | None = None, **streams: StreamPolicy) -> Policy:
    return Policy(
        version=1,
        cohort="test",
        streams=streams,
        groups={name: Group(devices=devices) for name, devices in (groups or {}).items()},
    )


def test_one_stream_of_one_device_is_priced_as_it_stands() -> None:
    """Nothing changes for a policy with one stream and no groups: not a field, not even the object."""
    only = policy(motion=stream())
    priced = priced_streams(only)["motion"]
    assert priced.policy is only.streams["motion"]
    assert priced.alone
    assert priced.policy.tilt_share == 1.0


def test_streams_of_one_device_are_one_account() -> None:
    """The least ε, the hull of both Θ, and half of the tilt each; an independent stream keeps what it has."""
    both = policy(
        motion=stream(SLOW),
        light=stream(FAST, epsilon=Audiences(operator=2.0, public=1.5)),
        weather=stream(FAST, independent=True, period_ms=500),
    )
    priced = priced_streams(both)
    for name in ("motion", "light"):
        one = priced[name]
        assert one.members == ("motion", "light")
        assert one.policy.epsilon == Audiences(operator=2.0, public=1.0)
        assert one.policy.tilt_share == 0.5
        for theta in (one.policy.theta.start, one.policy.theta.floor):
            assert theta.chains == BinaryTheta(0.1, 0.4, 0.1, 0.4)
    assert priced["light"].others == ("motion",)
    assert priced["weather"].policy is both.streams["weather"]


def test_devices_of_a_group_share_every_account() -> None:
    """Also an independent stream: it is independent of the other streams, not of itself on another device."""
    home = policy(
        {"ann": ("watch", "ring", "phone"), "room": ("lamp", "door")},
        pulse=stream(),
        steps=stream(),
        weather=stream(independent=True),
    )
    shares = {
        device: [one.policy.tilt_share for one in priced_streams(home, device).values()]
        for device in ("watch", "door", "alone", None)
    }
    assert shares["watch"] == pytest.approx([1 / 6, 1 / 6, 1 / 3])
    assert shares["door"] == pytest.approx([1 / 4, 1 / 4, 1 / 2])
    assert shares["alone"] == pytest.approx([1 / 2, 1 / 2, 1])
    assert shares[None] == shares["watch"]  # what holds for any device is decided by the largest group
    assert group_of(home, "ring") == ("watch", "ring", "phone")
    assert group_of(home, "alone") == ("alone",)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None, None), (1 / 3, 1 / 3, 1 / 3)),
        ((0.5, None, None), (0.5, 0.25, 0.25)),
        ((0.5, 0.3, 0.1), (0.5, 0.3, 0.1)),
    ],
)
def test_shares_as_given_and_the_rest_in_equal_parts(
    given: tuple[float | None, ...], expected: tuple[float, ...]
) -> None:
    named = policy(**{f"s{number}": stream(share=share) for number, share in enumerate(given)})
    found = [one.policy.tilt_share for one in priced_streams(named).values()]
    assert found == pytest.approx(expected)
    assert sum(found) <= 1.0 + 1e-12


def test_coupled_streams_divide_the_epsilon() -> None:
    """A stream that cannot be joined has an account of its own; each loses a part, so that none loses more than ε."""
    three = policy(
        motion=stream(),
        light=stream(),
        power=stream(period_ms=60_000, coupling=0.25),
        air=stream(coupling=0.5),
    )
    priced = priced_streams(three)
    # power: 1 + ¼ (the joined two) + ½ (air); air: 1 + ½ + ½; motion and light: 1 + ¼ + ½
    for one in priced.values():
        assert one.policy.epsilon.operator == pytest.approx(4.0 / 2.0)
        assert one.policy.epsilon.public == pytest.approx(1.0 / 2.0)
    assert priced["power"].members == ("power",)
    assert priced["motion"].members == ("motion", "light")
    only = policy(motion=stream(coupling=0.5))
    assert priced_streams(only)["motion"].policy is only.streams["motion"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"period_ms": 500}, "period_ms is 1000 and 500"),
        ({"adversary": "prior"}, "adversary is informed and prior"),
    ],
)
def test_streams_that_cannot_be_added_are_refused(change: dict[str, Any], words: str) -> None:
    """One message: which streams, what differs, and what to write."""
    with pytest.raises(ValidationError) as caught:
        policy(motion=stream(), light=stream(**change))
    message = caught.value.errors()[0]["msg"]
    assert words in message
    assert "motion and light are one account" in message
    assert (
        "write independent = true in a stream that does not depend on the others, or its coupling" in message
    )
    for way in ({"independent": True}, {"coupling": 0.3}):
        policy(motion=stream(), light=stream(**change, **way))


def test_another_number_of_states_is_refused() -> None:
    matrix = tuple(tuple(0.2 if x != y else 0.6 for y in range(3)) for x in range(3))
    three = theta_message(CategoricalTheta.point(matrix))
    with pytest.raises(ValidationError, match="states is 2 and 3"):
        policy(
            motion=stream(adversary="prior"),
            light=stream(
                states=("a", "b", "c"),
                discretiser=Labels(),
                adversary="prior",
                theta=Assumption(start=three, floor=three),
            ),
        )


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: policy({"a": ("x", "y"), "b": ("y", "z")}, s=stream()), "y is in a and in b"),
        (lambda: policy({"a": ("x", "x")}, s=stream()), "groups.a: x is named twice"),
        (lambda: policy({"a": ("x",)}, s=stream()), "at least 2"),
        (lambda: policy(a=stream(share=0.7), b=stream(share=0.7)), "add up to 1.4"),
        (lambda: policy(a=stream(share=1.0), b=stream()), "something left for the others"),
        (lambda: stream(independent=True, coupling=0.5), "an independent stream has no coupling"),
        (lambda: stream(coupling=1.5), "less than or equal to 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(build: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        build()


def test_a_setting_is_priced_by_its_share() -> None:
    """The loss of half the tilt at half the share is that of the whole tilt; device windows count with it."""
    noise = SLOW.optimal_noise(4.0, "informed", 0.0, 0.5)
    message = BinaryNoiseMessage(rho0=noise.rho0, rho1=noise.rho1)
    theta = theta_message(SLOW)
    tau0, tau1 = noise.tilts
    whole = SLOW.constant_loss(2 * tau0, 2 * tau1, "informed")
    assert operator_loss(theta, message, 0.0, "informed", 0.5) == whole == pytest.approx(4.0)
    assert operator_loss(theta, message, 0.0, "informed", 0.49) > 4.0
    assert operator_loss(theta, message, 0.01, "informed", 0.5) > 4.0
    assert account_loss(SLOW, tau0, tau1, stream(share=0.5)) == whole
    assert windows_loss(theta, 0.1, "informed", 0.5) == windows_loss(theta, 0.2, "informed")


def test_a_certificate_covers_the_share() -> None:
    """More than two states: a certificate for the stream's own tilt proves nothing about the account."""
    theta = CategoricalTheta.point([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4]])
    noise = theta.optimal_noise(1.0 - 1e-6, "prior", 0.0, 0.5)
    tau, _ = noise.tilts

    def message(tilt: float) -> CategoricalNoiseMessage:
        proof = CertificateMessage.of(certificate_for(theta, tilt * (1 + 1e-12)))
        return CategoricalNoiseMessage(emission=noise.rows, certificate=proof)

    assert operator_loss(theta_message(theta), message(2 * tau), 0.0, "prior", 0.5) <= 1.0
    with pytest.raises(Rejected) as caught:
        operator_loss(theta_message(theta), message(tau), 0.0, "prior", 0.5)
    assert caught.value.reason == Reason.NOT_PROVEN
