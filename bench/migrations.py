"""Measures the migration of state to the form of a changed query: `python -m bench.migrations --help`.

A job makes the state of many keys, and stops. Then each changed job starts from it, migrates the state, and stops.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from bench.entry import Benchmark, parser, run
from bench.memory import MemoryWatch
from bench.processes import RunFailed, started
from bench.results import Page, Records, Row, head
from bench.running import JOBS, command
from bench.tables import MB, Table, interleaved, loads, mid

JOB = JOBS / "migrated.yaml"
CHANGES: dict[str, dict[str, object]] = {
    "an aggregate is added": {
        "operators.totals.sql": "SELECT k, count(*) AS events, sum(n) AS total, avg(d) AS average, max(n) AS highest "
        "FROM events GROUP BY k"
    },
    "the key is widened": {"sources.events.schema": "k BIGINT, n INT, d DOUBLE"},
    "by a query": {
        "operators.totals.sql": "SELECT k, count(*) AS events, sum(n) AS total, avg(d) AS average, max(n) AS highest "
        "FROM events GROUP BY k",
        "migrate.totals.sql": "SELECT *, CAST(NULL AS INT) AS max FROM state",
    },
}
_FILE_KEYS = 500_000
_DONE = re.compile(r"Migrated .*: (\d+) rows became (\d+), verified, in ([\d.]+) s")


class MigrationRun(Row):
    """One migration: seconds until the new state was written and verified; `driver_bytes` is the peak memory."""

    side: str
    round: int
    keys: int
    seconds: float
    driver_bytes: int
    load_before: float


RUNS = Records("migrations", MigrationRun)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-migrations", __doc__, "one round of few keys")
    add = made.add_argument
    add("--rounds", type=int, default=2, metavar="N", help="rounds of all changes (2)")
    add("--keys", type=int, action="append", metavar="N", help="keys in the state (1,000,000 and 10,000,000)")
    add("--timeout", type=float, default=900.0, metavar="S", help="seconds that one run may take (900)")
    options = made.parse_args()
    if options.quick:
        options.rounds = 1
    options.keys = options.keys or ([100_000] if options.quick else [1_000_000, 10_000_000])
    return options


class Subject:
    """A stopped job with the state of many keys.

    Args:
        directory: for its input and its snapshots.
        keys: how many.
        timeout: seconds that a run may take.
    """

    def __init__(self, directory: Path, keys: int, timeout: float) -> None:
        self._directory = directory
        self._keys = keys
        self._timeout = timeout
        source = directory / "input"
        source.mkdir(parents=True)
        for number, first in enumerate(range(0, keys, _FILE_KEYS)):
            k = np.arange(first, min(first + _FILE_KEYS, keys), dtype="int32")
            columns = {"k": k, "n": (k % 1000).astype("int32"), "d": k / 7}
            parquet.write_table(pa.table(columns), source / f"{number}.parquet")
        self._run(directory / "work", JOB.stem, [], {})

    def migrate(self, change: str, number: int) -> MigrationRun:
        """Start the changed job from the state. Raises RunFailed if it did not migrate all keys."""
        load = os.getloadavg()[0]
        name = f"change-{list(CHANGES).index(change)}-{number}"
        (snapshot,) = self._directory.glob(f"snapshots/default/{JOB.stem}/checkpoints/*/manifest.json")
        log, memory = self._run(
            self._directory / name,
            name,
            ["--name", name, "--from", snapshot.as_uri(), "--claim-mode", "no-claim"],
            CHANGES[change],
        )
        done = _DONE.search(log.read_text())
        if done is None or done[1] != str(self._keys) or done[2] != str(self._keys):
            raise RunFailed.told_by(log, f"{change}: not all {self._keys:,} keys were migrated")
        return MigrationRun(
            side=change,
            round=number,
            keys=self._keys,
            seconds=float(done[3]),
            driver_bytes=memory.driver_bytes,
            load_before=load,
        )

    def _run(
        self, workdir: Path, name: str, more: Sequence[str], changes: dict[str, object]
    ) -> tuple[Path, MemoryWatch]:
        changes = {"sources.events.options.path": self._directory / "input", **changes}
        arguments = command(JOB, str(self._directory / "snapshots"), workdir, changes)
        log = self._directory / f"{name}.txt"
        with started([*arguments, "--available-now", *more], log) as process, MemoryWatch(process.pid) as memory:
            try:
                code = process.wait(self._timeout)
            except subprocess.TimeoutExpired:
                raise RunFailed.told_by(log, "the job did not end") from None
        if code:
            raise RunFailed.told_by(log, f"the job ended with {code}")
        return log, memory


_TEXT = """\
State of an aggregation without windows, `count`, `sum` and `avg` for each key, in RocksDB, in 2 task slots and 4 state
partitions: from reading the old state until the new one was written, read back and compared. Memory is the observed
maximum of the driver's Python and Java together, over the whole run of the changed job. {rounds} {load}
"""


def _render() -> str:
    measured = RUNS.load()
    text = _TEXT.format(rounds=interleaved(measured.runs), load=loads(measured.runs))
    parts = [head("How fast state is migrated", "bench-migrations", "migrations.py"), f"{measured.where}\n"]
    return "\n".join([*parts, text, table(measured.runs).markdown()])


PAGE = Page("MIGRATIONS", _render)


def table(runs: Sequence[MigrationRun]) -> Table:
    """Return what each change took: medians."""
    groups = [
        found
        for change in CHANGES
        for keys in sorted({run.keys for run in runs})
        if (found := [run for run in runs if (run.side, run.keys) == (change, keys)])
    ]
    return Table.of(
        groups,
        ("", lambda group: group[0].side),
        ("keys", lambda group: f"{group[0].keys:,}"),
        ("seconds", lambda group: mid((run.seconds for run in group), ".1f")),
        ("keys / s", lambda group: mid((run.keys / run.seconds for run in group), ",.0f")),
        ("driver MB", lambda group: mid((run.driver_bytes for run in group), ",.0f", MB)),
    )


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results after every round."""
    options, runs = benchmark.options, list[MigrationRun]()
    subjects = [Subject(benchmark.work / str(keys), keys, options.timeout) for keys in options.keys]
    for number, turn in benchmark.rounds(list(CHANGES)):
        for subject in subjects:
            for change in turn:
                runs.append(subject.migrate(change, number))
                benchmark.tell(runs[-1])
        benchmark.keep(RUNS, runs)
        benchmark.show(f"behind round {number + 1}", table(runs))


if __name__ == "__main__":
    run(arguments(), PAGE, bench)
