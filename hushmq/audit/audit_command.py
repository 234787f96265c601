"""The command line of the audit: the claim, the number of samples, and the verdict."""

from __future__ import annotations

import argparse
from pathlib import Path

from hushmq.agent.perturb import Mechanism
from hushmq.audit.claim import Claim, claim_of_agent, claim_of_numbers
from hushmq.audit.measure import Audit, Perturb, audit
from hushmq.broker.contract.messages import Batch, decode
from hushmq.broker.contract.packing import unpack
from hushmq.broker.contract.problem import Problem
from hushmq.commands.answer import Line, answer
from hushmq.commands.arguments import add_adversary, add_json, naming_input, positive, probability
from hushmq.commands.progress_bar import bar
from hushmq.pufferfish.binary.binary_noise import BinaryNoise

NUMBERS = ("q", "r", "rho0", "rho1", "epsilon")
FEWEST, MOST = 10_000, 10**10

NOTES = """Perturbs simulated states as a device does, and searches for outputs that reveal more than is claimed. The
device's data is never read. All results are lower bounds on the loss that hold simultaneously with the
stated confidence.

transcripts  from the frequency of the most informative outputs around one tick; no assumption on the noise
ticks        from the frequency of flips of single states; assumes that ticks are perturbed independently
independence a test of that assumption

Exit code 0: the claim is not refuted. 1: it is refuted, and the verdict says why. With --config the claim is
the loss of the agent's stream to operators, for the settings in its folder; windows that the device releases
itself are priced as stated, not sampled. A stream of more than two states is audited on one chain of its Θ,
so the bounds are weaker.

examples:
  hushmq audit --config agent.toml
  hushmq audit --config agent.toml --stream motion --json
  hushmq audit --q 0.0893 --r 0.1092 --rho0 0.4818 --rho1 0.4612 --epsilon 1
  hushmq audit --q 0.0893 --r 0.1092 --rho0 0.2689 --rho1 0.2689 --epsilon 1   # plain randomized response"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = NOTES
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="an agent's TOML file: audit the settings it follows"
    )
    parser.add_argument("--stream", metavar="NAME", help="with --config: which stream, if there are several")
    for name, help_ in (
        ("q", "chance per tick of 0→1, inside (0, 1)"),
        ("r", "chance per tick of 1→0, inside (0, 1)"),
        ("rho0", "the probability that a 0 is sent as 1, inside (0, 1)"),
        ("rho1", "the probability that a 1 is sent as 0, inside (0, 1)"),
    ):
        parser.add_argument(f"--{name}", type=probability, metavar=name.upper(), help=help_)
    parser.add_argument("--epsilon", type=positive, metavar="E", help="the loss that is claimed, in nats")
    add_adversary(parser)
    parser.add_argument(
        "--ticks",
        type=int,
        default=20_000_000,
        metavar="N",
        help=f"how many ticks to perturb, {FEWEST} to {MOST}: more show more (default 20000000, about ten seconds)",
    )
    parser.add_argument(
        "--confidence",
        type=probability,
        default=0.99,
        metavar="C",
        help="how surely a claim that is true is not refuted, inside (0, 1) (default 0.99)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    claim = _claim(args)
    if not FEWEST <= args.ticks <= MOST:
        raise Problem(f"--ticks: {args.ticks} is out of range: {FEWEST} to {MOST}")
    with naming_input("the noise"):
        found = audit(
            claim,
            _device_perturber(claim),
            ticks=args.ticks,
            confidence=args.confidence,
            progress=bar("audit"),
        )
    answer(_lines(found, as_json=args.json), as_json=args.json)
    return 1 if found.objections() else 0


def _claim(args: argparse.Namespace) -> Claim:
    given = [name for name in NUMBERS if getattr(args, name) is not None]
    if args.config is not None:
        if given:
            raise Problem(f"--config and --{given[0]}: give the agent's file or the numbers, not both")
        return claim_of_agent(args.config, args.stream)
    if args.stream is not None:
        raise Problem("--stream: it chooses among an agent's streams; give --config as well")
    if missing := [f"--{name}" for name in NUMBERS if name not in given]:
        raise Problem(f"{', '.join(missing)}: missing; give all of them, or --config with an agent's file")
    with naming_input(f"--rho0 {args.rho0:g} --rho1 {args.rho1:g}"):
        return claim_of_numbers(
            args.q, args.r, BinaryNoise(args.rho0, args.rho1), args.epsilon, args.adversary
        )


def _device_perturber(claim: Claim) -> Perturb:
    """Maps states to outputs as a device does: perturbed, packed and encoded, then decoded."""
    mechanism = Mechanism(claim.setting)

    def perturb(states: bytes) -> bytes:
        batches = (decode(Batch, made.payload) for made in mechanism.batches("audit", 0, states, None))
        return b"".join(unpack(batch.states, batch.count, batch.bits) for batch in batches)

    return perturb


def _lines(found: Audit, *, as_json: bool) -> list[Line]:
    claim, objections = found.claim, found.objections()
    why = "; ".join(objections.values())
    lines = [
        Line("epsilon", claim.epsilon, f"loss claimed, {claim.adversary} adversary"),
        *(Line(name, value, meaning) for name, (value, meaning) in found.noise.items()),
        Line("stated", claim.stated(claim.adversary), "loss computed from the noise as stated"),
    ]
    for adversary in sorted(found.by_ticks):
        best = found.best_transcripts(adversary)
        lines += [
            Line(
                f"transcripts_{adversary}",
                max(0.0, best.bound),
                f"at least; {best.witness.words} seen {best.right} times of {best.draws} if the middle is "
                f"{best.witness.state}, {best.wrong} if {best.witness.other}",
            ),
            Line(f"ticks_{adversary}", found.by_ticks[adversary], "at least, if ticks are independent"),
        ]
    return [
        *lines,
        Line(
            "independence", found.independence, "chance of as much dependence between ticks, if there is none"
        ),
        Line("ticks", found.ticks, "perturbed"),
        Line("confidence", found.confidence, "of all this together"),
        Line("verdict", "refuted" if objections else "within the claim", why),
        # The JSON object has no descriptions; the reasons of the verdict are a value of it.
        *([Line("why", why or None, "")] if as_json else []),
    ]
