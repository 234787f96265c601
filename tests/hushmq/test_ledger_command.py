"""`hushmq ledger price`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hushmq.command import Hushmq
from tests.hushmq.enumeration import TIMELINES, losses, tilts_of


@pytest.mark.parametrize(("q", "r", "ticks", "entries"), TIMELINES)
@pytest.mark.parametrize("adversary", ["prior", "informed"])
def test_price_is_the_enumerated_loss(
    hushmq: Hushmq, *, q: float, r: float, ticks: int, entries: list[dict[str, float]], adversary: str
) -> None:
    """The price is the largest loss over all paths, outputs and known sets of the n ticks, to 1e-9."""
    given = hushmq.file({"q": q, "r": r, "ticks": ticks, "entries": entries})
    found = hushmq("ledger", "price", given, "--adversary", adversary, "--json").json
    assert list(found) == ["epsilon", "tick"]
    truth = losses(q, r, tilts_of(ticks, entries), informed=adversary == "informed")
    assert found["epsilon"] == pytest.approx(max(truth), abs=1e-9)
    assert truth[found["tick"] - 1] == pytest.approx(max(truth), abs=1e-9)


def test_nothing_published(hushmq: Hushmq) -> None:
    """An empty timeline costs nothing, nowhere."""
    given = hushmq.file({"q": 0.1, "r": 0.2, "ticks": 10, "entries": []})
    assert hushmq("ledger", "price", given, "--json").json == {"epsilon": 0, "tick": None}
    assert hushmq("ledger", "price", given).out.splitlines()[1] == "tick     none  where it is reached"


@pytest.mark.parametrize("adversary", ["prior", "informed"])
def test_a_tilt_that_hides_nothing(hushmq: Hushmq, adversary: str) -> None:
    """Sixty nats at one tick of a chain that forgets quickly cost sixty nats there, and a number is given."""
    given = hushmq.file({"q": 0.5, "r": 0.4, "ticks": 50, "entries": [{"first": 9, "last": 9, "tau": 60}]})
    found = hushmq("ledger", "price", given, "--adversary", adversary, "--json").json
    assert found == {"epsilon": pytest.approx(60, abs=1e-9), "tick": 9}


def test_the_tick_is_where_the_loss_is(hushmq: Hushmq) -> None:
    """The tick named is one whose loss is the price: alone in a far corner, that corner."""
    entries = [{"first": 1, "last": 20, "tau": 0.01}, {"first": 400, "last": 400, "tau": 1}]
    found = hushmq(
        "ledger", "price", hushmq.file({"q": 0.3, "r": 0.3, "ticks": 500, "entries": entries}), "--json"
    )
    assert found.json["tick"] == 400
    assert found.json["epsilon"] == pytest.approx(1, abs=1e-9)


def test_informed_is_the_default(hushmq: Hushmq) -> None:
    """Who names no adversary gets the price against the stronger one, which here is higher."""
    given = hushmq.file({"q": 0.05, "r": 0.3, "ticks": 40, "entries": [{"first": 1, "last": 40, "tau": 1}]})
    by_default = hushmq("ledger", "price", given, "--json").json
    assert by_default == hushmq("ledger", "price", given, "--adversary", "informed", "--json").json
    assert (
        by_default["epsilon"]
        > hushmq("ledger", "price", given, "--adversary", "prior", "--json").json["epsilon"]
    )


def test_known_instants_lie_within_the_stream(hushmq: Hushmq) -> None:
    """The same entry costs more inside a longer stream, where instants around it may be known, to the informed."""

    def priced(first: int, ticks: int, adversary: str) -> float:
        entries = [{"first": first, "last": first + 4, "tau": 1}]
        given = hushmq.file({"q": 0.05, "r": 0.3, "ticks": ticks, "entries": entries})
        return float(hushmq("ledger", "price", given, "--adversary", adversary, "--json").json["epsilon"])

    assert priced(11, 25, "informed") > priced(1, 5, "informed") + 0.03
    assert priced(11, 25, "prior") == pytest.approx(priced(1, 5, "prior"), abs=1e-9)


ENTRY = {"first": 1, "last": 4, "tau": 0.25}
RIGHT = {"q": 0.1, "r": 0.2, "ticks": 10, "entries": [ENTRY]}
TICK = "a tick from 1 to 10"
TILT = "a tilt in nats, a finite number, 0 or more"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "not JSON: line 1 column 1: Expecting value"),
        ('{"q": 0.1,}', "not JSON: line 1 column 11: Expecting property name"),
        ('{"q": NaN}', "not JSON: NaN is not a number in JSON"),
        ("[" * 100_000, "not usable: lists in lists without end"),
        ([RIGHT], "a list; it must be an object {…}"),
        ({**RIGHT, "q": 0}, "q: 0; it must be a number above 0 and below 1"),
        ({**RIGHT, "q": "0.1"}, 'q: "0.1"; it must be a number above 0 and below 1'),
        ({**RIGHT, "q": True}, "q: true; it must be a number above 0 and below 1"),
        ({**RIGHT, "r": 1}, "r: 1; it must be a number above 0 and below 1"),
        ({**RIGHT, "r": None}, "r: missing; give q and r, or regimes"),
        ({key: RIGHT[key] for key in ("q", "r", "ticks")}, "entries: missing; it must be a list of entries"),
        ({**RIGHT, "ticks": 0}, "ticks: 0; it must be a whole number, 1 or more"),
        ({**RIGHT, "ticks": 10.0}, "ticks: 10.0; it must be a whole number, 1 or more"),
        ({**RIGHT, "entry": []}, "entry: unknown field; the fields are q, r, regimes, ticks, entries"),
        ({**RIGHT, "entries": ENTRY}, "entries: an object; it must be a list of entries"),
        ({**RIGHT, "entries": [ENTRY, 3]}, "entries[1]: 3; it must be an object {…}"),
        ({**RIGHT, "entries": [{**ENTRY, "first": 0}]}, f"entries[0]: first: 0; it must be {TICK}"),
        (
            {**RIGHT, "entries": [{**ENTRY, "last": 11}]},
            "entries[0]: last: 11; it must be a tick from first, 1, to 10",
        ),
        (
            {**RIGHT, "entries": [{**ENTRY, "first": 5}]},
            "entries[0]: last: 4; it must be a tick from first, 5, to 10",
        ),
        ({**RIGHT, "entries": [{**ENTRY, "tau": -1}]}, f"entries[0]: tau: -1; it must be {TILT}"),
        ({**RIGHT, "entries": [{**ENTRY, "tau": 10**400}]}, "entries[0]: tau: 1000"),
        ({**RIGHT, "entries": [{**ENTRY, "tau": None}]}, f"entries[0]: tau: null; it must be {TILT}"),
        ({**RIGHT, "entries": [{**ENTRY, "tau": True}]}, f"entries[0]: tau: true; it must be {TILT}"),
        ({**RIGHT, "entries": [{**ENTRY, "first": "1"}]}, 'entries[0]: first: "1"; it must be a tick'),
        ({**RIGHT, "entries": [{**ENTRY, "tau": "x"}]}, f'entries[0]: tau: "x"; it must be {TILT}'),
        ({**RIGHT, "entries": [{"first": 1, "last": 4}]}, f"entries[0]: tau: missing; it must be {TILT}"),
        ({**RIGHT, "entries": [{**ENTRY, "tau0": 1}]}, "entries[0]: give tau, or tau0 and tau1, not both"),
        ({**RIGHT, "entries": [{"first": 1, "last": 4, "tau0": 1}]}, "entries[0]: tau1: missing; it must be"),
        (
            {**RIGHT, "entries": [{**ENTRY, "tua": 1}]},
            "entries[0]: tua: unknown field; the fields are first, last",
        ),
    ],
)
def test_bad_file(hushmq: Hushmq, content: object, says: str) -> None:
    """Every bad file is refused in one line: the file, the way to the field, what it holds, what it takes."""
    given = hushmq.file(content)
    assert hushmq("ledger", "price", given).complaint.startswith(f"hushmq: {given}: {says}")


def test_no_file(hushmq: Hushmq, tmp_path: Path) -> None:
    """A file that is not there, a folder, or bytes that are no text: each said in one line."""
    for path, says in (
        (tmp_path / "absent.json", "No such file or directory; give a readable JSON file"),
        (tmp_path, "Is a directory; give a readable JSON file"),
    ):
        assert hushmq("ledger", "price", path).complaint == f"hushmq: {path}: {says}\n"
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe{}")
    assert hushmq("ledger", "price", binary).complaint.startswith(f"hushmq: {binary}: not UTF-8 text")


def test_missing_words(hushmq: Hushmq) -> None:
    """Without an action or a file the line says what may stand there."""
    assert "required: price" in hushmq("ledger").complaint
    assert "TIMELINE.json: the timeline" in hushmq("ledger", "price").complaint


def test_a_history_of_a_chain_with_regimes(hushmq: Hushmq, tmp_path: Path) -> None:
    """`regimes` in place of q and r; one regime costs what the chain costs."""
    entries = [{"first": 1, "last": 20, "tau": 0.3}]
    file = tmp_path / "history.json"
    file.write_text(json.dumps({"q": 0.1, "r": 0.2, "ticks": 30, "entries": entries}))
    plain = hushmq("ledger", "price", file, "--adversary", "prior", "--json").json
    one = {"transition": [[1.0]], "chains": [{"q": 0.1, "r": 0.2}]}
    file.write_text(json.dumps({"regimes": one, "ticks": 30, "entries": entries}))
    found = hushmq("ledger", "price", file, "--adversary", "prior", "--json").json
    assert found["epsilon"] == pytest.approx(plain["epsilon"], abs=1e-9)
    # The history is symmetric: both of its middle ticks have the largest loss.
    assert {found["tick"], plain["tick"]} <= {10, 11}
    assert "write --adversary prior" in hushmq("ledger", "price", file).complaint
    file.write_text(json.dumps({"regimes": one, "q": 0.1, "ticks": 30, "entries": entries}))
    assert "regimes: give either it, or q and r" in hushmq("ledger", "price", file).complaint
    file.write_text(json.dumps({"q": 0.1, "ticks": 30, "entries": entries}))
    assert "r: missing; give q and r, or regimes" in hushmq("ledger", "price", file).complaint
