from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.runtime.lake.delta_tables import append


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a table of two appends below a directory whose name has to be encoded in a URL."""
    place = tmp_path / "a table é"
    append(place, 1, 2)
    append(place, 3)
    return place
