"""Chromium for the tests of the console, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from tests.console.conftest import PASSWORDS

SERIOUS = {"serious", "critical"}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium; where there is none, skip with the reason, or fail with CI=true."""
    path = shutil.which("chromium")
    if path is None:
        reason = "chromium is not installed: see tests/install-browser.sh"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        # Root has no sandbox; only pages of the console are opened.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def logged_in(
    browser: Browser,
    url: str,
    name: str,
    *,
    scheme: Literal["light", "dark"] = "light",
    width: int = 1280,
    height: int = 900,
) -> Iterator[Page]:
    """A page of somebody who is logged in. What the browser complains about, and requests elsewhere, fail the test."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
    page = context.new_page()
    page.set_default_timeout(45_000)
    wrong: list[str] = []
    page.on(
        "console",
        lambda one: wrong.append(one.text) if one.type == "error" and "403" not in one.text else None,
    )
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda one: None if one.url.startswith(url) else wrong.append(one.url))
    page.goto(f"{url}/login")
    page.fill("#name", name)
    page.fill("#password", PASSWORDS[name])
    page.keyboard.press("Enter")
    page.wait_for_selector(".live-mark.on")
    try:
        yield page
        assert wrong == []
    finally:
        context.close()


def check_accessible(page: Page) -> None:
    """Axe finds nothing serious."""
    # Of rules that nothing breaks, elements are not listed: that would take most of the time.
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    serious = [
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:120]}"
        for one in found
        if one["impact"] in SERIOUS
    ]
    assert not serious, "\n".join(serious)
