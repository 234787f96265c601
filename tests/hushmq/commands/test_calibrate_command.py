"""`hushmq calibrate`."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from hushmq.commands.stream_model import IntervalModel
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss
from tests.hushmq.command import Hushmq

N10 = ("--q", 0.0893, "--r", 0.1092)  # heart rate of the sleeper N10 in two states


def prior_limit(epsilon: float, q: float, r: float) -> float:
    """M(ε, q, r), the closed form of docs/theory.md as it stands on paper."""
    big = math.exp(epsilon / 2)
    lean = big**2 * r - q
    return ((lean + math.sqrt(lean**2 + 4 * big**2 * (1 - q) * (1 - r))) / (2 * big * (1 - q))) ** 2


@pytest.mark.parametrize(
    ("adversary", "rho0", "rho1"), [("prior", 0.4834, 0.4593), ("informed", 0.4818, 0.4612)]
)
def test_noise_of_a_real_chain(hushmq: Hushmq, adversary: str, rho0: float, rho1: float) -> None:
    """Heart rate N10 at ε = 1 needs the noise of docs/theory.md, to all its digits, for both adversaries."""
    noise = hushmq("calibrate", *N10, "--epsilon", 1, "--adversary", adversary, "--json").json
    assert list(noise) == ["rho0", "rho1", "tau0", "tau1", "epsilon", "scale", "stride"]
    assert noise["rho0"] == pytest.approx(rho0, abs=5e-5)
    assert noise["rho1"] == pytest.approx(rho1, abs=5e-5)
    assert noise["tau0"] == pytest.approx(math.log((1 - noise["rho0"]) / noise["rho1"]), rel=1e-9)
    assert noise["tau1"] == pytest.approx(math.log((1 - noise["rho1"]) / noise["rho0"]), rel=1e-9)


def test_symmetric_chain_of_the_paper(hushmq: Hushmq) -> None:
    """The symmetric chain with θ = 0.2 at ε = 4 has ρ = 0.1641 against the prior adversary, as in CGSSY."""
    noise = hushmq("calibrate", "--q", 0.2, "--r", 0.2, "--epsilon", 4, "--adversary", "prior", "--json").json
    assert noise["rho0"] == pytest.approx(0.1641, abs=5e-5)
    assert noise["rho0"] == pytest.approx(noise["rho1"], rel=1e-12)


def test_intervals_and_the_undecided(hushmq: Hushmq) -> None:
    """Whoever knows the intervals alone is shown beside the adversary asked for, or calibrated for."""
    chains = ("--q", "0.1:0.15", "--r", "0.2:0.25", "--json")
    theta = BinaryTheta(0.1, 0.15, 0.2, 0.25)
    informed = hushmq("calibrate", *chains, "--epsilon", 4).json
    assert informed["undecided"] == pytest.approx(
        loss(theta, tau0=informed["tau0"], tau1=informed["tau1"], adversary="undecided"), rel=1e-9
    )
    kept = hushmq("calibrate", *chains, "--epsilon", 4, "--adversary", "undecided").json
    assert 3.999 < kept["epsilon"] == kept["undecided"] <= 4.0
    priced = hushmq("price", *chains, "--rho0", kept["rho0"], "--rho1", kept["rho1"]).json
    assert priced["undecided"] == pytest.approx(4.0, abs=1e-6)
    assert "undecided" not in hushmq("calibrate", *N10, "--epsilon", 2, "--json").json


def test_no_noise_hides_which_chain_it_is(hushmq: Hushmq) -> None:
    """The message names Θ, its spread, ε, and what would help."""
    chains = ("--q", "0.05:0.45", "--r", "0.05:0.45")
    said = hushmq("calibrate", *chains, "--epsilon", 1, "--adversary", "undecided").complaint
    for words in (
        "differ by 4.394 nats",
        "P(0→1) in [0.05, 0.45]",
        "ε is 1",
        "narrow Θ",
        'adversary = "informed"',
    ):
        assert words in said


def test_informed_is_the_default(hushmq: Hushmq) -> None:
    """Who names no adversary is protected from the stronger one."""
    asked = ("calibrate", *N10, "--epsilon", 2, "--json")
    assert hushmq(*asked).json == hushmq(*asked, "--adversary", "informed").json
    assert hushmq(*asked).json != hushmq(*asked, "--adversary", "prior").json


@pytest.mark.parametrize("adversary", ["prior", "informed"])
@pytest.mark.parametrize(("q", "r"), [(0.0893, 0.1092), (0.028, 0.402), (0.7, 0.6), (0.5, 0.5)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_epsilon_is_reached_and_never_passed(
    hushmq: Hushmq, q: float, r: float, epsilon: float, adversary: str
) -> None:
    """The loss attained is that of `price` for the noise, at most ε and at most 1e-9 below it."""
    chain = ("--q", q, "--r", r, "--adversary", adversary, "--json")
    noise = hushmq("calibrate", *chain, "--epsilon", epsilon).json
    priced = hushmq("price", *chain, "--rho0", noise["rho0"], "--rho1", noise["rho1"]).json
    assert priced == {"epsilon": noise["epsilon"], "stride": 1}
    assert epsilon - 1e-9 <= noise["epsilon"] <= epsilon


@pytest.mark.parametrize("adversary", ["prior", "informed"])
@pytest.mark.parametrize(
    ("q", "r", "epsilon"), [(0.0893, 0.1092, 1.0), (0.028, 0.402, 3.677), (0.3, 0.7, 2.0)]
)
def test_scale_is_for_the_prior_adversary(
    hushmq: Hushmq, q: float, r: float, epsilon: float, adversary: str
) -> None:
    """One count needs Laplace noise of scale 1/log min(M0, M1), whichever adversary the bits are hidden from."""
    noise = hushmq(
        "calibrate", "--q", q, "--r", r, "--epsilon", epsilon, "--adversary", adversary, "--json"
    ).json
    limit = math.log(min(prior_limit(epsilon, q, r), prior_limit(epsilon, r, q)))
    assert noise["scale"] == pytest.approx(1 / limit, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
@pytest.mark.parametrize(("q", "r"), [(0.7, 0.6), (0.9, 0.2), (0.95, 0.95)])
def test_scale_of_a_count_that_alternates(q: float, r: float, epsilon: float) -> None:
    """For q+r > 1 the scale is within ε, and one a millionth smaller is not."""
    theta = BinaryTheta.point(q, r)
    scale = IntervalModel(theta, "").count_scale(epsilon)
    assert loss(theta, tau0=1 / scale, tau1=1 / scale, adversary="prior") <= epsilon
    less = scale * (1 - 1e-6)
    assert loss(theta, tau0=1 / less, tau1=1 / less, adversary="prior") > epsilon


def test_weights(hushmq: Hushmq) -> None:
    """Equal weights leave the most signal, stationary ones flip the fewest samples; the two trade places."""
    asked = ("calibrate", *N10, "--epsilon", 1, "--json", "--weights")
    equal, stationary = hushmq(*asked, "equal").json, hushmq(*asked, "stationary").json

    def flipped(noise: dict[str, float]) -> float:
        return (0.1092 * noise["rho0"] + 0.0893 * noise["rho1"]) / (0.0893 + 0.1092)

    assert equal["rho0"] + equal["rho1"] < stationary["rho0"] + stationary["rho1"] - 1e-3
    assert flipped(stationary) < flipped(equal) - 1e-3
    assert max(stationary["rho0"], stationary["rho1"]) <= 0.5 * (1 + 1e-12)
    assert stationary["epsilon"] <= 1


def test_lines_for_a_person(hushmq: Hushmq) -> None:
    """Without --json: one aligned line for each value, six digits."""
    lines = hushmq("calibrate", *N10, "--epsilon", 1).out.splitlines()
    assert lines[0] == "rho0     0.481757  a 0 is sent as 1 with this probability"
    assert lines[4] == "epsilon  1         loss reached, informed adversary"
    assert lines[6] == "stride   1         of so many ticks one is published"
    assert len(lines) == 7


RIGHT = {"--q": "0.1", "--r": "0.2", "--epsilon": "1"}


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--q", "much", "argument --q: 'much' is not a number above 0 and below 1"),
        ("--q", "", "argument --q: '' is not a number above 0 and below 1"),
        ("--q", "0", "argument --q: '0' is not a number above 0 and below 1"),
        ("--q", "1", "argument --q: '1' is not a number above 0 and below 1"),
        ("--q", "-0.1", "argument --q: '-0.1' is not a number above 0 and below 1"),
        ("--q", "nan", "argument --q: 'nan' is not a number above 0 and below 1"),
        ("--r", "inf", "argument --r: 'inf' is not a number above 0 and below 1"),
        ("--r", "1e-400", "argument --r: '1e-400' is not a number above 0 and below 1"),
        ("--epsilon", "0", "argument --epsilon: '0' is not a positive, finite number"),
        ("--epsilon", "-1", "argument --epsilon: '-1' is not a positive, finite number"),
        ("--epsilon", "1e400", "argument --epsilon: '1e400' is not a positive, finite number"),
        ("--epsilon", "NaN", "argument --epsilon: 'NaN' is not a positive, finite number"),
        (
            "--adversary",
            "bob",
            "argument --adversary: invalid choice: 'bob' (choose from 'prior', 'informed', 'undecided')",
        ),
        ("--weights", "2", "argument --weights: invalid choice: '2' (choose from 'equal', 'stationary')"),
    ],
)
def test_bad_input(hushmq: Hushmq, option: str, value: str, says: str) -> None:
    """Every bad value is refused in one line that names the option, the value and what would be right."""
    words = [word for pair in {**RIGHT, option: value}.items() for word in pair]
    assert hushmq("calibrate", *words).complaint == f"hushmq: {says} (see hushmq calibrate --help)\n"


@pytest.mark.parametrize("option", list(RIGHT))
def test_missing_option(hushmq: Hushmq, option: str) -> None:
    """What is missing is named, with what it takes."""
    words = [word for pair in RIGHT.items() if pair[0] != option for word in pair]
    complaint = hushmq("calibrate", *words).complaint
    if option == "--epsilon":
        assert complaint.startswith("hushmq: the following arguments are required: --epsilon; --epsilon: ")
    else:
        assert complaint == f"hushmq: {option}: missing; give --q and --r, or --regimes\n"


def test_beyond_double_precision(hushmq: Hushmq) -> None:
    """A chain that all but never moves leaves no noise to choose at a small ε: said in one line, no traceback."""
    complaint = hushmq("calibrate", "--q", 1e-250, "--r", 1e-250, "--epsilon", 1e-9).complaint
    assert complaint.startswith("hushmq: --epsilon 1e-09 with --q 1e-250 --r 1e-250: ")


REGIMES = {
    "regimes": {
        "transition": [[0.9966, 0.0034], [0.0034, 0.9966]],
        "chains": [{"q": 0.0473, "r": 0.3827}, {"q": 0.4536, "r": 0.0264}],
    }
}


@pytest.fixture
def regimes(tmp_path: Path) -> Path:
    file = tmp_path / "regimes.json"
    file.write_text(json.dumps(REGIMES))
    return file


def test_a_chain_with_regimes(hushmq: Hushmq, regimes: Path) -> None:
    """Noise and stride for regimes keep ε, and `price` states the same loss."""
    given = ("--regimes", regimes, "--adversary", "prior", "--json")
    found = hushmq("calibrate", *given, "--epsilon", 4, "--stride", "auto").json
    assert list(found) == ["rho0", "rho1", "tau0", "tau1", "epsilon", "scale", "stride"]
    assert 2 <= found["stride"] <= 8
    noise = ("--rho0", found["rho0"], "--rho1", found["rho1"], "--stride", found["stride"])
    assert hushmq("price", *given, *noise).json == {"epsilon": found["epsilon"], "stride": found["stride"]}
    assert 3.96 <= found["epsilon"] <= 4.0


def test_regimes_are_promised_against_the_prior_adversary_only(hushmq: Hushmq, regimes: Path) -> None:
    """Said in one line, with what to write."""
    complaint = hushmq("calibrate", "--regimes", regimes, "--epsilon", 1).complaint
    assert complaint.startswith("hushmq: --adversary: informed has no proven loss for hidden regimes")
    assert complaint.endswith("write --adversary prior\n")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"chains": []}, "regimes: chains: 0 regimes; there must be 1 to 3"),
        ({"chains": [{"q": 0.1, "r": 0.2}]}, "regimes: transition: it must have 1 rows of 1 numbers"),
        ({"transition": [[0.5, 0.6], [0.5, 0.5]]}, "regimes: transition[0]: probabilities that sum to 1"),
        ({"transition": [[1.0, 0.0], [0.0, 1.0]]}, "regimes: transition: every regime must be reached"),
    ],
)
def test_a_file_that_is_no_chain(hushmq: Hushmq, regimes: Path, change: dict[str, object], says: str) -> None:
    """The file, the field and what it takes are named."""
    regimes.write_text(json.dumps({"regimes": {**REGIMES["regimes"], **change}}))
    complaint = hushmq("calibrate", "--regimes", regimes, "--epsilon", 1, "--adversary", "prior").complaint
    assert complaint.startswith(f"hushmq: {regimes}: {says}")


def test_a_strided_chain(hushmq: Hushmq) -> None:
    """--stride for one chain, both adversaries, and auto is better than every tick."""
    for adversary in ("prior", "informed"):
        chain = (*N10, "--adversary", adversary, "--json")
        found = hushmq("calibrate", *chain, "--epsilon", 2, "--stride", "auto").json
        every = hushmq("calibrate", *chain, "--epsilon", 2).json
        assert found["stride"] > 4
        assert found["rho0"] + found["rho1"] < every["rho0"] + every["rho1"]
        noise = ("--rho0", found["rho0"], "--rho1", found["rho1"], "--stride", found["stride"])
        priced = hushmq("price", *chain, *noise).json
        assert priced["epsilon"] == pytest.approx(found["epsilon"], rel=1e-12)
        assert 1.999 <= priced["epsilon"] <= 2.0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--stride", "0"), "argument --stride: '0' is not a whole number from 1 to 65536"),
        (("--stride", "often"), "argument --stride: 'often' is not a whole number from 1 to 65536"),
        (("--weights", "stationary", "--stride", "3"), "--weights: stationary is for --stride 1"),
        (("--regimes", "no.json"), "--regimes: give either it, or --q and --r"),
    ],
)
def test_options_that_do_not_go_together(hushmq: Hushmq, options: tuple[str, ...], says: str) -> None:
    """One line that names the option and what to do."""
    words = [word for pair in RIGHT.items() for word in pair]
    assert hushmq("calibrate", *words, *options).complaint.startswith(f"hushmq: {says}")


def test_intervals_have_strides_too(hushmq: Hushmq) -> None:
    """The README's box: about every 19th tick, whose noise `price` finds to be within ε."""
    box = ("--q", "0.05:0.45", "--r", "0.05:0.45")
    found = hushmq("calibrate", *box, "--epsilon", 1, "--stride", "auto", "--json").json
    assert 15 <= found["stride"] <= 25
    noise = ("--rho0", found["rho0"], "--rho1", found["rho1"], "--stride", found["stride"])
    assert hushmq("price", *box, *noise, "--json").json["epsilon"] == pytest.approx(1.0, abs=1e-6)
