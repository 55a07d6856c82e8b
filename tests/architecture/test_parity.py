"""The comparison with Flink names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_comparison_with_flink_names_exists() -> None:
    text = (ROOT / "docs" / "flink-parity.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", text))
    existing = {
        name
        for file in (ROOT / "tests").glob("**/test_*.py")
        for name in re.findall(r"^ *def (test_\w+)", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }

    assert named, "the comparison names no tests"
    assert named - existing == set()
