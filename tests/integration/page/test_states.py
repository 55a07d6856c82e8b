"""Every recorded state, in light and dark, on a wide and a narrow window."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.page.browser import tab
from tests.integration.page.served import Driver, PageServer
from tests.integration.page.states import HOSTILE, STATES

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", STATES)
def test_a_state_is_shown_without_a_problem(browser: Any, pages: PageServer, name: str, scheme: str) -> None:
    state = STATES[name]()
    pages.drivers[name] = Driver(state, write=True)
    with tab(browser, scheme) as seen:
        seen.open(pages.url(name))

        assert seen.text("h1").startswith(state["job"]["name"])
        assert seen.text(".verdict .sentence") == state["diagnosis"]["sentence"]
        for width, height in ((1440, 900), (390, 844)):
            seen.page.set_viewport_size({"width": width, "height": height})
            assert seen.violations() == []
            assert not seen.overflows()
        assert seen.problems == []
        assert seen.hosts == {f"127.0.0.1:{pages.port}"}


@pytest.mark.parametrize("name", ["behind", "hostile", "no-data"])
def test_the_drawer_of_a_chain_is_accessible(browser: Any, pages: PageServer, name: str) -> None:
    pages.drivers[name] = Driver(STATES[name]())
    for scheme, width in (("light", 1440), ("dark", 390)):
        pages.drivers[name].code = "only-once"
        with tab(browser, scheme, width) as seen:
            seen.open(pages.url(name))
            seen.page.locator(".chain").nth(1).press("Enter")
            seen.page.wait_for_selector(".drawer")

            assert seen.violations() == []
            assert not seen.overflows()
            assert seen.problems == []


def test_hostile_text_is_shown_as_text(browser: Any, pages: PageServer) -> None:
    pages.drivers["hostile"] = Driver(STATES["hostile"](), write=True)
    with tab(browser) as seen:
        seen.open(pages.url("hostile"))
        for summary in seen.page.locator("summary").all():
            summary.click()
        seen.page.locator(".chain").first.click()
        seen.page.wait_for_selector(".drawer")

        assert HOSTILE in seen.text("h1")
        assert seen.page.locator("img, script:not([src='app.js']), iframe, a").count() == 0
        assert seen.problems == []
