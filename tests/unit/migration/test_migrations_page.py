"""The page of changed queries says what their tests say."""

from __future__ import annotations

from tests.unit.generators import generator


def test_the_page_is_generated_from_the_cells() -> None:
    module = generator("generate_migrations")

    assert module.TARGET.read_text() == module.page(), "run `PYTHONPATH=. python docs/generate_migrations.py`"
