"""Chooses a sink's staging tables, and decides when to drop them; used by the staging and the committing thread.

A table receives batches until one of them is committed or the table is full. So a long checkpoint does not create
thousands of tables, each of which would cost the committing transaction a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

BATCHES_PER_TABLE = 100


@dataclass
class _Filling:
    batches: int = 0
    outstanding: set[str] = field(default_factory=set)
    closed: bool = False


class StagingTables:
    """The staging tables that a process has created in one epoch, by name.

    Args:
        capacity: maximum number of batches per table.
    """

    def __init__(self, capacity: int = BATCHES_PER_TABLE) -> None:
        self._capacity = capacity
        self._tables: dict[str, _Filling] = {}
        self._lock = threading.Lock()

    def take(self, batch: str) -> str | None:
        """Return the table for a batch, which counts as its content from now on; None if a new table is needed."""
        with self._lock:
            for name, table in self._tables.items():
                if not table.closed and table.batches < self._capacity:
                    self._add(table, batch)
                    return name
            return None

    def made(self, name: str, batch: str) -> None:
        """Add a new table with its first batch."""
        with self._lock:
            self._tables[name] = table = _Filling()
            self._add(table, batch)

    def empty(self, batch: str) -> None:
        """Record that a batch had no rows, and will not be committed."""
        with self._lock:
            for table in self._tables.values():
                if batch in table.outstanding:
                    table.outstanding.remove(batch)
                    table.batches -= 1

    def close_for(self, batches: Iterable[str]) -> list[str]:
        """Close the tables of batches that are about to be committed; return those without other batches."""
        committed = set(batches)
        with self._lock:
            for table in self._tables.values():
                table.closed = table.closed or bool(table.outstanding & committed)
            return [name for name, table in self._tables.items() if table.closed and table.outstanding <= committed]

    def committed(self, batches: Iterable[str], dropped: Iterable[str]) -> None:
        """Forget committed batches, and the tables that were dropped with them."""
        gone = set(batches)
        with self._lock:
            for name in dropped:
                self._tables.pop(name, None)
            for table in self._tables.values():
                table.outstanding -= gone

    def unused(self) -> list[str]:
        """Return the tables without batches."""
        with self._lock:
            return [name for name, table in self._tables.items() if not table.outstanding]

    def _add(self, table: _Filling, batch: str) -> None:
        table.batches += 1
        table.outstanding.add(batch)
