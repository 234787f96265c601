"""Makes the site from the add-on's options at the first start, and runs it as a user without rights.

The options are read once: afterwards the policy in /data/site/policy.toml is what counts, changed by `hushmq push`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SITE = Path("/data/site")
USER = 10001
ASKED = ("host", "stream", "states", "lasting", "period", "epsilon")


def init_command(options: dict[str, object]) -> list[str]:
    """The command that makes the site; values of states are their names, as Home Assistant publishes them."""
    given = [word for name in ASKED if name in options for word in (f"--{name}", str(options[name]))]
    return ["hushmq", "init", str(SITE), *given, "--threshold", "none", "--cohort", "home", "--yes"]


def main() -> None:
    """Give the folder to the user, become the user, make the site if there is none, and run it."""
    os.chown(SITE.parent, USER, USER)
    for path in SITE.rglob("*"):
        os.chown(path, USER, USER, follow_symlinks=False)
    if SITE.is_dir():
        os.chown(SITE, USER, USER)
    options = json.loads((SITE.parent / "options.json").read_text(encoding="utf-8"))
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)
    os.environ["HOME"] = "/tmp"  # noqa: S108  # nothing is kept there
    if not SITE.is_dir() and (code := subprocess.run(init_command(options), check=False).returncode):
        sys.exit(code)
    os.execvp("hushmq", ["hushmq", "up", str(SITE)])  # noqa: S606  # one process, which gets the signals


if __name__ == "__main__":
    main()
