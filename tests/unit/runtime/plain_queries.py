"""Checkpoints of plain queries, written by hand in Spark's formats, and a job that is to go on from them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.jobs import job_file, sink, timed_source

from streamjob.job.loading.load import LoadedJob, load_job
from streamjob.job.planning.plan import plan
from streamjob.protocol.log.records import JobId
from streamjob.snapshot.manifest import Manifest
from streamjob.store import LocalStore
from streamjob.stored.locations import find_snapshot
from streamjob.stored.reading import read_snapshot
from streamjob.stored.verify import verify
from streamjob_runtime.restoring.from_spark import take_over

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CONF = {
    "spark.sql.streaming.stateStore.providerClass": PROVIDER,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.join.stateFormatVersion": "2",
}
WINDOWS = "SELECT k, count(*) AS n FROM a GROUP BY k, window(at, '1 hour')"
STORES = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")


@dataclass
class Query:
    """The checkpoint of a query that has committed batches 0 to 2 and keeps state in two partitions."""

    root: Path
    conf: dict[str, str] = field(default_factory=lambda: dict(CONF))
    sources: list[str] = field(default_factory=lambda: ['{"logOffset":0}'])
    reads: list[str] = field(default_factory=lambda: ["a", "b"])

    def write(self, path: str, content: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def make(self, name: str | None = "stateStoreSave", stores: tuple[str, ...] = ("default",)) -> Query:
        self.write("metadata", '{"id":"01234567-89ab"}')
        self.write(".metadata.crc", "crc")
        for batch in range(3):
            self.plan(batch)
            self.write(f"commits/{batch}", f'v1\n{{"nextBatchWatermarkMs":{batch}000}}')
        for number in range(len(self.sources)):
            path = f"file://{self.root.parent}/job/{self.reads[number]}/0.json"
            self.write(f"sources/{number}/0", f'v1\n{{"path":"{path}","timestamp":0,"batchId":0}}')
        if name is not None:
            infos = [{"storeName": each, "numColsPrefixKey": 0, "numPartitions": 2} for each in stores]
            content = {"operatorInfo": {"operatorId": 0, "operatorName": name}, "stateStoreInfo": infos}
            self.write("state/0/_metadata/metadata", f"v1\n{json.dumps(content)}")
            for store in self.stores(stores):
                self.write(f"{store}/_metadata/schema", "schema")
                for version in (1, 2, 3):
                    self.snapshot(store, version)
        return self

    def stores(self, stores: tuple[str, ...]) -> list[str]:
        return [f"state/0/{part}" + ("" if each == "default" else f"/{each}") for part in range(2) for each in stores]

    def snapshot(self, store: str, version: int) -> None:
        (self.root / store).mkdir(parents=True, exist_ok=True)
        listing = {"sstFiles": [{"dfsSstFileName": f"{version}.sst"}], "logFiles": []}
        with zipfile.ZipFile(self.root / store / f"{version}.zip", "w") as archive:
            archive.writestr("metadata", f"v1\n{json.dumps(listing)}")
        self.write(f"{store}/SSTs/{version}.sst", f"{store} {version}")

    def in_default_store(self) -> Query:
        """Let Spark's default store keep the state: a snapshot of the second version, and changes."""
        self.conf |= {"spark.sql.streaming.stateStore.providerClass": "x.HDFSBackedStateStoreProvider"}
        self.make()
        for partition in range(2):
            store = f"state/0/{partition}"
            for file in (self.root / store).rglob("*.*"):
                file.unlink()
            for name in ("1.delta", "2.delta", "2.snapshot", "3.delta", "4.delta", ".3.delta.crc"):
                self.write(f"{store}/{name}", name)
        return self

    def plan(self, batch: int) -> None:
        settings = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": self.conf}
        self.write(f"offsets/{batch}", "\n".join(["v1", json.dumps(settings), *self.sources]))


def no_spark() -> Any:
    """Nothing is asked of Spark."""
    raise AssertionError("state is converted")


@dataclass
class Taker:
    """A job that takes over; `spark` converts state."""

    directory: Path
    spark: Callable[[], Any] = no_spark

    def take(self, query: Query | str, *, sql: str | None = WINDOWS, inputs: int = 1, **changes: Any) -> Manifest:
        """Take over a query, or what is at a place; return the manifest of the savepoint, all of which is there."""
        loaded = self.loaded(sql=sql, inputs=inputs, **changes)
        store = LocalStore(self.directory / "root")
        place = query if isinstance(query, str) else str(query.root)
        job = JobId("default", "departures")
        uri = take_over(f"spark:{place}", loaded, plan(loaded.spec), job, store, lambda: 5.0, self.spark)
        found = find_snapshot(uri)
        assert found is not None
        snapshot = read_snapshot(found)
        assert verify([snapshot]).whole
        assert snapshot.manifest is not None
        return snapshot.manifest

    def loaded(self, *, sql: str | None = WINDOWS, inputs: int = 1, **changes: Any) -> LoadedJob:
        """Return the job, which is also written to a file."""
        names = ["a", "b"][:inputs]
        watermark = {"column": "at", "delay": "1h"}
        sources = [timed_source(each, watermark=watermark) for each in names]
        operator = {"name": "made", "inputs": names} | ({"python": "funcs:made"} if sql is None else {"sql": sql})
        written = sink("made", "json", "out", name="out")
        job = job_file(operator, name="departures", sources=sources, sinks=[written]) | changes
        (self.directory / "funcs.py").write_text("def made(*frames):\n    return frames[0]\n")
        (self.directory / "job.json").write_text(json.dumps(job))
        return load_job((self.directory / "job.json").rename(self.directory / "job.yaml"), ())
