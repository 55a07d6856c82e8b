"""Measures writing to PostgreSQL against Spark's JDBC writer: `python -m bench.postgresql --help`.

Each run has a process of its own, and all go to the same server. The sink's run is one checkpoint, however many batches
it has: they are staged, then published in one transaction.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.entry import Benchmark, parser, run
from bench.memory import MemoryWatch
from bench.postgresql_side import WARM_ROWS, table_of
from bench.processes import RunFailed, environment, started
from bench.results import Page, Records, Row, head
from bench.tables import MB, Table, interleaved, loads, mid
from tests.servers.postgresql import PostgresqlServer, jdbc_driver

SIDES = {
    "jdbc": "Spark's JDBC writer",
    "jdbc, rewriting": "the same with `reWriteBatchedInserts=true`",
    "insert": "streamjob, exactly once, `mode: insert`",
    "upsert": "streamjob, exactly once, `mode: upsert`",
}
SLOTS = 2
_SERVER = {"shared_buffers": "256MB", "max_wal_size": "8GB"}


class PostgresqlRun(Row):
    """One run of one side: seconds to write all batches, and to publish them; None if both are one step.

    `driver_bytes` is the peak memory of the driver's processes, Python and Java, together; `worker_bytes` that of the
    Python workers, without shared memory.
    """

    side: str
    round: int
    rows: int
    batches: int
    write: float
    publish: float | None = None
    driver_bytes: int
    worker_bytes: int
    load_before: float

    @property
    def seconds(self) -> float:
        """Until the table has the rows."""
        return self.write + (self.publish or 0.0)


RUNS = Records("postgresql", PostgresqlRun)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-postgresql", __doc__, "one round of few rows")
    add = made.add_argument
    add("--rounds", type=int, default=3, metavar="N", help="rounds of all sides (3)")
    add("--rows", type=int, default=2_000_000, metavar="N", help="rows of a run (2,000,000)")
    add("--batches", type=int, action="append", metavar="N", help="batches that they come in (1 and 20)")
    add("--timeout", type=float, default=600.0, metavar="S", help="seconds that one run may take (600)")
    options = made.parse_args()
    if options.quick:
        options.rounds, options.rows = 1, 200_000
    options.batches = options.batches or [1, 20]
    return options


class Side:
    """Runs one side after the other against one server.

    Args:
        server: the server.
        work: directory for the runs.
        timeout: seconds that a run may take.
    """

    def __init__(self, server: PostgresqlServer, work: Path, timeout: float) -> None:
        self._server = server
        self._work = work
        self._timeout = timeout

    def run(self, side: str, number: int, rows: int, batches: int) -> PostgresqlRun:
        """Write the given numbers of rows and batches. Raises RunFailed if a row did not arrive."""
        server, name = self._server, f"round_{number}_{list(SIDES).index(side)}_{batches}"
        directory = self._work / name
        directory.mkdir(parents=True)
        server.make_database(name)
        for table in ("warm", "report"):
            server.execute(table_of(table), database=name, role=server.role)
        # The time before the permission to write does not count.
        server.execute("CHECKPOINT")
        load = os.getloadavg()[0]
        login = {"URL": server.url(name), "USER": server.role, "PASSWORD": server.password}
        login["DRIVER"] = str(jdbc_driver(os.environ))
        with environment({f"BENCH_{key}": value for key, value in login.items()}):
            done, memory = self._measure(directory, side=side, total=rows, batches=batches)
        ((found,),) = server.execute("SELECT count(*) FROM report", database=name)
        server.drop_database(name)
        if found != rows:
            raise RunFailed(f"{side}: {found:,} of {rows:,} rows arrived")
        return PostgresqlRun(
            side=side,
            round=number,
            rows=rows,
            batches=batches,
            **done,
            driver_bytes=memory.driver_bytes,
            worker_bytes=memory.worker_bytes,
            load_before=load,
        )

    def _measure(self, directory: Path, **spec: object) -> tuple[dict[str, Any], MemoryWatch]:
        result, log = directory / "result.json", directory / "log.txt"
        (directory / "work").mkdir()
        spec |= {"slots": SLOTS, "work": str(directory / "work"), "result": str(result)}
        command = [sys.executable, "-m", "bench.postgresql_side", json.dumps(spec)]
        late = contextlib.suppress(subprocess.TimeoutExpired)
        with started(command, log) as process, MemoryWatch(process.pid) as memory, late:
            process.wait(self._timeout)
        if process.returncode or not result.exists():
            raise RunFailed.told_by(log, f"{spec['side']} got no further")
        return json.loads(result.read_text()), memory


_TEXT = """\
{rows:,} rows of ten columns into a table with a primary key, in {slots} task slots, with a server on the same machine:
from the first batch until the table has all rows. streamjob stages the batches, and publishes them in one transaction,
as it does for a checkpoint that covers them; Spark's JDBC writer delivers at least once. Each run has its own
process, which has written {warm:,} rows before. Memory is the observed maximum: of the driver's Python and Java
together, and of the Python workers. {rounds} {load}
"""


def _render() -> str:
    measured = RUNS.load()
    runs = measured.runs
    text = _TEXT.format(
        rows=max(run.rows for run in runs),
        slots=SLOTS,
        warm=WARM_ROWS,
        rounds=interleaved(runs),
        load=loads(runs),
    )
    parts = [head("How fast rows get into PostgreSQL", "bench-postgresql", "postgresql.py"), f"{measured.where}\n"]
    return "\n".join([*parts, text, table(runs).markdown()])


PAGE = Page("POSTGRESQL", _render)


def table(runs: Sequence[PostgresqlRun]) -> Table:
    """Return what each side took: medians."""
    groups = [
        found
        for side in SIDES
        for batches in sorted({run.batches for run in runs})
        if (found := [run for run in runs if (run.side, run.batches) == (side, batches)])
    ]
    return Table.of(
        groups,
        ("", lambda group: SIDES[group[0].side]),
        ("batches", lambda group: group[0].batches),
        ("rows / s", lambda group: mid((run.rows / run.seconds for run in group), ",.0f")),
        ("written s", lambda group: mid((run.write for run in group), ".1f")),
        ("published s", lambda group: mid((run.publish for run in group if run.publish is not None), ".1f")),
        ("driver MB", lambda group: mid((run.driver_bytes for run in group), ",.0f", MB)),
        ("workers MB", lambda group: mid((run.worker_bytes for run in group), ",.0f", MB)),
    )


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results after every round."""
    options, runs = benchmark.options, list[PostgresqlRun]()
    with PostgresqlServer(**_SERVER) as server:
        side = Side(server, benchmark.work, options.timeout)
        for number, turn in benchmark.rounds(list(SIDES)):
            for name in turn:
                for batches in options.batches:
                    runs.append(side.run(name, number, options.rows, batches))
                    benchmark.tell(runs[-1])
            benchmark.keep(RUNS, runs)
            benchmark.show(f"behind round {number + 1}", table(runs))


if __name__ == "__main__":
    run(arguments(), PAGE, bench)
