"""Fills the bucket of the benchmark, and the checkpoint of a query that has read as much."""

from __future__ import annotations

import gzip
import io
import json
import os
import time
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from bench.object_store import ObjectStore
from pyarrow import parquet

from streamjob.store.s3_connection import S3Connection, S3Settings
from streamjob_runtime.discovery.objects import Found, Page

ROWS = 200_000
"""Rows of an object that is read for its throughput."""
_LINKS = 30_000
"""Objects that share one file: a file of ext4 has at most 65,000 names."""
_PAGE = 1000


class Bucket:
    """The bucket of a running server.

    Args:
        store: the server.
    """

    def __init__(self, store: ObjectStore) -> None:
        self.connection = S3Connection(S3Settings.from_environment())
        self.name = store.server.bucket
        self._root = store.server.directory / "data" / self.name

    def uri(self, key: str) -> str:
        """Return what Spark calls an object, or all below a prefix."""
        return f"s3a://{self.name}/{key}"

    def put(self, key: str, content: bytes) -> None:
        """Put an object."""
        self.connection.client.put_object(Bucket=self.name, Key=key, Body=content)

    def fill(self, keys: Iterable[str], content: bytes) -> None:
        """Put many objects with one content: most of them are further names of a file that the server has written."""
        for number, key in enumerate(keys):
            if number % _LINKS == 0:
                self.put(key, content)
                first = self._root / key
                continue
            file = self._root / key
            if number % _PAGE == 0 or not file.parent.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
            os.link(first, file)


def keys_in_folders(prefix: str, objects: int, folders: int) -> Iterator[str]:
    """Yield ascending keys, as many in the folder of each day."""
    of_a_folder = objects // folders
    for number in range(objects):
        yield f"{prefix}/day={number // of_a_folder:05}/{number:09}.json"


def row(number: int) -> dict[str, object]:
    """Return the row with a number."""
    return {
        "id": number,
        "key": f"key-{number * 2_654_435_761 % 100_003}",
        "amount": number * 7_919 % 1_000_003 / 100,
        "at": f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000Z",
        "note": f"a remark of some length, {number * 48_271 % 2_147_483_647:x}, about the event {number}",
    }


def as_json(rows: int = ROWS) -> bytes:
    """Return rows as gzipped lines of JSON."""
    return gzip.compress("".join(json.dumps(row(number)) + "\n" for number in range(rows)).encode(), 6)


def as_parquet(rows: int = ROWS) -> bytes:
    """Return the same rows as a file of Parquet."""
    found = pa.Table.from_pylist([row(number) for number in range(rows)])
    times = pa.compute.strptime(found["at"], "%Y-%m-%dT%H:%M:%S.000Z", "us")
    file = io.BytesIO()
    parquet.write_table(found.set_column(3, "at", times.cast(pa.timestamp("us", "UTC"))), file)
    return file.getvalue()


def say_it_was_read(checkpoint: Path, uris: Iterable[str]) -> None:
    """Let the checkpoint of a query of Spark tell that its first batch has read certain objects, now."""
    log, now = checkpoint / "sources" / "0" / "0", round(time.time() * 1000)
    with log.open("w") as file:
        file.write("v1")
        for uri in uris:
            file.write(f'\n{{"path":"{uri}","timestamp":{now},"batchId":0}}')
    log.with_name(".0.crc").unlink(missing_ok=True)


class ModelBucket:
    """A listing of objects that exist nowhere, each written after those before it."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.requests = 0
        self._keys = [f"s3a://model/{key}" for key in keys]

    def put(self, key: str) -> None:
        """Put an object."""
        insort(self._keys, f"s3a://model/{key}")

    def page(self, after: str) -> Page:
        """Return a thousand objects after a key."""
        self.requests += 1
        begin = bisect_right(self._keys, after)
        keys = self._keys[begin : begin + _PAGE]
        found = [Found(key, 10, 1_800_000_000_000 + begin + place, "1") for place, key in enumerate(keys)]
        return Page(found, keys[-1] if begin + _PAGE < len(self._keys) else None)
