"""Compares jobs that start from the same snapshot."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.integration.runtime.purchases import Rows, line_rows

from streamjob.snapshot.record import LogRecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def published_up_to(spark: SparkSession, sink: Path, checkpoint: int, into: Path) -> Rows:
    """Return the rows of the JSON sink that were published by `checkpoint` and those before."""
    names = [
        entry["path"]
        for listing in (sink / "_streamjob" / "published").glob("*.json")
        if int(listing.stem) <= checkpoint
        for entry in json.loads(listing.read_bytes())["files"]
    ]
    into.mkdir()
    for name in names:
        (into / name).hardlink_to(sink / name)
    return line_rows(spark, into) if names else Counter()


def fresh_sinks(directory: Path) -> tuple[str, ...]:
    return tuple(f"sinks.{sink}.options.path={directory / sink}" for sink in ("table", "lines"))


def first_completion(root: Path) -> dict[str, object]:
    """Return the manifest of the first checkpoint of a job, all of which are kept."""
    records = [LogRecord.model_validate_json(file.read_bytes()) for file in sorted((root / "log").glob("*.json"))]
    record = next(record for record in records if record.completes)
    content: dict[str, object] = json.loads((root / str(record.manifest)).read_bytes())
    return content
