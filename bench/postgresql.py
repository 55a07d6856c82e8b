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
import time
from pathlib import Path

from bench import postgresql_report
from bench.entry import Benchmark, parser, run
from bench.memory import MemoryWatch
from bench.postgresql_model import Done, Postgresql, PostgresqlRun
from bench.postgresql_side import table_of
from bench.processes import REPOSITORY, RunFailed, environment, started
from bench.rounds import rounds
from tests.servers.postgresql import PostgresqlServer, jdbc_driver

RESULTS = REPOSITORY / "bench" / "postgresql.json"
SIDES = ("jdbc", "jdbc, rewriting", "insert", "upsert")
SLOTS = 2
_SERVER = {"shared_buffers": "256MB", "max_wal_size": "8GB"}


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
        server, name = self._server, f"round_{number}_{SIDES.index(side)}_{batches}"
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
            done=done,
            driver_bytes=memory.driver_bytes,
            worker_bytes=memory.worker_bytes,
            load_before=load,
        )

    def _measure(self, directory: Path, **spec: object) -> tuple[Done, MemoryWatch]:
        result, log = directory / "result.json", directory / "log.txt"
        (directory / "work").mkdir()
        spec |= {"slots": SLOTS, "work": str(directory / "work"), "result": str(result)}
        command = [sys.executable, "-m", "bench.postgresql_side", json.dumps(spec)]
        late = contextlib.suppress(subprocess.TimeoutExpired)
        with started(command, log) as process, MemoryWatch(process.pid) as memory, late:
            process.wait(self._timeout)
        if process.returncode or not result.exists():
            raise RunFailed.told_by(log, f"{spec['side']} got no further")
        return Done.model_validate_json(result.read_text()), memory


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results after every round."""
    options, begun, runs = benchmark.options, time.time(), list[PostgresqlRun]()
    with PostgresqlServer(**_SERVER) as server:
        side = Side(server, benchmark.work, options.timeout)
        for number, turn in rounds(SIDES, options.rounds, options.lock):
            for name in turn:
                for batches in options.batches:
                    runs.append(side.run(name, number, options.rows, batches))
                    benchmark.tell(
                        f"{name}, {batches} batches: {runs[-1].seconds:.1f} s,"
                        f" driver {runs[-1].driver_bytes / 1e6:,.0f} MB, load {runs[-1].load_before:.1f}"
                    )
            result = Postgresql(circumstances=benchmark.circumstances(begun), slots=SLOTS, runs=tuple(runs))
            benchmark.keep(result, RESULTS, postgresql_report.render)
            benchmark.show(f"behind round {number + 1}", postgresql_report.table(runs))


def main() -> int:
    """Run the benchmark; return its exit code."""
    return run(arguments(), bench)


if __name__ == "__main__":
    sys.exit(main())
