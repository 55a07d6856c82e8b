"""Streams on the session that jobs run with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.channels.chains import Chain, Transport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def transport(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Transport]]:
    """Open streams, by name and base."""
    opened: list[Transport] = []

    def open_stream(name: str = "stream", base: int = 0) -> Transport:
        opened.append(Transport(spark, f"{tmp_path.name}/{name}", tmp_path / name, base))
        return opened[-1]

    yield open_stream
    for each in opened:
        each.stream.close()


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Callable[..., Chain]]:
    """Run queries, by their frame and name."""
    running: list[Chain] = []

    def run(frame: DataFrame, name: str = "chain", **options: object) -> Chain:
        running.append(Chain(frame, tmp_path / "checkpoints" / name, **options))  # type: ignore[arg-type]
        return running[-1]

    yield run
    for each in running:
        each.query.stop()
