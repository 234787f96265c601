"""`hushmq audit`: it finds what is too weak, and does not cry wolf.

Where a test depends on chance, the chance that it fails with nothing wrong is below 1e-6, and the text says why.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from scipy.stats import binom

from hushmq.audit.audit_bits import BinaryAuditEvidence
from hushmq.audit.claim import Claim, claim_of_numbers
from hushmq.audit.measure import Audit, Perturb, audit
from hushmq.broker.contract.noise_message import BinaryNoiseMessage, CategoricalNoiseMessage, binary_noise_of
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss, optimal_noise
from hushmq.pufferfish.categorical.emission import randomized_response
from hushmq.pufferfish.noise.perturber import CategoryPerturber, Perturber
from hushmq.pufferfish.papers.cgssy import corollary_2_exact
from tests.agent.activity import SIMULATED, activity_noise, activity_policy
from tests.agent.peer import CALIBRATOR, Peer, noise, policy, sign, wait_until, write_config
from tests.agent.running import running
from tests.hushmq.command import Hushmq

SURE = 1 - 1e-7
HEART = (0.0893, 0.1092)


def ours(q: float, r: float, epsilon: float, adversary: Adversary = "informed") -> Claim:
    return claim_of_numbers(
        q, r, optimal_noise(BinaryTheta.point(q, r), epsilon, adversary), epsilon, adversary
    )


def stated(claim: Claim) -> BinaryNoise:
    return binary_noise_of(claim.setting.noise)


def of(claim: Claim, drawn: BinaryNoise | Perturb | None = None, ticks: int = 1_000_000) -> Audit:
    """An audit where the noise drawn may be another than stated."""
    perturb = Perturber(drawn or stated(claim)).perturb if isinstance(drawn, BinaryNoise | None) else drawn
    return audit(claim, perturb, ticks=ticks, confidence=SURE)


def plain(epsilon: float) -> BinaryNoise:
    """Randomized response as if samples were independent."""
    rho = 1 / (1 + math.exp(epsilon))
    return BinaryNoise(rho, rho)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("q", "r", "epsilon"), [(*HEART, 1.0), (0.2, 0.2, 4.0), (0.028, 0.402, 2.0), (0.7, 0.6, 1.0)]
)
@pytest.mark.parametrize("adversary", ["prior", "informed"])
def test_ours_is_within_the_claim(q: float, r: float, epsilon: float, adversary: Adversary) -> None:
    """Nothing refutes it, and every bound is a lower bound on the exact loss of both adversaries."""
    claim = ours(q, r, epsilon, adversary)
    found = of(claim)
    assert found.objections() == {}
    for kind in ("prior", "informed"):
        exact = loss(
            BinaryTheta.point(q, r), tau0=stated(claim).tau0, tau1=stated(claim).tau1, adversary=kind
        )
        assert found.best_transcripts(kind).bound < exact
        assert 0.7 * exact < found.by_ticks[kind] < exact


@pytest.mark.slow
@pytest.mark.parametrize(("q", "r"), [HEART, (0.2, 0.2), (0.7, 0.8)])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_plain_randomized_response_is_found_wanting(q: float, r: float, epsilon: float) -> None:
    """By what is seen alone, each way: transcripts without any assumption on the noise, and flips."""
    claim = claim_of_numbers(q, r, plain(epsilon), epsilon, "prior")
    found = of(claim, ticks=2_000_000)
    assert found.objections().keys() == {"stated", "transcripts", "ticks"}


@pytest.mark.slow
def test_the_literatures_noise_is_refuted_for_the_informed_adversary_only() -> None:
    """CGSSY's noise at θ=0.2 and ε=4 keeps its word to who knows nothing, and breaks it to who knows some states."""
    rho = corollary_2_exact(0.2, 4.0) * (1 + 1e-9)
    prior, informed = (
        claim_of_numbers(0.2, 0.2, BinaryNoise(rho, rho), 4.0, kind) for kind in ("prior", "informed")
    )
    assert of(prior, ticks=4_000_000).objections() == {}
    assert of(informed, ticks=4_000_000).objections().keys() >= {"stated", "ticks"}


@pytest.mark.slow
def test_noise_two_per_cent_too_weak_is_found() -> None:
    """The setting states the right ρ, the generator uses 2% less: some eighteen standard errors of the tilt."""
    claim = ours(0.2, 0.2, 1.0)
    assert claim.stated("informed") <= 1.0
    weak = BinaryNoise(0.98 * stated(claim).rho0, 0.98 * stated(claim).rho1)
    objections = of(claim, weak, ticks=4_000_000).objections()
    assert objections.keys() == {"ticks"}
    assert objections["ticks"].startswith("the flips show a loss of at least 1.")


