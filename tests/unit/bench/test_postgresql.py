"""The evaluation of measurements in the benchmark of PostgreSQL."""

from __future__ import annotations

import os

from bench.memory import own_bytes, resident_bytes
from bench.model import Circumstances
from bench.postgresql_model import Done, Postgresql, PostgresqlRun
from bench.postgresql_report import render, table

WHERE = Circumstances(command="make bench-postgresql", begun="a", ended="b", machine="c", versions={"Spark": "4.3.0"})


def run(side: str, number: int, write: float, publish: float | None, load: float = 0.5) -> PostgresqlRun:
    return PostgresqlRun(
        side=side,
        round=number,
        rows=1_000_000,
        batches=1,
        done=Done(write=write, publish=publish),
        driver_bytes=900_000_000,
        worker_bytes=250_000_000,
        load_before=load,
    )


def test_rows_per_second_are_those_until_the_table_has_them() -> None:
    runs = [run("insert", number, write, 2.0) for number, write in enumerate((2.0, 3.0, 8.0))]

    shown = table([*runs, run("jdbc", 0, 10.0, None)])

    assert shown.rows == (
        ("Spark's JDBC writer", "1", "100,000", "10.0", "–", "900", "250"),
        ("streamjob, exactly once, `mode: insert`", "1", "200,000", "3.0", "2.0", "900", "250"),
    )


def test_the_report_says_how_busy_the_machine_was() -> None:
    results = Postgresql(circumstances=WHERE, slots=2, runs=(run("jdbc", 0, 1, None), run("jdbc", 1, 1, None, 2.5)))

    assert "Load average before a run: median 1.5, most 2.5." in render(results)
    assert "Medians of 2 interleaved rounds." in render(results)
    assert str(WHERE) in render(results)


def test_the_memory_of_a_process_is_read_and_that_of_none_is_nothing() -> None:
    held = bytearray(os.urandom(1)) * 50_000_000

    assert resident_bytes(os.getpid()) > own_bytes(os.getpid()) >= len(held)
    assert resident_bytes(2**30) == 0
