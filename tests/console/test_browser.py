"""The console as people use it: in a browser, on a real site with a broker, a calibrator and agents.

One test, because the site and the browser are started once.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from hushmq.broker.contract.messages import encode
from hushmq.broker.contract.policy_message import Policy
from tests.console.browsed_site import BrowsedSite, browsed_site
from tests.console.browser import check_accessible, chromium, logged_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]
expect.set_options(timeout=90_000)


def test_the_console_in_a_browser(tmp_path: Path) -> None:
    """Each step says what it shows."""
    with chromium() as browser, browsed_site(tmp_path) as site:
        with logged_in(browser, site.url, "ann") as page:
            all_is_well(page)
            a_window_is_released_and_drawn(page, site)
            a_device_goes_off_line_and_comes_back(page, site)
            a_promise_is_read(page, site)
            a_ledger_is_verified(page, site)
            a_policy_is_refused_and_mended(page, site, tmp_path)
            a_part_is_drawn_closer(page, site)
        every_page_on_a_phone_in_the_dark(browser, site)
        a_viewer_is_kept_out(browser, site)


def all_is_well(page: Page) -> None:
    """The first page says so without a reload, once all devices are on line and a window has closed."""
    expect(page.locator(".verdict h2")).to_have_text("All is well")
    expect(page.locator("[data-test=devices] .big")).to_have_text("3 of 3")
    expect(page.locator("[data-test=calibrator] .big")).to_have_text("closing windows")
    check_accessible(page)


def a_window_is_released_and_drawn(page: Page, site: BrowsedSite) -> None:
    """The picture grows by itself; a key shows what a release says and cost."""
    page.goto(f"{site.url}/releases")
    words = page.locator(".chart-head .small").first
    before = int(re.findall(r"(\d+) releases", words.inner_text())[0])
    expect(words).not_to_contain_text(re.compile(rf"\b{before} releases"))
    assert int(re.findall(r"(\d+) releases", words.inner_text())[0]) > before
    chart = page.locator(".chart")
    chart.focus()
    page.keyboard.press("ArrowRight")
    expect(chart.locator(".tip")).to_contain_text("noise of scale")
    expect(chart.locator(".tip")).to_contain_text("of ε = 2")
    with page.expect_download() as started:
        page.get_by_role("link", name="table (CSV)").click()
    assert started.value.path().read_text().startswith("entry,first,last")
    check_accessible(page)


def a_part_is_drawn_closer(page: Page, site: BrowsedSite) -> None:
    """Between two points of the pointer, or around the chosen one with +; − shows all again."""
    page.goto(f"{site.url}/releases")
    chart, part = page.locator(".chart"), page.get_by_role("link", name="Show more than this part")
    place = chart.locator(".plot").bounding_box()
    assert place is not None
    middle = place["y"] + place["height"] / 2
    page.mouse.move(place["x"] + 0.05 * place["width"], middle)
    page.mouse.down()
    page.mouse.move(place["x"] + 0.95 * place["width"], middle)
    page.mouse.up()
    expect(part).to_be_visible()
    chart.focus()
    page.keyboard.press("-")
    expect(part).to_have_count(0)
    chart.focus()
    for key in ("ArrowLeft", "ArrowLeft", "+"):
        page.keyboard.press(key)
    expect(part).to_be_visible()


def a_promise_is_read(page: Page, site: BrowsedSite) -> None:
    """Losses are drawn against the budgets; the evidence for Θ comes by itself, without a reload; it prints."""
    page.goto(f"{site.url}/promise")
    expect(page.locator("h1")).to_have_text("The promise")
    expect(page.locator(".chart").first).to_be_visible()
    evidence = page.locator("[data-test=evidence]")
    expect(evidence).to_contain_text("lie wholly within the cohort's")
    expect(evidence.locator(".chart").first).to_be_visible()
    expect(page.get_by_role("heading", name="Loss at each instant")).to_be_visible()
    expect(page.locator("main")).to_contain_text("one more stream like it")
    check_accessible(page)
    page.emulate_media(media="print")
    assert page.get_by_role("button", name="Print or save as PDF").count() == 0
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.emulate_media(media="screen")


def a_ledger_is_verified(page: Page, site: BrowsedSite) -> None:
    """In the background, at a click; the checks come one by one, and the log's is among them."""
    page.goto(f"{site.url}/ledger")
    page.get_by_role("button", name="Verify now").click()
    expect(page.locator("[data-test=verify] h2")).to_have_text("The ledger is right")
    expect(page.locator(".checks li.good")).not_to_have_count(0)
    expect(page.locator(".checks")).to_contain_text("log as it was written")
    check_accessible(page)
    page.goto(f"{site.url}/log?show=job")
    expect(page.locator("tbody")).to_contain_text("started to verify the ledger")
    check_accessible(page)


