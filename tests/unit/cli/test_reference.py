"""The references that are written from the code say what the code does."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("fastapi", reason="the control API and the metrics are described by the runtime's code")

ROOT = Path(__file__).resolve().parents[3]


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_api", ROOT / "docs" / "generate_api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = _generator()


@pytest.mark.parametrize("name", ["cli.md", "control-api.md", "metrics.md"])
def test_a_reference_is_in_step_with_the_code(name: str) -> None:
    written = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")

    assert written == GENERATOR.TARGETS[name](), "run `python docs/generate_api.py`"
