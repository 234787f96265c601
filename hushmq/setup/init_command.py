"""`hushmq init`: make a site with all that a household needs, from a few answers."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushmq.broker.contract.policy_message import Policy, Window
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import level
from hushmq.broker.forecast.policy_text import forecast_lines
from hushmq.broker.forecast.stream_plan import plan_policy
from hushmq.commands.arguments import positive
from hushmq.commands.durations import duration
from hushmq.setup.first_policy import first_policy
from hushmq.setup.household import Household

EXAMPLES = """It asks for what no option says; --yes takes the defaults. Nothing runs yet: `hushmq up SITE` starts it.

examples:
  hushmq init home --yes
  hushmq init home --stream presence --states away,home --lasting 9h,15h --period 30min --threshold none
  hushmq init flat --host flat.local --port 8884 --epsilon 2 --yes --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("site", type=Path, metavar="SITE", help="the folder to make")
    parser.add_argument("--cohort", help="name of the cohort, as in the topics (default: that of the folder)")
    parser.add_argument(
        "--host", help="name or address by which devices reach this machine (default: its name and address)"
    )
    parser.add_argument("--port", type=int, default=8883, help="port of the broker (default: 8883)")
    parser.add_argument("--listen", default="0.0.0.0", help="address the broker listens on (default: all)")  # noqa: S104  # a broker must be reachable
    parser.add_argument("--stream", metavar="NAME", help="what is published (default: motion)")
    parser.add_argument("--states", metavar="A,B", help="the names of its two states (default: still,moving)")
    parser.add_argument(
        "--lasting",
        metavar="A,B",
        help="how long each state lasts on average, such as 10min,2h (default: 2s,2s)",
    )
    parser.add_argument("--period", metavar="TIME", help="how often a state is published (default: 500ms)")
    parser.add_argument(
        "--window",
        action="append",
        default=[],
        metavar="NAME=TIME",
        help="a window whose histogram is released, such as day=24h; may be repeated (default: two that fit)",
    )
    parser.add_argument(
        "--threshold",
        metavar="X",
        help="values at or above it are the second state; none: values are names of states (default: 0.5)",
    )
    parser.add_argument(
        "--epsilon", type=positive, default=4.0, help="ε of the operators; the public has half (default: 4)"
    )
    parser.add_argument("--yes", action="store_true", help="ask nothing: take the defaults")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


@dataclass(frozen=True, slots=True)
class Question:
    """Something to know about a site: the option that says it, what is asked, and the default."""

    option: str
    asked: str
    default: str
    read: Callable[[str], Any]

    def answer(self, args: argparse.Namespace, *, ask: bool) -> Any:
        """Return the option's value, or what a person answers, or the default; raise Problem if it is invalid."""
        given = getattr(args, self.option)
        while True:
            text = given
            if text is None and ask:
                text = input(f"{self.asked} [{self.default}]: ").strip()
            try:
                return self.read(text or self.default)
            except (ValueError, argparse.ArgumentTypeError) as error:
                if given is not None or not ask:
                    raise Problem(f"--{self.option}: {error}") from None
                print(error)


def run(args: argparse.Namespace) -> int:
    if not (args.yes or sys.stdin.isatty()):
        raise Problem("--yes: standard input is not a terminal to ask questions: give --yes")
    if args.epsilon > 20:
        raise Problem(f"--epsilon: {args.epsilon:g} is above 20, the most that a policy may allow")
    made = Household.create(args.site, _policy(args), host=args.host, port=args.port, listen=args.listen)
    policy = made.policy()
    plans = plan_policy(policy, dict.fromkeys(policy.streams, 1))
    if args.json:
        answer = {"site": str(args.site), "cohort": made.cohort, "urls": made.device_urls}
        print(json.dumps({**answer, "plan": {name: plan.as_tree() for name, plan in plans.items()}}))
        return 0
    print(f"{args.site}: a site for the cohort {made.cohort}, at {', '.join(made.device_urls)}")
    for name, plan in plans.items():
        print("\n".join(f"  {name}: {line}" for line in forecast_lines(plan)))
    print(
        f"  {made.ops_key} signs policies: keep it off line once the site runs; {args.site}/README.md says more"
    )
    print(f"next: hushmq up {args.site}")
    return 0


def _policy(args: argparse.Namespace) -> Policy:
    ask = not args.yes
    usual = re.sub(r"[^a-z0-9-]+", "-", args.site.absolute().name.lower()).strip("-") or "home"
    found = {
        one.option: one.answer(args, ask=ask)
        for one in (
            Question("cohort", "Name of the cohort", usual, level),
            Question("stream", "What is published", "motion", level),
            Question("states", "Its two states", "still,moving", _states),
            Question("lasting", "How long each lasts on average", "2s,2s", _durations),
            Question("period", "How often a state is published", "500ms", duration),
            Question(
                "threshold", "Values at or above this are the second state (none: names)", "0.5", _threshold
            ),
        )
    }
    if not 0.001 <= found["period"] <= 86_400:
        raise Problem("--period: it must be between 1ms and 1d")
    return first_policy(
        cohort=found["cohort"],
        stream=found["stream"],
        states=found["states"],
        dwell=found["lasting"],
        period=found["period"],
        epsilon=args.epsilon,
        threshold=found["threshold"],
        windows=dict(_window(text, found["period"]) for text in args.window),
    )


def _window(text: str, period: float) -> tuple[str, Window]:
    name, _, length = text.partition("=")
    try:
        return level(name), Window(ticks=max(1, round(duration(length) / period)))
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise Problem(f"--window: {error}; write NAME=TIME, such as day=24h") from None


def _states(text: str) -> tuple[str, str]:
    names = tuple(name.strip() for name in text.split(","))
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise ValueError(f"{text!r} is not two names: write away,home (more states: docs/states.md)")
    return names[0], names[1]


def _durations(text: str) -> tuple[float, float]:
    parts = text.split(",")
    if len(parts) != 2:
        raise ValueError(f"{text!r} is not two durations: write 10min,2h")
    return duration(parts[0]), duration(parts[1])


def _threshold(text: str) -> float | None:
    if text == "none":
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < 1e300:
        raise ValueError(f"{text!r} is no number: write 0.5, or none for values that are names of states")
    return value
