"""The flights example, as its scripts see it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FLIGHTS = Path(__file__).resolve().parents[3] / "examples" / "flights"


@contextmanager
def modules_by_name() -> Iterator[None]:
    """Let the example's modules be imported by their names."""
    before = list(sys.path)
    sys.path.insert(0, str(FLIGHTS))
    try:
        yield
    finally:
        sys.path[:] = before
