"""The page of types and values is that of the matrix's tables."""

from __future__ import annotations

from tests.unit.generators import generator


def test_the_page_is_up_to_date() -> None:
    module = generator("generate_values")

    assert module.TARGET.read_text(encoding="utf-8") == module.render(), (
        "run `PYTHONPATH=. python docs/generate_values.py`"
    )
