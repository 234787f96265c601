"""`hushmq plan`: from how long states last, or a recording, to what can be had: noise, errors, traffic, odds."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hushmq.broker.contract.policy_message import Assumption
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import level
from hushmq.broker.forecast.chosen_words import BY_CALIBRATOR, BY_DEVICES
from hushmq.broker.forecast.dwell_times import assumption_of_dwell
from hushmq.broker.forecast.policy_text import policy_text
from hushmq.broker.forecast.stream_plan import StreamPlan
from hushmq.broker.forecast.window_forecast import devices_for, epsilon_for
from hushmq.broker.service.screen_picture import save_screen
from hushmq.commands.arguments import add_adversary, add_json, positive
from hushmq.commands.durations import duration, in_words
from hushmq.explain.figure_output import SUFFIXES, show
from hushmq.plan.plan_words import plan_figure, plan_lines
from hushmq.plan.planned_stream import PlannedStream, best_period, try_periods
from hushmq.plan.read_recording import Recording, read_recording
from hushmq.plan.recorded_theta import COVERAGE, START, RecordedTheta
from hushmq.pufferfish.adversary import Adversary

EXAMPLES = """Needs no site and no broker; a recording stays on this machine. A window's error is half of the 95%
interval of a share, at the worst share: ±0.5 is what no data tells.

