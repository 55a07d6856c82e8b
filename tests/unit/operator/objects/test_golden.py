"""Every field of what the controller builds is the one in the golden file."""

from __future__ import annotations

import pytest
from tests.unit.operator.objects.golden import Case, built, cases

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_the_controller_builds_what_the_golden_file_says(case: Case) -> None:
    assert built(case, CASES) == (case["objects"] or {}), "make golden writes it anew"
