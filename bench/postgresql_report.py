"""Writes POSTGRESQL.md: how fast rows get into a table, as it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.postgresql_model import WARM_ROWS, Postgresql, PostgresqlRun
from bench.summary import interleaved, loads
from bench.tables import MB, Table

_NAMES = {
    "jdbc": "Spark's JDBC writer",
    "jdbc, rewriting": "the same with `reWriteBatchedInserts=true`",
    "insert": "streamjob, exactly once, `mode: insert`",
    "upsert": "streamjob, exactly once, `mode: upsert`",
}

_HEAD = """\
# How fast rows get into PostgreSQL

<!-- Written by `make bench-postgresql`; change bench/postgresql_report.py. -->

Numbers as measured. `postgresql.json` has every run.
"""

_TEXT = """\
{rows:,} rows of ten columns into a table with a primary key, in {slots} task slots, with a server on the same machine:
from the first batch until the table has all rows. streamjob stages the batches, and publishes them in one transaction,
as it does for a checkpoint that covers them; Spark's JDBC writer delivers at least once. Each run has its own
process, which has written {warm:,} rows before. Memory is the observed maximum: of the driver's Python and Java
together, and of the Python workers. {rounds} {load}
"""


def render(results: Postgresql) -> str:
    """Return POSTGRESQL.md."""
    runs = results.runs
    text = _TEXT.format(
        rows=max(run.rows for run in runs),
        slots=results.slots,
        warm=WARM_ROWS,
        rounds=interleaved(runs),
        load=loads(runs),
    )
    return "\n".join([_HEAD, f"{results.circumstances}\n", text, table(runs).markdown() + "\n"])


def table(runs: Sequence[PostgresqlRun]) -> Table:
    """Return what each side took: medians."""
    head = ("", "batches", "rows / s", "written s", "published s", "driver MB", "workers MB")
    rows = []
    for side, name in _NAMES.items():
        for batches in sorted({run.batches for run in runs}):
            mine = [run for run in runs if (run.side, run.batches) == (side, batches)]
            if not mine:
                continue
            published = [run.done.publish for run in mine if run.done.publish is not None]
            rows.append(
                (
                    name,
                    str(batches),
                    f"{median(run.rows / run.seconds for run in mine):,.0f}",
                    f"{median(run.done.write for run in mine):.1f}",
                    f"{median(published):.1f}" if published else "–",
                    f"{median(run.driver_bytes for run in mine) / MB:,.0f}",
                    f"{median(run.worker_bytes for run in mine) / MB:,.0f}",
                )
            )
    return Table(head, tuple(rows))
