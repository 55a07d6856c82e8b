"""Writes the files of a Spark checkpoint by hand, in Spark's formats, as large as wanted: no Spark, and no rows."""

from __future__ import annotations

import io
import json
import struct
import uuid
import zipfile
from collections import deque
from pathlib import Path
from random import Random

from streamjob.ids import BatchId

PARTITIONS = 8
BATCHES = 10
"""Batches between two checkpoints."""
CHANGED_SSTS = 2
"""SSTs of a store that are new in each of RocksDB's snapshots, and as many that are gone."""
_SST_BYTES = (8_000, 16_000)
_LARGE_SST_BYTES = 300_000
_LARGE_EVERY = 40
_CHANGELOG_BYTES = 2_000
_COMPACT_EVERY = 10
_LEFT_OF_SOURCE_LOG = 30


class SparkFiles:
    """The checkpoint directory of a query with a file source, one file a batch, and one stateful operator.

    Each batch leaves a changelog in every store; in the middle between two checkpoints RocksDB snapshots each of them.

    Args:
        directory: becomes Spark's checkpoint directory.
        ssts: of all stores together.
        history: batches that the source has read before.
        random: content, and which SSTs go.
    """

    def __init__(self, directory: Path, ssts: int, history: int, random: Random) -> None:
        self.directory = directory
        self.batch = BatchId(history - 1)
        self.changed_bytes = 0
        self._random = random
        self._entries: list[str] = []
        self._ids: list[dict[int, str]] = [{} for _ in range(PARTITIONS)]
        self._ssts: list[deque[str]] = [deque() for _ in range(PARTITIONS)]
        self._left_behind: deque[Path] = deque()
        self._write("metadata", json.dumps({"id": str(self._uuid())}))
        self._write("state/0/_metadata/metadata", 'v1\n{"stateStoreInfo":[{"storeName":"default"}]}')
        for partition in range(PARTITIONS):
            self._write(f"state/0/{partition}/_metadata/schema", "schema")
            for number in range(ssts // PARTITIONS):
                self._add_sst(partition, large=number % _LARGE_EVERY == 0)
        for batch in range(history):
            self._enter(batch)
        if history > 1:
            self._write(f"offsets/{history - 2}", "v1\n{}\n-")
        self._keep_source_log()
        self._commit(snapshot=True)

    @property
    def history_bytes(self) -> int:
        """Bytes of the source's log, written whole."""
        return sum(len(entry) + 1 for entry in self._entries)

    def advance(self) -> None:
        """Run the batches between two checkpoints; `changed_bytes` is their written state."""
        self.changed_bytes = 0
        for number in range(BATCHES):
            self.batch = BatchId(self.batch + 1)
            self._enter(self.batch)
            self._keep_source_log()
            snapshot = number == BATCHES // 2
            if snapshot:
                self._replace_ssts()
            self._commit(snapshot=snapshot)
        # Files of a checkpoint have their own links.
        while len(self._left_behind) > 4 * PARTITIONS * BATCHES:
            self._left_behind.popleft().unlink()

    def _enter(self, batch: int) -> None:
        entry = {"path": f"file:///input/part-{self._uuid()}.parquet", "timestamp": 1_800_000_000_000 + batch}
        self._entries.append(json.dumps({**entry, "batchId": batch}, separators=(",", ":")))

    def _keep_source_log(self) -> None:
        """Write what the log lacks up to the batch, and remove what Spark would have removed."""
        log = self.directory / "sources/0"
        last = (self.batch + 1) // _COMPACT_EVERY * _COMPACT_EVERY - 1
        if last >= 0 and not (log / f"{last}.compact").exists():
            self._write(f"sources/0/{last}.compact", "\n".join(("v1", *self._entries[: last + 1])))
        for number in range(last + 1, self.batch + 1):
            if not (log / str(number)).exists():
                self._write(f"sources/0/{number}", f"v1\n{self._entries[number]}")
        expired = self.batch - _LEFT_OF_SOURCE_LOG
        for name in (f"{expired}", f"{expired}.compact"):
            (log / name).unlink(missing_ok=True)

    def _replace_ssts(self) -> None:
        for partition, ssts in enumerate(self._ssts):
            for _ in range(CHANGED_SSTS):
                ssts.rotate(self._random.randrange(len(ssts)))
                self._left_behind.append(self.directory / f"state/0/{partition}/SSTs/{ssts.popleft()}")
            for _ in range(CHANGED_SSTS):
                self._add_sst(partition)

    def _commit(self, *, snapshot: bool) -> None:
        batch, version = self.batch, self.batch + 1
        for partition in range(PARTITIONS):
            self._ids[partition][version] = str(self._uuid())
            if snapshot:
                self._snapshot(partition, version)
            else:
                self._changelog(partition, version)
        self._write(f"offsets/{batch}", f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":0}}\n{{"logOffset":{batch}}}')
        ids = {"0": [[self._ids[partition][version]] for partition in range(PARTITIONS)]}
        self._write(f"commits/{batch}", "v2\n" + json.dumps({"nextBatchWatermarkMs": 0, "stateUniqueIds": ids}))

    def _snapshot(self, partition: int, version: int) -> None:
        unique_id, ssts = self._ids[partition][version], self._ssts[partition]
        self._ids[partition] = {version: unique_id}
        listing = {"sstFiles": [{"localFileName": sst[-10:], "dfsSstFileName": sst, "sizeBytes": 0} for sst in ssts]}
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("metadata", f"v1\n{json.dumps(listing)}")
        self._write_state(f"state/0/{partition}/{version}_{unique_id}.zip", content.getvalue())

    def _changelog(self, partition: int, version: int) -> None:
        ids = self._ids[partition]
        lineage = [{"version": each, "checkpointUniqueId": ids[each]} for each in sorted(ids) if each < version]
        content = changelog(json.dumps(lineage).encode(), self._random.randbytes(_CHANGELOG_BYTES))
        self._write_state(f"state/0/{partition}/{version}_{ids[version]}.changelog", content)

    def _add_sst(self, partition: int, *, large: bool = False) -> None:
        name = f"{len(self._ssts[partition]):06}-{self._uuid()}.sst"
        size = _LARGE_SST_BYTES if large else self._random.randint(*_SST_BYTES)
        self._write(f"state/0/{partition}/SSTs/{name}", self._random.randbytes(size))
        self.changed_bytes += size
        self._ssts[partition].append(name)

    def _write_state(self, path: str, content: bytes) -> None:
        self._left_behind.append(self._write(path, content))
        self.changed_bytes += len(content)

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(bytes=self._random.randbytes(16), version=4)

    def _write(self, path: str, content: str | bytes) -> Path:
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file


def changelog(lineage: bytes, records: bytes) -> bytes:
    """Return a changelog of state checkpoint format 2, in one block of LZ4's frame that is stored as it is."""
    content = struct.pack(">H", 2) + b"v3" + struct.pack(">H", len(lineage)) + lineage + records
    block = struct.pack("<8sBiii", b"LZ4Block", 0x15, len(content), len(content), 0) + content
    return block + struct.pack("<8sBiii", b"LZ4Block", 0x15, 0, 0, 0)
