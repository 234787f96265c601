"""`python -m hushmq.verify EXPORT`: the checker without the command line of hushmq."""

from __future__ import annotations

import argparse
import sys

from hushmq.verify.verify_report import configure, verify


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m hushmq.verify",
        description="Check an export independently.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    configure(parser)
    try:
        return verify(parser.parse_args())
    except ValueError as error:
        print(f"verify: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
