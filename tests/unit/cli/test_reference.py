"""The references that are written from the code say what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.generators import generator

pytest.importorskip("fastapi", reason="the control API and the metrics are described by the runtime's code")

ROOT = Path(__file__).resolve().parents[3]


GENERATOR = generator("generate_api")


@pytest.mark.parametrize("name", ["cli.md", "control-api.md", "metrics.md"])
def test_a_reference_is_in_step_with_the_code(name: str) -> None:
    written = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")

    assert written == GENERATOR.TARGETS[name](), "run `python docs/generate_api.py`"


def test_the_reference_of_the_python_api_is_in_step_with_the_docstrings() -> None:
    python = generator("generate_python")

    assert python.TARGET.read_text(encoding="utf-8") == python.render(), "run `python docs/generate_python.py`"


def test_the_page_of_a_new_version_of_spark_lists_what_is_used_of_its_inside() -> None:
    spark = generator("generate_spark")

    assert spark.TARGET.read_text(encoding="utf-8") == spark.render(), "run `python docs/generate_spark.py`"
