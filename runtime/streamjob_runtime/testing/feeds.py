"""The input of a source under test: files of JSON that appear one after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob_runtime.testing.errors import InvalidRows
from streamjob_runtime.testing.values import BadValue, json_of, read_row

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Row = Mapping[str, Any]


def rows_of(whom: str, rows: Sequence[Any], columns: StructType, zone: tzinfo) -> list[dict[str, Any]]:
    """Return rows with their values read by the types of their columns.

    Args:
        zone: the time zone of timestamps without one.

    Raises:
        InvalidRows: rows do not fit; lists the first ten.
    """
    read, problems = [], []
    for number, row in enumerate(rows, start=1):
        try:
            read.append(read_row(row, columns, zone))
        except BadValue as error:
            problems.append((f"row {number}: {error.what}", error.fix))
    if problems:
        told = "\n".join(f"  - {what}\n    fix: {fix}" for what, fix in problems[:10])
        raise InvalidRows(f"{whom}: {len(problems)} of {len(rows)} rows do not fit its columns\n{told}")
    return read


def lines_of(rows: Sequence[Row]) -> str:
    """Return rows as lines of JSON, which Spark reads; an empty line if there are none."""
    return "".join(f"{json.dumps(json_of(row))}\n" for row in rows) or "\n"


class Feed:
    """The files of one source.

    Args:
        directory: their directory; created.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._number = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Add a file with rows, all of which one batch reads. Without rows it only causes a batch."""
        self._number += 1
        # A name with a dot in front is invisible to Spark, so the file appears whole.
        hidden = self._directory / f".{self._number}"
        hidden.write_text(lines_of(rows))
        hidden.rename(self._directory / f"{self._number:06}.json")
