"""Chromium, and all that it complains about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import urlsplit

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make browser")

_NARROW = 700


class Tab:
    """A page, and the problems that it and the browser report."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        self.expected: tuple[str, ...] = ()
        self.hosts: set[str] = set()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"raised {error.message}"))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.on("dialog", lambda dialog: self.problems.append(f"opened {dialog.message}"))
        page.add_init_script(
            "addEventListener('securitypolicyviolation', (event) => "
            "console.error(`CSP refuses ${event.violatedDirective} ${event.blockedURI}`))"
        )

    def _console(self, message: Any) -> None:
        text = f"{message.type}: {message.text}"
        if message.type in ("error", "warning") and not any(each in text for each in self.expected):
            self.problems.append(text)

    def open(self, url: str) -> None:
        """Open an address, and wait for the job."""
        self.page.goto(url)
        self.wait_for_graph()

    def wait_for_graph(self) -> None:
        """Wait for the graph of the job. It is drawn last, since the page first measures its width."""
        self.page.wait_for_selector("[aria-label='Picture of the graph'] > *")

    def text(self, selector: str) -> str:
        """Return the text of an element as readers see it."""
        return str(self.page.locator(selector).first.inner_text())

    def overflows(self) -> bool:
        """Return whether the page is wider than its window."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))

    def violations(self) -> list[str]:
        """Return the rules of accessibility that the page breaks."""
        import axe_playwright_python

        script = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
        self.page.evaluate(f"() => {{ {script} }}")
        found = self.page.evaluate("() => axe.run()")["violations"]
        return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]


@contextmanager
def chromium() -> Iterator[Any]:
    """Start Debian's Chromium, or skip the test."""
    program = which("chromium")
    if program is None:
        pytest.skip("there is no command chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # In a container as root there is no sandbox of user namespaces; the pages are our own.
        found = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--enable-precise-memory-info"])
        try:
            yield found
        finally:
            found.close()


@contextmanager
def tab(chromium: Any, scheme: str = "light", width: int = 1440, **options: Any) -> Iterator[Tab]:
    """Open an empty tab of its own session."""
    context = chromium.new_context(
        viewport={"width": width, "height": 844 if width < _NARROW else 900},
        color_scheme=scheme,
        reduced_motion="reduce",
        timezone_id="UTC",
        **options,
    )
    try:
        yield Tab(context.new_page())
    finally:
        context.close()