def a_policy_is_refused_and_mended(page: Page, site: BrowsedSite, folder: Path) -> None:
    """A policy is proposed, signed elsewhere, and refused by devices whose limit it breaks; another one is applied."""
    for epsilon, version, words in ((6.0, 2, "Not every device has applied it"), (4.0, 3, "has applied it")):
        page.goto(f"{site.url}/plan")
        page.locator("#public").fill("1")
        page.locator("#operator").fill(f"{epsilon:g}")
        outcome = page.locator("[data-plan-outcome]")
        expect(outcome.locator("[name=operator]")).to_have_value(f"{epsilon:.1f}")
        expect(outcome).to_contain_text("≤ 73.2%")
        page.get_by_role("button", name="Propose it").click()
        proposal = page.locator("[data-test=proposal]")
        expect(proposal.locator("pre")).to_contain_text(f"policy {version - 1} → {version}")
        if version == 2:
            check_accessible(page)
        with page.expect_download() as started:
            proposal.get_by_role("link", name="take it as a file").click()
        policy = Policy.model_validate_json(started.value.path().read_bytes())
        file = folder / f"signed-{version}.json"
        file.write_bytes(encode(site.plan.ops_key.sign(policy)))
        page.set_input_files("#file", file)
        page.get_by_role("button", name="Show what would change").click()
        rollout = page.locator("[data-test=rollout]")
        expect(rollout.locator("pre")).to_contain_text(f"policy {version - 1} → {version}")
        expect(rollout).to_contain_text("It is what ann proposed")
        page.get_by_role("button", name=f"Publish policy {version}").click()
        expect(rollout.locator("h3")).to_contain_text(words)
        expect(proposal).to_have_count(0)
        if version == 2:
            check_accessible(page)
            expect(rollout).to_contain_text("3 of 3: ε is above the device's own limit")
            page.goto(f"{site.url}/devices?show=refusing")
            row = page.locator("tr[data-device=wearable-2]")
            expect(row).to_contain_text("ε is above the device's own limit")
    page.goto(f"{site.url}/devices")
    expect(page.locator("tr[data-device=wearable-2] .badge").first).to_have_text("on line")


def a_device_goes_off_line_and_comes_back(page: Page, site: BrowsedSite) -> None:
    """Its row follows, its history says when, and the first page has it among the alarms meanwhile."""
    page.get_by_role("link", name="Devices", exact=True).first.click()
    badge = page.locator("tr[data-device=wearable-1] .badge")
    expect(badge).to_have_text("on line")
    check_accessible(page)
    site.stop_agent("wearable-1")
    expect(badge).to_have_text("off line")
    page.goto(f"{site.url}/")
    expect(page.locator(".alarm", has_text="1 device off line")).to_be_visible()
    page.goto(f"{site.url}/devices/wearable-1")
    history = page.locator(".history li span")
    left = history.filter(has_text="off line")
    expect(left.first).to_be_visible()
    came = history.filter(has_text="on line")
    times = came.count()
    site.start_agent("wearable-1")
    expect(came.nth(times)).to_be_visible()
    check_accessible(page)


def every_page_on_a_phone_in_the_dark(browser: Browser, site: BrowsedSite) -> None:
    """Axe finds nothing serious, and no page is wider than the screen."""
    with logged_in(browser, site.url, "ann", scheme="dark", width=390, height=844) as page:
        for path in (
            "/",
            "/devices",
            "/devices/wearable-1",
            "/releases",
            "/promise",
            "/plan",
            "/ledger",
            "/log",
        ):
            page.goto(f"{site.url}{path}")
            check_accessible(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


def a_viewer_is_kept_out(browser: Browser, site: BrowsedSite) -> None:
    """A viewer has a shorter menu; the address of another page leads to an explanation, and nothing is shown."""
    with logged_in(browser, site.url, "vic", scheme="dark", width=390, height=844) as page:
        expect(page.locator(".verdict")).to_contain_text("You see what the public may see")
        assert page.get_by_role("link", name="Devices", exact=True).count() == 0
        assert "wearable" not in page.content()
        check_accessible(page)
        for path in ("/releases", "/promise", "/plan", "/ledger"):
            page.goto(f"{site.url}{path}")
            if path == "/releases":
                expect(page.locator(".chart")).to_be_visible()
            assert "wearable" not in page.content()
        assert page.get_by_role("button", name="Verify now").count() == 0
        page.goto(f"{site.url}/devices")
        expect(page.locator("h1")).to_have_text("This page is for operators")
        assert "wearable" not in page.content()
