"""The controller over fakes, for the tests of its edge."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.operator.edge.bench import Bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Give a controller over fakes that does not wait for the disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    return Bench(tmp_path)
