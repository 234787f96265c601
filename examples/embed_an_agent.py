"""Embed an agent: your program reads the sensor, the agent adds the noise, stores and publishes.

    python examples/embed_an_agent.py --config agent.toml --stream presence

The file is the one `hushmq agent run` takes (README), with this source for the stream:

    [streams.presence.source]
    kind = "offer"
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from hushmq import Agent, Problem, load_agent_config


def read_sensor(presence: float) -> float:
    """Stands for your sensor: somebody comes or goes every now and then."""
    return 1.0 - presence if random.random() < 0.1 else presence


def main() -> int:
    parser = argparse.ArgumentParser(description="Offer the values of a sensor to an agent of one's own.")
    parser.add_argument("--config", default="agent.toml", help="the device's settings; default: agent.toml")
    parser.add_argument("--stream", default="presence", help="default: presence")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long; default: 60")
    args = parser.parse_args()

    presence = 0.0
    # The with block starts the agent on a thread of its own, and stops it in good order whatever happens inside.
    with Agent(load_agent_config(args.config)) as agent:
        # The agent publishes nothing before it has a policy and a noise setting, both signed by keys it trusts.
        if not agent.wait_ready(timeout=30.0):
            print("no policy for this device yet: push one with `hushmq push`", file=sys.stderr)
            return 1
        until = time.monotonic() + args.seconds
        while time.monotonic() < until:
            presence = read_sensor(presence)
            # The value stands for the current tick and the next ones, until another is offered. It stays in memory:
            # what is stored and sent is a state with noise.
            agent.offer(args.stream, presence)
            time.sleep(0.05)
        stream = agent.report().streams[args.stream]
        print(
            f"{stream.sampled} ticks sampled: {stream.counted} counted by the calibrator, {stream.buffered} wait"
        )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Problem as problem:  # what a person can mend, in one line: a bad setting, a folder in use
        sys.exit(str(problem))
