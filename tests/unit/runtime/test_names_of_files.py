"""The file whose name ends a job is found in Spark's messages."""

from __future__ import annotations

import pytest

from streamjob_runtime.chain.sources.file_names import unusable_name_in

LISTING = "java.net.URISyntaxException: Relative path in absolute URI: {}"
READING = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/{}.  SQLSTATE: KD001"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (LISTING.format("10:00:00.json\n\tat …"), "10:00:00.json"),
        (LISTING.format(".10:00:00.json.crc (/jobs/functions.py:130, in read)"), "10:00:00.json"),
        (LISTING.format("a:b (1).json (/jobs/functions.py:130)"), "a:b (1).json"),
        (LISTING.format("a:b (1).json \n"), "a:b (1).json"),
        (READING.format("10:00:00.json"), "10:00:00.json"),
        (READING.format("day=1/a%20b:c"), "a b:c"),
        (READING.format("broken.parquet"), None),
        (READING.replace("file:///in/", "s3a://bucket/").format("10:00:00.json"), None),
        ("no space left at /in/10:00", None),
    ],
)
def test_a_name_with_a_colon_is_told_from_other_errors(text: str, name: str | None) -> None:
    assert unusable_name_in(text) == name
