"""A browser and a server for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.page.served import PageServer, page_server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Return a Chromium."""
    from tests.integration.page.browser import chromium

    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages() -> Iterator[PageServer]:
    """Return a server without drivers."""
    with page_server() as found:
        yield found
