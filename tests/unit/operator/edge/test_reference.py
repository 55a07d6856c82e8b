"""The reference of the controller's process is what the code says."""

from __future__ import annotations

from tests.unit.generators import generator


def test_the_reference_is_up_to_date() -> None:
    module = generator("generate_controller")

    assert module.TARGET.read_text() == module.render(), "run `python docs/generate_controller.py`"
