"""`hushmq scale`: the Laplace scale that each method requires for a query of a stream."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from hushmq.commands.answer import Line, answer
from hushmq.commands.arguments import add_epsilon, add_json
from hushmq.commands.chain_file import FORMAT, Chains, read_chains
from hushmq.commands.progress_bar import bar
from hushmq.pufferfish.papers import baselines
from hushmq.pufferfish.quilt import markov_quilt as mqm
from hushmq.pufferfish.quilt import tilted_quilt as quilt
from hushmq.pufferfish.quilt.laplace_scale import NO_QUILT, LaplaceScale, Quilt
from hushmq.pufferfish.quilt.noise_lower_bound import noise_lower_bound

Method = Callable[[Chains, float], LaplaceScale]

METHODS: dict[str, Method] = {
    "entry": lambda given, epsilon: baselines.entry(epsilon),
    "group": lambda given, epsilon: baselines.group(given.length, epsilon),
    "gk16": lambda given, epsilon: baselines.gk16(given.chains, given.length, epsilon),
    "mqm-approx": lambda given, epsilon: mqm.approx(mqm.Mixing.of(given.chains), given.length, epsilon),
    "mqm-exact": lambda given, epsilon: mqm.exact(given.chains, given.length, epsilon),
    "tilted-quilt": lambda given, epsilon: quilt.tilted_quilt_scale(given.chains, given.length, epsilon),
    "limit": lambda given, epsilon: noise_lower_bound(given.chains, given.length, epsilon),
}

NOTES = f"""The Laplace scale for a query that changes by at most 1 when the state at one tick changes (for a
histogram, which changes by 2, twice that). The guarantee, for all methods but entry and limit: the
loss at any one tick to an adversary who knows the chain and no state is at most E nats.

methods:
  entry         plain differential privacy: ignores correlation, a weaker guarantee
  group         treats all ticks as one secret
  gk16          Ghosh and Kleinberg's influence matrix; only for weak correlation
  mqm-approx    Markov quilts from the mixing of the chain alone
  mqm-exact     Markov quilts
  tilted-quilt  the least noise we can certify
  limit         not a method: the lower bound for every Laplace histogram

{FORMAT}

quilt: the distances of the active quilt's nodes before and after the secret; none: no node on that side.
exit code 1 if the method has no answer for these chains: the reason is on standard error, and with
--json the scale is null.

examples:
  hushmq scale CHAIN.json --epsilon 1 --method tilted-quilt
  hushmq scale CHAIN.json --epsilon 1 --method mqm-exact --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = NOTES
    parser.add_argument("chain", type=Path, metavar="CHAIN.json", help="the chains, as described below")
    add_epsilon(parser)
    parser.add_argument("--method", choices=tuple(METHODS), required=True, help="as described below")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    given = read_chains(args.chain)
    show = bar("scale")
    show(0.0)
    try:
        found = METHODS[args.method](given, args.epsilon)
    except ValueError as error:
        show(1.0)
        # The input is valid: the method has no answer for it.
        print(f"hushmq: --method {args.method}: {error}", file=sys.stderr)
        if args.json:
            _answer(args.method, None, NO_QUILT, as_json=True)
        return 1
    show(1.0)
    _answer(args.method, found.scale, found.quilt, as_json=args.json)
    return 0


def _answer(method: str, scale: float | None, quilt: Quilt, *, as_json: bool) -> None:
    answer(
        [
            Line("method", method, ""),
            Line("scale", scale, "Laplace scale for a query that one state changes by at most 1"),
            Line("quilt", quilt, "ticks before and after the secret to the active quilt's ends"),
        ],
        as_json=as_json,
    )
