"""`hushmq price`."""

from __future__ import annotations

import math

import pytest

from tests.hushmq.command import Hushmq


def prior_loss(q: float, r: float, rho0: float, rho1: float) -> float:
    """The closed form of docs/theory.md as it stands on paper: the larger of both directions."""

    def towards0(q: float, r: float, m: float) -> float:
        x, y = m * (1 - q), 1 - r
        return 2 * math.log((x - y + math.sqrt((x - y) ** 2 + 4 * q * r * m)) / (2 * r)) - math.log(m)

    return max(towards0(q, r, (1 - rho0) / rho1), towards0(r, q, (1 - rho1) / rho0))


@pytest.mark.parametrize(
    ("q", "r", "rho0", "rho1"),
    [
        (0.0893, 0.1092, 0.35, 0.28),
        (0.2, 0.2, 0.1641, 0.1641),
        (0.028, 0.402, 0.6, 0.1),
        (0.4, 0.6, 0.2, 0.3),
    ],
)
def test_prior_adversary(hushmq: Hushmq, q: float, r: float, rho0: float, rho1: float) -> None:
    """The price against the prior adversary is the closed form, to 1e-9."""
    asked = ("--q", q, "--r", r, "--rho0", rho0, "--rho1", rho1, "--adversary", "prior", "--json")
    assert hushmq("price", *asked).json["epsilon"] == pytest.approx(prior_loss(q, r, rho0, rho1), abs=1e-9)


@pytest.mark.parametrize(
    ("q", "r", "rho0", "rho1", "nominal", "real"),
    [
        (0.2, 0.2, 0.1641457, 0.1641457, 4.0, 4.4109),
        (0.028, 0.402, 0.4974704, 0.0634507, 3.677, 6.2363),
        (0.0893, 0.1092, 0.347483, 0.2834062, 4.0, 4.6812),
    ],
)
def test_theorem_2_of_cgssy_fails(
    hushmq: Hushmq, *, q: float, r: float, rho0: float, rho1: float, nominal: float, real: float
) -> None:
    """Noise that is right for the prior adversary loses more to the informed one: the cases of docs/theory.md."""
    asked = ("price", "--q", q, "--r", r, "--rho0", rho0, "--rho1", rho1, "--json", "--adversary")
    assert hushmq(*asked, "prior").json["epsilon"] == pytest.approx(nominal, abs=1e-4)
    assert hushmq(*asked, "informed").json["epsilon"] == pytest.approx(real, abs=1e-4)


@pytest.mark.parametrize("adversary", ["prior", "informed"])
def test_noise_that_hides_nothing(hushmq: Hushmq, adversary: str) -> None:
    """Very little noise still has a loss, at least that of one sample."""
    asked = ("--q", 0.1, "--r", 0.2, "--rho0", 1e-30, "--rho1", 1e-30, "--adversary", adversary, "--json")
    assert hushmq("price", *asked).json["epsilon"] >= 30 * math.log(10)


def test_lines_for_a_person(hushmq: Hushmq) -> None:
    """Without --json: one line, six digits."""
    answer = hushmq("price", "--q", 0.2, "--r", 0.2, "--rho0", 0.1641, "--rho1", 0.1641)
    assert answer.out.splitlines() == [
        "epsilon  4.41147  loss at any tick, informed adversary",
        "stride   1        of so many ticks one is published",
    ]


RIGHT = {"--q": "0.1", "--r": "0.2", "--rho0": "0.3", "--rho1": "0.3"}


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--q", "1.5", "argument --q: '1.5' is not a number above 0 and below 1"),
        ("--rho0", "0", "argument --rho0: '0' is not a number above 0 and below 1"),
        ("--rho1", "nan", "argument --rho1: 'nan' is not a number above 0 and below 1"),
        ("--rho1", "some", "argument --rho1: 'some' is not a number above 0 and below 1"),
        ("--rho1", "0.7", "--rho0 and --rho1: they sum to 1; the sum must be below 1"),
        ("--rho0", "0.9", "--rho0 and --rho1: they sum to 1.2; the sum must be below 1"),
    ],
)
def test_bad_input(hushmq: Hushmq, option: str, value: str, says: str) -> None:
    """Every bad value is refused in one line that names the option and what it takes."""
    words = [word for pair in {**RIGHT, option: value}.items() for word in pair]
    assert hushmq("price", *words).complaint.startswith(f"hushmq: {says}")
