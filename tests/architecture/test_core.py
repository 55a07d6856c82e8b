"""`make test` leaves slow tests out, and still shows something of each part."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

INTEGRATION = Path(__file__).resolve().parents[1] / "integration"
FOLDERS = sorted({file.parent.name for file in INTEGRATION.glob("*/test_*.py")})
NEEDS_A_BUILD = {"charts", "release"}
"""Helm and actionlint are built for minutes where they are missing; a scenario of `make e2e` installs the chart."""

_ALL_ARE_SLOW = re.compile(r"^pytestmark = .*\bpytest\.mark\.slow\b", re.MULTILINE)
_SOME_ARE_CORE = re.compile(r"@pytest\.mark\.core\b|\bcore\(")


@pytest.mark.parametrize("folder", [each for each in FOLDERS if each not in NEEDS_A_BUILD])
def test_make_test_shows_something_of_each_folder(folder: str) -> None:
    texts = [file.read_text() for file in (INTEGRATION / folder).glob("test_*.py")]

    assert any(_SOME_ARE_CORE.search(text) or not _ALL_ARE_SLOW.search(text) for text in texts)


def test_a_folder_that_is_left_out_exists() -> None:
    assert set(FOLDERS) >= NEEDS_A_BUILD
