"""Read releases: the histograms of a cohort as they are published, over plain MQTT.

    python examples/read_releases.py --cohort home --username subscriber --password-file subscriber.password

With an MQTT client of your own, subscribe to hush/1/<cohort>/release/# and call hushmq.read_release(payload).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hushmq import Problem, ReleaseReader


def main() -> int:
    parser = argparse.ArgumentParser(description="Print the releases of a cohort as they come.")
    parser.add_argument("--broker", default="mqtt://127.0.0.1:1883", help="default: mqtt://127.0.0.1:1883")
    parser.add_argument("--cohort", default="home", help="default: home")
    parser.add_argument("--username", help="identity at the broker")
    parser.add_argument("--password-file", type=Path, help="a file with its password")
    parser.add_argument("--ca", type=Path, help="authority that vouches for the broker, PEM; for mqtts")
    parser.add_argument("--count", type=int, help="end after so many releases; default: never")
    args = parser.parse_args()

    password = args.password_file.read_text().strip() if args.password_file else None
    with ReleaseReader(
        args.broker, cohort=args.cohort, username=args.username, password=password, ca=args.ca
    ) as reader:
        # The newest release of every window comes at once, later ones when their windows close.
        for number, release in enumerate(reader, start=1):
            # Frequencies carry noise. A standard error says how much, so that nobody takes noise for news.
            shares = zip(release.states, release.frequencies, release.standard_errors, strict=True)
            told = ", ".join(f"{state} {share:.3f} ± {error:.3f}" for state, share, error in shares)
            print(f"{release.stream}/{release.window}/{release.scope} {release.first}…{release.last}: {told}")
            # The same with what earlier releases and Θ say: nearer to the truth where noise is large.
            if release.smoothed is not None:
                smoothed = zip(release.states, release.smoothed, strict=True)
                print("  smoothed " + ", ".join(f"{state} {share:.3f}" for state, share in smoothed))
            # What all releases of this stream together let anyone infer, and the budget it must stay within.
            print(f"  loss {release.loss:.4f} of {release.budget:g}", flush=True)
            if number == args.count:
                break
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Problem as problem:  # no broker there, a wrong password, a certificate that is not trusted
        sys.exit(str(problem))
    except KeyboardInterrupt:
        sys.exit(130)