@pytest.mark.slow
def test_noise_far_too_weak_shows_in_transcripts() -> None:
    """With a third of the noise gone, outputs alone refute the claim, whatever the noise is made of."""
    claim = ours(0.2, 0.2, 1.0)
    weak = BinaryNoise(2 / 3 * stated(claim).rho0, 2 / 3 * stated(claim).rho1)
    assert "transcripts" in of(claim, weak, ticks=4_000_000).objections()


@pytest.mark.slow
def test_noise_drawn_once_for_two_ticks_is_found() -> None:
    """Each flip has its stated probability; the pairs give it away."""
    claim = ours(*HEART, 1.0)
    even = Perturber(stated(claim))

    def paired(states: bytes) -> bytes:
        # Both ticks of a pair get the flip that a 0 would have got at the first.
        flips = even.perturb(bytes(len(states)))
        return bytes(state ^ flips[at & ~1] for at, state in enumerate(states))

    assert "independence" in of(claim, paired).objections()


@pytest.mark.slow
def test_it_does_not_cry_wolf() -> None:
    """Sixty audits at 80% of noise that loses exactly ε: no more are refuted than 20% can give by chance.

    An audit that took frequencies for probabilities would refute more than half of them.
    """
    rho = corollary_2_exact(0.3, 1.0)
    tau = math.log((1 - rho) / rho)
    claim = claim_of_numbers(
        0.3, 0.3, BinaryNoise(rho, rho), loss(BinaryTheta.point(0.3, 0.3), tau0=tau, tau1=tau), "informed"
    )
    perturb = Perturber(stated(claim)).perturb
    wolves = sum(bool(audit(claim, perturb, ticks=20_000, confidence=0.8).objections()) for _ in range(60))
    assert wolves <= binom.isf(1e-7, 60, 0.2)


def test_independence_by_definition() -> None:
    """The p-value of the one pair of ticks there is, from its correlation."""
    evidence = BinaryAuditEvidence(ours(*HEART, 1.0))
    evidence.add(bytes(1000), bytes([0, 1] * 500))
    # Alternating flips: at lag 1 the correlation is −1 over 999 pairs.
    assert evidence.dependence.p_value() < 1e-100
    assert 0.5 < evidence.most(0, 0.01) < 0.54


NUMBERS = {"--q": "0.2", "--r": "0.2", "--rho0": "0.4355", "--rho1": "0.4355", "--epsilon": "1"}


def words(**changes: str | None) -> list[str]:
    given: dict[str, str | None] = {**NUMBERS, "--ticks": "200000", "--confidence": "0.999999"}
    given |= {f"--{name}": value for name, value in changes.items()}
    return [word for name, value in given.items() if value is not None for word in (name, value)]


def test_the_command_says_within_the_claim(hushmq: Hushmq) -> None:
    """Exit code 0, a verdict, and the bounds of both adversaries in JSON."""
    found = hushmq("audit", *words(), "--json")
    assert (found.code, found.err) == (0, "")
    assert (found.json["verdict"], found.json["why"]) == ("within the claim", None)
    assert found.json["transcripts_prior"] <= found.json["transcripts_informed"] < found.json["stated"] <= 1.0
    assert found.json["ticks_prior"] <= found.json["ticks_informed"] < 1.0
    assert 190_000 < found.json["ticks"] <= 200_000


def test_the_command_says_refuted(hushmq: Hushmq) -> None:
    """Exit code 1, and why."""
    found = hushmq("audit", *words(rho0="0.2689", rho1="0.2689"))
    assert found.code == 1
    assert re.search(
        r"^verdict +refuted +the noise as stated loses 3.*; transcripts show a loss of at least",
        found.out,
        re.MULTILINE,
    )


def test_a_terminal_sees_how_far_it_is(hushmq: Hushmq, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar on standard error that is cleared before the answer; nothing where standard error is no terminal."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    found = hushmq("audit", *words())
    assert re.search(r"\raudit \[█+ +\] +\d+%", found.err)
    assert found.err.endswith("100%\r\x1b[K")
    assert "audit [" not in found.out


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (words(q="1.5"), "argument --q: '1.5' is not a number above 0 and below 1"),
        (words(rho1=None, epsilon=None), "--rho1, --epsilon: missing; give all of them, or --config"),
        (words(rho1="0.6"), "--rho0 0.4355 --rho1 0.6: rho0 + rho1 is 1.035"),
        (words(ticks="10"), "--ticks: 10 is out of range: 10000 to"),
        (words(confidence="1"), "argument --confidence: '1' is not a number above 0 and below 1"),
        (words(config="agent.toml"), "--config and --q: give the agent's file or the numbers, not both"),
        (words(stream="motion"), "--stream: it chooses among an agent's streams"),
        (["--config", "nowhere.toml"], "--config: nowhere.toml: No such file"),
    ],
)
def test_bad_input(hushmq: Hushmq, given: list[str], says: str) -> None:
    """One line that names the option."""
    assert hushmq("audit", *given).complaint.startswith(f"hushmq: {says}")


