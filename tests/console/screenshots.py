"""Take the pictures of docs/console, on a real site: `python -m tests.console.screenshots FOLDER`."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

from tests.console.browsed_site import browsed_site
from tests.console.browser import chromium, logged_in

WARM_UP_S = 25.0
SHOTS: list[tuple[str, str, Literal["light", "dark"], int, int]] = [
    ("site", "/", "light", 1280, 720),
    ("promise", "/promise", "light", 1280, 1000),
    ("evidence", "/promise#evidence", "light", 1280, 1000),
    ("releases", "/releases", "light", 1280, 720),
    ("plan", "/plan", "dark", 1280, 720),
    ("ledger", "/ledger", "light", 1280, 720),
    ("phone-releases", "/releases", "light", 390, 844),
    ("devices", "/devices", "dark", 1280, 640),
    ("device", "/devices/wearable-3", "light", 1280, 900),
    ("phone", "/", "dark", 390, 844),
]
"""By picture: its page, the colour scheme, width and height."""
LEAVES_BEFORE = "devices"
"""From this picture on a device is off line."""


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as place,
        chromium() as browser,
        browsed_site(Path(place), agents=8) as site,
    ):
        time.sleep(WARM_UP_S)
        for name, path, scheme, width, height in SHOTS:
            if name == LEAVES_BEFORE:
                site.stop_agent("wearable-3")
            with logged_in(browser, site.url, "ann", scheme=scheme, width=width, height=height) as page:
                page.goto(f"{site.url}{path}")
                if path.startswith("/promise"):
                    page.get_by_role("heading", name="Loss at each instant").wait_for()
                    page.evaluate("location.hash && document.querySelector(location.hash).scrollIntoView()")
                page.wait_for_timeout(1_000)
                page.screenshot(path=folder / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
