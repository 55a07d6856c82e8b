"""The names of a bucket sink's objects."""

from __future__ import annotations

import pytest

from streamjob.ids import CheckpointId, Epoch
from streamjob_runtime.sinks.bucket.layout import epoch_of, file_name, partition_directory, probe_key, record_key
from streamjob_runtime.sinks.bucket.records import is_record_of

UNIQUE = "0123456789abcdef" * 2


def test_a_files_name_tells_the_epoch_that_wrote_it() -> None:
    name = file_name(Epoch(12), UNIQUE, 3, ".snappy.parquet")

    assert name == f"part-12-{UNIQUE}-3.snappy.parquet"
    assert epoch_of(name) == 12
    assert epoch_of(f"day=2013-01-01/hour=5/{name}") == 12
    assert epoch_of(probe_key(Epoch(12), UNIQUE)) == 12


@pytest.mark.parametrize(
    "key", ["part-x.parquet", f"part-1-{UNIQUE[:-1]}-0.json", f"part-1-{UNIQUE}-0", "_streamjob/probe-1", "video.mp4"]
)
def test_an_upload_of_anybody_else_has_no_epoch(key: str) -> None:
    assert epoch_of(key) is None


def test_partition_directories_are_those_of_spark() -> None:
    values = ["a b", "x/y=%ü{}", "2013-01-01 06:17:00", None, ""]

    assert partition_directory(["a", "b", "at", "n", "e:"], values) == (
        "a=a b/b=x%2Fy%3D%25ü%7B}/at=2013-01-01 06%3A17%3A00/n=__HIVE_DEFAULT_PARTITION__/"
        "e%3A=__HIVE_DEFAULT_PARTITION__/"
    )
    assert partition_directory([], []) == ""


def test_records_sort_by_time_and_are_found_by_checkpoint_and_batch() -> None:
    earlier = record_key(999.9, CheckpointId(20), UNIQUE)
    later = record_key(1000.0, CheckpointId(3), UNIQUE)

    assert earlier < later
    assert is_record_of(later, CheckpointId(3), UNIQUE)
    assert not is_record_of(later, CheckpointId(3), UNIQUE[::-1])
    assert not is_record_of(record_key(1000.0, CheckpointId(13), UNIQUE), CheckpointId(3), UNIQUE)
