"""The account in memory is the ledger's own price, entry by entry."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hushmq.calibrator.ledger import public_account as account_module
from hushmq.calibrator.ledger.audience_timelines import price_public, public_timeline
from hushmq.calibrator.ledger.debits import Debit
from hushmq.calibrator.ledger.public_account import PublicAccount
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.calibrator.site import stream_policy

THETA = BinaryTheta(0.2, 0.3, 0.25, 0.35)
NOISES = (BinaryNoise(0.3, 0.25), BinaryNoise(0.2, 0.2), BinaryNoise(0.1, 0.4))


DEBITS = st.builds(
    lambda first, length, tilt, noise: Debit(first, first + length, tilt, noise),
    st.integers(0, 40),
    st.integers(0, 15),
    st.integers(1, NANO),
    st.sampled_from(NOISES),
)


MIXED = [Debit(3, 17, NANO // 3, NOISES[0]), Debit(10, 30, NANO // 2, NOISES[1]), Debit(0, 12, 7, NOISES[2])]


@settings(max_examples=15, deadline=None)
@given(debits=st.lists(DEBITS, min_size=1, max_size=5), adversary=st.just("prior"))
@example(debits=MIXED, adversary="informed")
def test_incremental_price_is_the_price_of_the_entries(debits: list[Debit], adversary: str) -> None:
    """Whatever overlaps in whatever order: adding entries one by one ends at the price computed from them all.

    Never below it, and above by rounding only. A dry run says what the next entry will make it, and changes nothing.
    """
    stream = stream_policy(adversary=adversary)
    account = PublicAccount(THETA, stream.adversary)
    for count, debit in enumerate(debits, start=1):
        before = account.price()
        promised = account.propose(debit).price()
        assert account.price() == before
        account.charge(account.entries + 1, debit)
        whole = price_public(debits[:count], THETA, stream)
        assert whole.epsilon * (1 - 1e-12) <= account.price().epsilon <= whole.epsilon * (1 + 1e-9) + 1e-12
        assert promised.epsilon == pytest.approx(account.price().epsilon, rel=1e-12)


def test_tumbling_windows_stay_one_piece() -> None:
    """A long history of equal windows takes the memory of one."""
    account = PublicAccount(THETA, "prior")
    for number in range(200):
        account.charge(number + 1, Debit(number * 10, number * 10 + 9, 1000, NOISES[0]))
    assert len(account._pieces) == 1
    assert account.entries == 200


def test_pieces_are_those_of_the_timeline() -> None:
    """Overlaps cut pieces exactly where the timeline of the entries has its steps."""
    debits = [Debit(0, 9, 100, NOISES[0]), Debit(5, 14, 200, NOISES[1]), Debit(20, 21, 50, NOISES[0])]
    account = PublicAccount(THETA, "prior")
    for debit in debits:
        account.charge(account.entries + 1, debit)
    expected = [(entry.first, entry.last) for entry in public_timeline(debits)]
    assert [(piece.first, piece.last) for piece in account._pieces] == expected


def test_a_long_ledger_is_taken_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many entries together come to the same as one by one."""
    debits = [
        (n + 1, Debit(n * 7, n * 7 + 6 + n % 3, NANO // (3 + n % 4), NOISES[n % 3]))
        for n in range(account_module.FEW + 9)
    ]
    monkeypatch.setattr(account_module, "debits_after", lambda *_: debits)
    together, apart = PublicAccount(THETA, "prior"), PublicAccount(THETA, "prior")
    together.follow(None, "motion")  # type: ignore[arg-type]  # the database is not asked
    for entry, debit in debits:
        apart.charge(entry, debit)
    assert together.price().epsilon == pytest.approx(apart.price().epsilon, rel=1e-9)
    assert together._pieces == apart._pieces
    assert together.entries == apart.entries


def test_it_follows_only_what_is_new(tmp_path: Path) -> None:
    """Reading the ledger again adds nothing twice."""
    from tests.calibrator.site import desk, sqlite

    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        for number in range(3):
            here.window(number)
            here.cohort.close_due()
        account = PublicAccount(THETA, "prior")
        with here.engine.begin() as db:
            account.follow(db, "motion")
            first = account.price()
            account.follow(db, "motion")
        assert account.price() == first
        assert account.entries == 3


def test_a_proposal_is_followed_once_and_only_while_nothing_else_was() -> None:
    """What was priced is what is followed; a proposal from before another entry is refused, and nothing changes."""
    account = PublicAccount(THETA, "prior")
    proposed, other = account.propose(MIXED[0]), account.propose(MIXED[1])
    account.commit(7, proposed)
    assert account.price() == proposed.price()
    for stale in (other, proposed):
        with pytest.raises(ValueError, match="another entry"):
            account.commit(8, stale)
    assert (account.price(), account.entries) == (proposed.price(), 1)
