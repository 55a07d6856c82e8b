"""Writes the pictures of the page in the documents: `python -m tests.integration.page.pictures`; needs Chromium."""

from __future__ import annotations

from pathlib import Path

from tests.integration.page.answers import profile
from tests.integration.page.browser import chromium, tab
from tests.integration.page.served import Driver, page_server
from tests.integration.page.states import STATES

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images"

with page_server() as pages, chromium() as browser:
    for scheme in ("light", "dark"):
        pages.drivers[scheme] = Driver(STATES["behind"](), write=True)
        with tab(browser, scheme) as seen:
            seen.open(pages.url(scheme))
            seen.page.locator(".gantt").wait_for()
            seen.page.screenshot(path=IMAGES / f"page-{scheme}.png", full_page=True)
    pages.drivers["profile"] = Driver(STATES["behind"](), write=True)
    pages.drivers["profile"].profiles = [profile("recorded")]
    with tab(browser) as seen:
        seen.open(pages.url("profile"))
        seen.page.locator(".flame").wait_for()
        seen.page.locator("section[aria-label=Profiles]").screenshot(path=IMAGES / "profile.png")
