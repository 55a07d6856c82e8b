"""Every field of what the controller builds is the one in the golden file."""

from __future__ import annotations

import pytest
from tests.unit.golden import compare
from tests.unit.operator.objects.golden import FILE, Case, built, cases, text_of

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_the_controller_builds_what_the_golden_file_says(case: Case) -> None:
    assert built(case, CASES) == (case["objects"] or {}), "make golden writes it anew"


def test_the_golden_file_has_the_form_in_which_it_is_written() -> None:
    compare(FILE, text_of(CASES))