def test_help_has_examples(hushmq: Hushmq) -> None:
    """The help shows how it is used."""
    assert "\nexamples:\n  hushmq audit --config agent.toml" in hushmq("audit", "--help").out


@pytest.mark.slow
def test_a_device_can_audit_itself() -> None:
    """No numpy, nothing of an extra: what is installed on a device is enough."""
    code = (
        "import sys, hushmq.audit\n"
        "print([name for name in ('numpy', 'scipy', 'opendp', 'sqlalchemy', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


AGENT = ("--ticks", 200_000, "--confidence", 0.999999, "--json")


def test_a_running_agent(nats: BrokerProcess, tmp_path: Path, hushmq: Hushmq) -> None:
    """The settings it follows, as it says itself, keep the policy's ε for operators."""
    path = write_config(tmp_path, nats.port)
    assert "holds no settings; run the agent" in hushmq("audit", "--config", path, *AGENT).complaint
    with Peer(nats) as peer, running(path):
        peer.push(policy())
        peer.push(noise(3))
        wait_until(lambda: peer.total() > 0)
        found = hushmq("audit", "--config", path, *AGENT)
        assert (found.code, found.json["verdict"]) == (0, "within the claim")
        assert found.json["epsilon"] == 2.0
        assert found.json["rho0"] == binary_noise_of(noise(3).noise).rho0
        assert found.json["stated"] <= 2.0
        assert (
            "has no 'other'; give one of motion"
            in hushmq("audit", "--config", path, "--stream", "other").complaint
        )
        # A folder that no longer holds what the agent follows is not what its readers get.
        kept = tmp_path / "state" / "settings" / "noise-motion.json"
        kept.write_bytes(sign(noise(4), CALIBRATOR))
        assert (
            "follows version 3 of the noise for motion, the folder holds 4"
            in hushmq("audit", "--config", path, *AGENT).complaint
        )
        kept.write_bytes(sign(noise(4, noise=BinaryNoiseMessage(rho0=0.01, rho1=0.01)), CALIBRATOR))
        assert "would refuse what lies in its folder" in hushmq("audit", "--config", path, *AGENT).complaint
    # After the agent has gone, the folder alone speaks.
    kept.write_bytes(sign(noise(5), CALIBRATOR))
    assert hushmq("audit", "--config", path, *AGENT).code == 0


def response_of(claim: Claim) -> Sequence[Sequence[float]]:
    """The emission that a claim states."""
    assert isinstance(claim.setting.noise, CategoricalNoiseMessage)
    return claim.setting.noise.emission


def test_four_states_within_the_claim() -> None:
    """An honest setting of four states stands, and what is shown is a lower bound on what is proved."""
    claim = Claim(activity_noise(), 4.0, "prior")
    found = audit(claim, CategoryPerturber(response_of(claim)).perturb, ticks=400_000, confidence=SURE)
    assert found.objections() == {}
    assert (
        0.0 < found.best_transcripts("prior").bound < found.by_ticks["prior"] < claim.stated("prior") <= 4.0
    )


def test_four_states_with_too_little_noise() -> None:
    """The setting states one tilt, the generator uses a larger one: transcripts and ticks both pass ε."""
    claim = Claim(activity_noise(), 4.0, "prior")
    found = audit(
        claim, CategoryPerturber(randomized_response(4, 5.0)).perturb, ticks=400_000, confidence=SURE
    )
    assert found.objections().keys() >= {"transcripts", "ticks"}
    assert "independence" not in found.objections()


def test_four_states_drawn_once_for_two_ticks() -> None:
    """Dependence is found with any number of states."""
    claim = Claim(activity_noise(), 4.0, "prior")
    honest = CategoryPerturber(response_of(claim))

    def paired(states: bytes) -> bytes:
        shifts = honest.perturb(bytes(len(states)))
        return bytes((state + shifts[at & ~1]) % 4 for at, state in enumerate(states))

    assert audit(claim, paired, ticks=200_000, confidence=SURE).objections().keys() == {"independence"}


def test_a_running_agent_of_four_states(nats: BrokerProcess, tmp_path: Path, hushmq: Hushmq) -> None:
    """The same command: what it sends is unpacked and audited on a chain of its Θ."""
    path = write_config(tmp_path, nats.port, source=SIMULATED)
    with Peer(nats) as peer, running(path):
        peer.push(activity_policy())
        peer.push(activity_noise())
        wait_until(lambda: peer.total() > 0)
        found = hushmq("audit", "--config", path, *AGENT)
    assert (found.code, found.json["verdict"]) == (0, "within the claim")
    assert 0.0 < found.json["ticks_prior"] < found.json["stated"] <= found.json["epsilon"] == 4.0
    assert "ticks_informed" not in found.json
