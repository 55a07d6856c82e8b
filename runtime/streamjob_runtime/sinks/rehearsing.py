"""Lets a sink load what its first batch and commit need, without a claim and without a trace."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from streamjob.sink import SinkContext, StagedObject, TaskStaging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@runtime_checkable
class Rehearses(Protocol):
    """An optional interface of sinks for a process that prepares the start of a job that another process still runs."""

    def rehearse(self, context: SinkContext, rows: DataFrame) -> None:
        """Do what `open`, `stage` and `commit` do, as far as it claims, fences and writes nothing.

        Args:
            context: of a sink that is not open; its staging is local, and forgotten.
            rows: a batch without rows.

        Raises:
            StreamJobError: the target refuses something.
        """
        ...


class LocalStaging:
    """A directory in place of a sink's staging. Nothing that is put there is ever read.

    Args:
        scratch: the directory; created on first use.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._numbers = itertools.count()

    @property
    def scratch(self) -> Path:
        """The directory, which exists."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        return self._scratch

    def put(self, content: bytes | Path) -> str:
        """Forget the content, and return an unused name."""
        return f"0/{next(self._numbers):x}"

    def in_tasks(self) -> TaskStaging:
        """Return what stages objects from tasks: this, since nothing is kept."""
        return self

    def fetch(self, name: str, target: Path) -> bool:
        """Return False: no object is there."""
        return False

    def list(self) -> Iterator[StagedObject]:
        """Yield nothing."""
        return iter(())

    def delete(self, names: Iterable[str]) -> None:
        """Do nothing."""