examples:
  hushmq plan --lasting 9h,15h --states away,home --devices 200 --window week=7d
  hushmq plan --lasting 2s,2s --devices 8 --window minute=60s --window hour=1h --error 0.05
  hushmq plan --recording home.csv --column state --every 1min --devices 50 --window day=24h
  hushmq plan --recording ada.csv --recording bo.csv --threshold 70 --every 1s --window hour=1h --per-device
  hushmq plan --lasting 2s,2s --window hour=1h --write policy.toml --picture plan.svg"""
FLOOR = 1.5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--lasting",
        dest="dwell",
        metavar="A,B",
        help="how long each of two states lasts on average: 10min,2h",
    )
    parser.add_argument(
        "--recording",
        type=Path,
        action="append",
        metavar="FILE.csv",
        help="instead: one value for each row; may be repeated, one file for each device",
    )
    parser.add_argument(
        "--regimes",
        choices=("auto", "yes", "no"),
        default="auto",
        help="whether Θ lists chains with hidden regimes, fitted to the recordings (default: where first-order "
        "chains do not fit; not against the informed adversary)",
    )
    parser.add_argument(
        "--coverage",
        type=_coverage,
        default=COVERAGE,
        metavar="P",
        help="with regimes: the probability that Θ covers a person who was not recorded, judged by how the recordings "
        f"differ; 0 for the recorded ones alone (default: {COVERAGE:g})",
    )
    parser.add_argument(
        "--made-by",
        choices=("auto", "stream", "device"),
        default="auto",
        help="who makes releases: the calibrator from the noisy stream, or each device (default: what has the "
        "least error for a recording, else the stream)",
    )
    parser.add_argument("--column", metavar="NAME", help="its column (default: the last one)")
    parser.add_argument("--every", type=duration, metavar="TIME", help="how far apart its rows are")
    parser.add_argument(
        "--threshold", type=float, metavar="X", help="values are numbers, from X on the second state"
    )
    parser.add_argument("--states", metavar="A,B", help="names of the states, in order (default: low,high)")
    parser.add_argument(
        "--window",
        action="append",
        default=[],
        metavar="NAME=TIME",
        help="a window to be released, the most important first; may be repeated (required)",
    )
    parser.add_argument("--per-device", action="store_true", help="a release for each device too")
    parser.add_argument(
        "--devices", type=int, default=1, metavar="N", help="how many devices there are (default: 1)"
    )
    parser.add_argument(
        "--period",
        type=duration,
        metavar="TIME",
        help="how often a state is published (default: what is best)",
    )
    parser.add_argument(
        "--epsilon", type=positive, help="ε of the operators (default: 4, or what --error needs)"
    )
    parser.add_argument("--public", type=positive, help="ε of the public (default: half of that)")
    parser.add_argument("--error", type=positive, metavar="X", help="say what reaches ±X in the first window")
    add_adversary(parser)
    parser.set_defaults(adversary=None)
    parser.add_argument("--cohort", default="home", help="name of the cohort in the policy (default: home)")
    parser.add_argument("--stream", default="presence", help="name of the stream (default: presence)")
    parser.add_argument("--write", type=Path, metavar="FILE.toml", help="write a commented policy")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write the picture as FILE.png or FILE.svg"
    )
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="save this screen as a picture")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    stream, allowed, reasons, recorded_only = _stream(args)
    window = next(iter(stream.windows))
    _check_files(args)
    tried: list[tuple[float, float]] = []
    if args.period is None:
        if sys.stderr.isatty() and not args.json:
            print("trying periods …", end="\r", file=sys.stderr, flush=True)
        tried = try_periods(stream, window, allowed)
    elif not allowed(args.period):
        raise Problem(f"--period: {in_words(args.period)} is no multiple of --every, {in_words(args.every)}")
    period = args.period or best_period(tried)
    if reasons and sys.stderr.isatty() and not args.json:
        print("pricing chains with regimes …", end="\r", file=sys.stderr, flush=True)
    stream, why = _maker(args, stream, period)
    reasons += why
    plan = stream.plan(period)
    if recorded_only is not None:
        reasons.append(stream.price_of_covering(plan, period, recorded_only))
    reached = None if args.error is None else _reach(stream, plan, window, args.error)
    if reached is not None and args.epsilon is None and reached["epsilon"] is not None:
        plan = stream.plan(period, reached["epsilon"])
    lines = plan_lines(stream, plan, period, args.period is None, reasons)
    if reached is not None:
        lines += _reach_words(stream, plan, window, args.error, reached)
    if args.write is not None:
        epsilon = plan.policy.epsilon.operator
        _write(args.write, policy_text(stream.policy(period, epsilon), {stream.name: plan}))
        lines.append(f"{args.write} is written: hushmq push publishes it")
    if args.picture is not None:
        save_screen(args.picture, "hushmq plan", "\n".join(lines))
    if args.json:
        tree = {"period": period, **plan.as_tree(), "reach": reached, "periods": tried, "reasons": reasons}
        print(json.dumps({stream.name: tree}, allow_nan=False))
    else:
        print("\n".join(lines))
    if args.output is not None or (not args.json and sys.stdout.isatty()):
        show(plan_figure(stream, plan, tried), output=args.output, as_json=False)
    return 0


def _stream(
    args: argparse.Namespace,
) -> tuple[PlannedStream, Callable[[float], bool], list[str], Assumption | None]:
    """Return what is asked, which periods are possible, why Θ is what it is, and that of the recorded people alone."""
    if (args.dwell is None) == (args.recording is None):
        raise Problem("--lasting: give either it, or --recording")
    if not 1 <= args.devices <= 10**7:
        raise Problem(f"--devices: {args.devices} is out of range: 1 to 10000000")
    operator = args.epsilon or 4.0
    for name, value in (("epsilon", operator), ("public", args.public or operator / 2)):
        if value > 20:
            raise Problem(f"--{name}: {value:g} is above 20, the most that a policy may allow")
    names = None if args.states is None else tuple(name.strip() for name in args.states.split(","))
    if names is not None and (not all(names) or len(set(names)) != len(names)):
        raise Problem(f"--states: {args.states!r} is no list of different names")
    for option in ("cohort", "stream"):
        try:
            level(getattr(args, option))
        except ValueError as error:
            raise Problem(f"--{option}: {error}") from None
    assumption: Callable[[float], Assumption]
    reasons: list[str] = []
    recorded_only: Assumption | None = None
    adversary: Adversary = args.adversary or "informed"
    if args.recording is not None:
        recorded = RecordedTheta.choose(
            _recordings(args, names),
            args.every,
            args.adversary,
            args.regimes,
            coverage=args.coverage,
            epsilons=(operator, args.public or operator / 2),
        )
        states, dwell, adversary = recorded.recordings[0].names, recorded.dwell(), recorded.adversary
        assumption, allowed, reasons = recorded.assumption, recorded.allowed, list(recorded.reasons)
        recorded_only = recorded.recorded_only
        if recorded.regimes is not None and args.period is None:
            args.period = float(args.every)
    else:
        if args.regimes == "yes":
            raise Problem("--regimes: they are fitted to recordings: give --recording")
        times = _durations(args.dwell)
        states, dwell = names or ("low", "high"), times
        if len(states) != 2:
            raise Problem("--states: --lasting is for two states; for more give a --recording")

        def assumption(period: float) -> Assumption:
            return assumption_of_dwell(times, period, start=START, floor=FLOOR)

        def allowed(period: float) -> bool:
            return 0.001 <= period <= 86_400

    stream = PlannedStream(
        cohort=args.cohort,
        name=args.stream,
        states=states,
        threshold=args.threshold,
        dwell=dwell,
        assumption=assumption,
        windows=_windows(args.window),
        scopes=("cohort", "device") if args.per_device else ("cohort",),
        epsilon=operator,
        public=args.public or operator / 2,
        adversary=adversary,
        devices=args.devices,
        by_devices=args.made_by == "device",
    )
    return stream, allowed, reasons, recorded_only


def _recordings(args: argparse.Namespace, names: tuple[str, ...] | None) -> list[Recording]:
    if args.every is None:
        raise Problem("--every: missing; say how far apart the rows of the recording are, such as 1min")
    found = [read_recording(path, args.column, names, args.threshold) for path in args.recording]
    for path, one in zip(args.recording, found, strict=True):
        if one.names != found[0].names:
            raise Problem(f"--recording: {path} has other states than the first one: name them with --states")
    return found


def _maker(args: argparse.Namespace, stream: PlannedStream, period: float) -> tuple[PlannedStream, list[str]]:
    """Return the stream with the maker of its releases that has the least error at first, and why."""
    if args.made_by != "auto" or args.recording is None or args.error is not None:
        return stream, []
    errors: dict[bool, float] = {}
    for by_devices in (False, True):
        try:
            tried = replace(stream, by_devices=by_devices)
            errors[by_devices] = tried.error(tried.plan(period))
        except Problem:
            errors[by_devices] = math.inf
    chosen = errors[True] < errors[False]
    times = math.exp(abs(errors[True] - errors[False])) if math.isfinite(max(errors.values())) else math.inf
    mine, other = (BY_DEVICES, BY_CALIBRATOR) if chosen else (BY_CALIBRATOR, BY_DEVICES)
    why = f"{mine}: at first, errors are {times:.2g} times as large if {other}"
    return replace(stream, by_devices=chosen), [f"{why}; nothing is learned" if chosen else why]


def _coverage(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value != 0 and not 0.5 <= value <= 0.99:
        raise argparse.ArgumentTypeError(f"{text!r} is neither 0 nor a probability from 0.5 to 0.99")
    return value


def _durations(text: str) -> tuple[float, float]:
    parts = text.split(",")
    if len(parts) != 2:
        raise Problem(f"--lasting: {text!r} is not two durations: write 10min,2h")
    try:
        return duration(parts[0]), duration(parts[1])
    except argparse.ArgumentTypeError as error:
        raise Problem(f"--lasting: {error}") from None


def _windows(texts: list[str]) -> dict[str, float]:
    found = {}
    for text in texts:
        name, _, length = text.partition("=")
        try:
            found[level(name)] = duration(length)
        except (ValueError, argparse.ArgumentTypeError) as error:
            raise Problem(f"--window: {error}; write NAME=TIME, such as day=24h") from None
    if not found:
        raise Problem("--window: missing; name a window to be released, such as --window day=24h")
    return found


def _check_files(args: argparse.Namespace) -> None:
    for name in ("write", "output", "picture"):
        path: Path | None = getattr(args, name)
        if path is not None and not path.absolute().parent.is_dir():
            raise Problem(f"--{name}: {path.parent} is no folder")
    if args.output is not None and args.output.suffix not in SUFFIXES:
        raise Problem(f"--output: {args.output} does not end in {' or '.join(SUFFIXES)}")
    if args.write is not None and args.write.exists():
        raise Problem(f"--write: {args.write} exists already: remove it, or name another file")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise Problem(f"--write: {path}: {error.strerror}") from None


def _reach(stream: PlannedStream, plan: StreamPlan, window: str, wanted: float) -> dict[str, float | None]:
    """What reaches the wanted half-width once Θ is learned: so many devices, or this ε of operators."""
    if plan.best is None:
        return {"devices": None, "epsilon": None}
    theta = plan.best.theta
    return {
        "devices": devices_for(plan.policy, theta, window, wanted),
        "epsilon": epsilon_for(plan.policy, theta, window, wanted, devices=stream.devices),
    }


def _reach_words(
    stream: PlannedStream, plan: StreamPlan, window: str, wanted: float, reached: dict[str, float | None]
) -> list[str]:
    devices, epsilon = reached["devices"], reached["epsilon"]
    return [
        f"to know {window} within ±{wanted:g} once Θ is learned:",
        f"  with ε {stream.epsilon:g}: {'no number of devices' if devices is None else f'{devices:.0f} devices'}",
        f"  with {stream.devices} device{'s' * (stream.devices != 1)}: "
        f"{'no ε up to 20' if epsilon is None else f'ε {epsilon:.3g} for operators'}",
    ]
