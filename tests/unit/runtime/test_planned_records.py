"""The number of records of a batch that runs, from what Spark has planned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamjob.ids import BatchId
from streamjob_runtime.monitoring.planned_records import planned_records

BEGIN, END = '{"orders":{"0":100,"1":50}}', '{"orders":{"0":20100,"1":60}}'
FILES = '{"logOffset":3}'


@pytest.mark.parametrize(
    ("before", "planned", "first", "expected"),
    [
        ([BEGIN], [END], None, 20_010),
        ([BEGIN, BEGIN], [END, BEGIN], None, 20_010),
        ([BEGIN], ['{"orders":{"0":100,"1":50,"2":7}}'], None, 7),
        (None, [END], BEGIN, 20_010),
        (None, [END], None, 20_160),
        (["-"], [END], BEGIN, 20_010),
        ([FILES], [FILES], None, None),
        ([BEGIN, FILES], [END, FILES], None, None),
        ([BEGIN], None, None, None),
    ],
    ids=[
        "one topic",
        "two topics",
        "a new partition",
        "the first batch",
        "the first batch, from the beginning",
        "the first rows of a source",
        "files",
        "a topic and files",
        "no plan",
    ],
)
def test_the_records_of_a_batch_are_counted_by_the_positions_in_topics(
    before: list[str] | None, planned: list[str] | None, first: str | None, expected: int | None, tmp_path: Path
) -> None:
    for batch, sources in enumerate([before, planned]):
        if sources is not None:
            write(tmp_path / "offsets" / str(batch), "\n".join(["v1", json.dumps({"conf": {}}), *sources]))
    if first is not None:
        write(tmp_path / "sources" / "0" / "0", f"\0v1\n{first}")

    assert planned_records(tmp_path, BatchId(1), range(len(planned or [BEGIN]))) == expected


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
