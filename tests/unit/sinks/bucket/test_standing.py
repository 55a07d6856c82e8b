"""The work that is left for a checkpoint's files."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from streamjob_runtime.sinks.bucket.standing import standing
from streamjob_runtime.sinks.bucket.writing import StagedFile

FILE = StagedFile(path="part-1-x-0.parquet", size=7, rows=1, upload="u", parts=("a", "b"))


@pytest.mark.parametrize(
    ("parts", "pending"),
    [
        ({1: "a", 2: "b"}, True),
        ({1: "a", 2: "b", 3: "of an attempt that failed"}, True),
        ({1: "a"}, False),
        ({1: "a", 2: "other"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_an_upload_waits_if_all_parts_of_the_file_are_there(parts: Mapping[int, str] | None, pending: bool) -> None:
    found = standing([FILE], [parts])

    assert (found.pending, found.missing) == (((FILE,), ()) if pending else ((), (FILE,)))
