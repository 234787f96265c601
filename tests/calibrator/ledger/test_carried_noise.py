"""What two entries say together is priced behind the noise that is worst for their sum, not for each of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.calibrator.ledger.audience_timelines import public_timeline
from hushmq.calibrator.ledger.debits import Debit
from hushmq.calibrator.ledger.public_account import PublicAccount
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.calibrator.ledger.test_audience_timelines import exact_tilt

THETA = BinaryTheta(0.2, 0.3, 0.25, 0.35)
EVEN, LOPSIDED = BinaryNoise(0.2, 0.2), BinaryNoise(0.02, 0.7)
"""Behind the first a tilt of 2 says more, behind the second a tilt of 4."""
ISSUED = {1: EVEN, 2: LOPSIDED}

flips = st.tuples(st.floats(0.01, 0.9), st.floats(0.01, 0.9)).filter(lambda rho: sum(rho) < 0.98)
spans = st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(1, 4 * NANO))


def test_the_order_of_two_noises_depends_on_the_tilt() -> None:
    """The pair of this file: enumerated, by 3% the one way for one thing and by 50% the other way for two."""
    assert exact_tilt(EVEN, 2.0) > 1.03 * exact_tilt(LOPSIDED, 2.0)
    assert exact_tilt(LOPSIDED, 2.0, 2.0) > 1.5 * exact_tilt(EVEN, 2.0, 2.0)


def test_the_second_entry_names_the_worst_noise_for_the_sum() -> None:
    """The first names the noise that is worst for it alone; together they are priced behind the other."""
    account, debits = PublicAccount(THETA, "prior"), []
    for number, expected in enumerate((1, 2), start=1):
        version = account.least_protecting(ISSUED, 0, 9, 2 * NANO)
        assert version == expected
        debits.append(Debit(0, 9, 2 * NANO, ISSUED[expected]))
        account.charge(number, debits[-1])
    (both,) = public_timeline(debits)
    assert both.tau0 == pytest.approx(exact_tilt(LOPSIDED, 2.0, 2.0), rel=1e-9)
    assert account.price().epsilon == pytest.approx(THETA.timeline("prior", [both]).price().epsilon, rel=1e-9)


def test_no_version_is_named_where_none_is_the_worst_everywhere() -> None:
    """Alone at some of its ticks, beside another entry at others: each would need another version."""
    account = PublicAccount(THETA, "prior")
    account.charge(1, Debit(0, 9, 2 * NANO, EVEN))
    assert account.least_protecting(ISSUED, 5, 14, 2 * NANO) is None
    assert account.least_protecting({1: EVEN}, 5, 14, 2 * NANO) == 1


@settings(deadline=None)
@given(rhos=st.lists(flips, min_size=1, max_size=4), windows=st.lists(spans, min_size=1, max_size=5))
def test_no_sum_is_priced_behind_a_noise_that_is_not_its_worst(
    rhos: list[tuple[float, float]], windows: list[tuple[int, int, int]]
) -> None:
    """Whatever was charged, no noise that any of the ticks can carry would make any of them dearer."""
    issued = {version: BinaryNoise(*rho) for version, rho in enumerate(rhos, start=1)}
    account, debits = PublicAccount(THETA, "prior"), []
    for first, length, tilt in windows:
        version = account.least_protecting(issued, first, first + length, tilt)
        if version is not None:
            debits.append(Debit(first, first + length, tilt, issued[version]))
            account.charge(len(debits), debits[-1])
    for entry in public_timeline(debits):
        total = sum(debit.tilt for debit in debits if debit.first <= entry.first <= debit.last)
        assert entry.tau0 >= max(noise.amplified(total / NANO) for noise in issued.values())
