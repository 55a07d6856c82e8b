"""The commands that answer a query on each side, and the comparison with DuckDB."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from bench.jars import fetched_jars
from bench.nexmark.events import TABLES
from bench.nexmark.queries import Query
from bench.processes import RunFailed, streamjob

SIDES = ("flink", "spark", "streamjob")
WATERMARK = 4
"""Seconds by which events may be late; none is."""
SPARK_FILES = 4
"""Files in a batch of plain Spark."""
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "person": {"id": "BIGINT", "name": "STRING", "city": "STRING", "state": "STRING"},
    "auction": {
        "id": "BIGINT",
        "itemName": "STRING",
        "initialBid": "BIGINT",
        "seller": "BIGINT",
        "category": "BIGINT",
    },
    "bid": {"auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "channel": "STRING", "url": "STRING"},
}
_PINS = "org.apache.flink:flink-sql-parquet:2.3.0 f30617f4a5a6d437750f155ff72178ab34439aec91df64d96621c260559ba5fd"
_LOCK = Path(__file__).with_name("requirements.lock")


@dataclass(frozen=True, slots=True)
class Installed:
    """The programs that the sides need besides streamjob.

    Args:
        python: of the environment with Flink and DuckDB.
        jars: for Flink.
    """

    python: Path
    jars: tuple[Path, ...]


def install(cache: Path) -> Installed:
    """Install Flink and DuckDB into an environment of their own, and fetch Flink's Parquet, unless that is done.

    Args:
        cache: directory that outlasts the run.

    Raises:
        CannotFetch: Maven Central, or the mirror that `IVY_SETTINGS` names, did not deliver a jar.
    """
    import pyspark

    environment, uv = cache / "nexmark-environment", Path(sys.executable).with_name("uv")
    if not (environment / ".ready").exists():
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, environment], check=True)
        python = environment / "bin" / "python"
        subprocess.run(
            [uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", _LOCK], check=True
        )
        (environment / ".ready").touch()
    jars = fetched_jars(_PINS, cache / "nexmark-jars")
    # Flink's Parquet asks for Hadoop's classes, which PySpark has.
    hadoop = sorted((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar"))
    return Installed(environment / "bin" / "python", (*jars, *hadoop))


@dataclass(frozen=True, slots=True)
class Question:
    """A query on some events, in a directory of its own.

    Args:
        name: of the query.
        query: the query.
        events: see `make_events`.
        directory: for what a run needs and leaves.
        installed: what the sides need.
    """

    name: str
    query: Query
    events: Path
    directory: Path
    installed: Installed

    def command(self, side: str, out: Path | None) -> list[str]:
        """Return the command that answers the query; without a directory for the result, its rows are discarded."""
        self.directory.mkdir(parents=True)
        if side == "flink":
            return [
                *(str(self.installed.python), str(Path(__file__).with_name("flink_side.py"))),
                *("--query", str(self._write("flink.json", self._for_flink()))),
                *("--jars", ",".join(map(str, self.installed.jars))),
                *(("--out", str(out)) if out else ()),
            ]
        job = self.directory / "job.yaml"
        job.write_text(yaml.safe_dump(self._job(side, out), sort_keys=False))
        if side == "spark":
            places = ["--scratch", str(self.directory / "scratch"), *(("--out", str(out)) if out else ())]
            return [sys.executable, "-m", "bench.nexmark.spark_side", str(job), *places]
        workdir, location = self.directory / "workdir", (self.directory / "snapshots").as_uri()
        return streamjob("run", str(job), "--quiet", "--location", location, "--workdir", str(workdir))

    def check(self, side: str, out: Path) -> int:
        """Compare a result with DuckDB's and return its number of rows. Raises RunFailed if they differ."""
        query = {
            "tables": {each: str(self.events / "spark" / each) for each in self.query.tables},
            "statement": self.query.duckdb,
            "columns": list(self.query.columns),
            "ends": self.query.ends,
            "until": self._closed() if side == "spark" else None,
        }
        oracle = Path(__file__).with_name("oracle.py")
        described = self._write("duckdb.json", query)
        command = [str(self.installed.python), str(oracle), "--query", str(described), "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RunFailed(f"{self.name}: the result of {side} is not DuckDB's: {done.stdout}{done.stderr[-2000:]}")
        return int(json.loads(done.stdout)["rows"])

    def forget(self) -> None:
        """Remove what runs have left."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _closed(self) -> int:
        """Return the end of the last window that is certainly closed in plain Spark, in milliseconds since 1970."""
        from pyarrow import compute, dataset

        newest = [
            compute.max(dataset.dataset(self.events / "spark" / each).to_table(columns=["ts"])["ts"]).as_py()
            for each in self.query.tables
        ]
        return int((min(newest).timestamp() - WATERMARK - 1) * 1000)

    def _for_flink(self) -> dict[str, Any]:
        def columns(table: str) -> str:
            typed = {**_COLUMNS[table], "ts": "TIMESTAMP(3)", "extra": "STRING"}
            return ", ".join(f"`{name}` {kind}" for name, kind in typed.items())

        return {
            "tables": {
                each: {"columns": columns(each), "path": str(self.events / "flink" / each)}
                for each in self.query.tables
            },
            "statement": self.query.flink,
            "result": ", ".join(f"`{name}` {kind}" for name, kind in self.query.columns.items()),
        }

    def _job(self, side: str, out: Path | None) -> dict[str, Any]:
        views = list(self.query.spark)
        discard = {"format": "noop"}
        written = {"format": "parquet", "options": {"path": str(out)}}
        # Spark would read everything as one batch. streamjob finds the size of its batches by itself.
        limit = {"maxFilesPerTrigger": SPARK_FILES} if side == "spark" else {}
        return {
            "name": f"nexmark-{self.name.replace(' ', '-').replace('_', '-')}",
            "parallelism": 2,
            "checkpointing": {"interval": "10s"},
            "sources": [
                {
                    "name": table,
                    "format": "parquet",
                    "schema": ", ".join(
                        f"{name} {kind}"
                        for name, kind in {**_COLUMNS[table], "ts": "TIMESTAMP", "extra": "STRING"}.items()
                    ),
                    "options": {"path": str(self.events / "spark" / table), **limit},
                    "bounded": True,
                    "watermark": {"column": "ts", "delay": f"{WATERMARK}s"},
                }
                for table in TABLES
                if table in self.query.tables
            ],
            "operators": [
                {
                    "name": name,
                    "inputs": [each for each in (*self.query.tables, *views) if each != name and _reads(sql, each)],
                    "sql": sql,
                }
                for name, sql in self.query.spark.items()
            ],
            "sinks": [{"name": "sink", "input": views[-1], **(written if out and side == "streamjob" else discard)}],
        }

    def _write(self, name: str, content: dict[str, Any]) -> Path:
        file = self.directory / name
        file.write_text(json.dumps(content))
        return file


def _reads(sql: str, name: str) -> bool:
    words = sql.replace("(", " ").replace(")", " ").split()
    return any(before.upper() in ("FROM", "JOIN") and word == name for before, word in pairwise(words))
