"""A store for the protocol's tests."""

from __future__ import annotations

import pytest
from tests.faulty_store import FaultyStore

from streamjob.testing.memory_store import MemoryStore


@pytest.fixture
def store() -> FaultyStore:
    """A store in memory; calls fail once it is given a plan."""
    return FaultyStore(MemoryStore())
