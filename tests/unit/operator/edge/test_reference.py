"""The reference of the controller's process is what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[4]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_controller", ROOT / "docs" / "generate_controller.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_up_to_date() -> None:
    module = generator()

    assert module.TARGET.read_text() == module.render(), "run `python docs/generate_controller.py`"
