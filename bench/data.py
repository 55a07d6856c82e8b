"""Makes the benchmark's input: Parquet files of random events and changes, the same ones for the same arguments."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

MINUTE_US = 60_000_000
_BEGIN_US = 1_704_067_200_000_000  # 2024-01-01
_MADE_AT = 1_704_067_200
PAYLOAD_BYTES = 1000
RECORD_BYTES = 120
_ROW_GROUP = 100_000


@dataclass(frozen=True, slots=True)
class EventFiles:
    """Events in files that are read in the order of their names.

    Args:
        records: events in all files.
        keys: different keys.
        file_records: events a file.
        files_per_minute: files that share a minute of event time.
    """

    records: int
    keys: int
    file_records: int = 250_000
    files_per_minute: int = 4

    def make(self, cache: Path) -> Path:
        """Return the directory of the files, made unless it is there."""
        directory = cache / f"events-{self.records}-{self.keys}-{self.file_records}-{self.files_per_minute}"
        if directory.is_dir():
            return directory
        making = directory.with_name(f".{directory.name}-{os.getpid()}")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        count = -(-self.records // self.file_records)
        for number in range(count):
            records = min(self.file_records, self.records - number * self.file_records)
            minute = number // self.files_per_minute
            # An event of an hour later closes all windows, also in a Spark that does not flush at the end of its input.
            table = events(number, records, self.keys, minute, closing=number == count - 1)
            file = making / f"{number:05}.parquet"
            parquet.write_table(table, file, row_group_size=_ROW_GROUP)
            # Spark reads files in the order of these times.
            os.utime(file, (_MADE_AT + number, _MADE_AT + number))
        making.rename(directory)
        return directory


def events(seed: int, records: int, keys: int, minute: int, *, closing: bool = False) -> pa.Table:
    """Return events of one minute; with `closing`, the last of them is an hour later."""
    chance = np.random.default_rng(seed)
    begin = _BEGIN_US + minute * MINUTE_US
    times = begin + np.sort(chance.integers(0, MINUTE_US, records))
    if closing:
        times[-1] = begin + 61 * MINUTE_US
    return pa.table(
        {
            "key": chance.integers(0, keys, records),
            "time": pa.array(times, pa.timestamp("us", tz="UTC")),
            "value": chance.integers(0, 10_000, records) / 100,
        }
    )


def changes(seed: int, keys: np.ndarray, version: int) -> pa.Table:
    """Return a change of each key, with a payload that does not compress."""
    chance = np.random.default_rng(seed)
    content = pa.py_buffer(chance.bytes(len(keys) * PAYLOAD_BYTES))
    offsets = pa.py_buffer(np.arange(len(keys) + 1, dtype=np.int32) * PAYLOAD_BYTES)
    payload = pa.Array.from_buffers(pa.binary(), len(keys), [None, offsets, content])
    return pa.table({"key": keys, "version": np.full(len(keys), version), "payload": payload})


def put(table: pa.Table, directory: Path, name: str) -> None:
    """Add a file to a directory that a job reads, at once."""
    hidden = directory / f".{name}"
    parquet.write_table(table, hidden, row_group_size=_ROW_GROUP, compression="none")
    hidden.rename(directory / name)


def make_records(directory: Path, records: int, count: int) -> None:
    """Write files of records with ids from 0 and bytes that do not compress."""
    directory.mkdir(parents=True)
    chance = np.random.default_rng(7)
    for number in range(count):
        content = pa.py_buffer(chance.bytes(records * (RECORD_BYTES - 8)))
        offsets = pa.py_buffer(np.arange(records + 1, dtype=np.int32) * (RECORD_BYTES - 8))
        payload = pa.Array.from_buffers(pa.binary(), records, [None, offsets, content])
        ids = np.arange(number * records, (number + 1) * records)
        put(pa.table({"id": ids, "payload": payload}), directory, f"{number:06}.parquet")
