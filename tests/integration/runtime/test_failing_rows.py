"""Rows that an operator cannot compute end the job, or are dropped, or go to a sink of their own, one by one."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import Life, finish, life_in, running
from tests.integration.runtime.graphs import Row, add_rows, job, output, rows_of, source
from tests.integration.runtime.power import Power
from tests.integration.runtime.stories import NEVER, killed_behind_a_checkpoint
from tests.jobs import sql

from streamjob.errors import ExitCode
from streamjob_runtime.job.bad_input_errors import RowFailed
from streamjob_runtime.monitoring.metrics import Metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

QUERY = "SELECT n, CAST(gate AS INT) + 60 DIV n AS x, at FROM (SELECT * FROM a WHERE n <> 7) WHERE gate <> 'skip'"
ROWS = [Row("k", n, n, {3: "three", 5: "skip"}.get(n, str(n))) for n in range(24)]
GOOD = [n for n in range(24) if n not in (0, 3, 5, 7)]
"""0 divides by zero, 3 casts a text, and the query leaves 5 and 7 out."""


def life_of(directory: Path, on_error: str, operators: list[dict[str, Any]], outputs: list[str]) -> Life:
    tried = {**sql("b", ["a"], QUERY), "onError": on_error}
    spec = job(
        directory,
        [source("a", directory / "in", bounded=True, delay="0s")],
        [tried, *operators],
        outputs,
        checkpointing={"interval": "1h"},
    )
    for number in range(6):
        add_rows(directory / "in", number, ROWS[4 * number : 4 * number + 4])
    return life_in(directory, spec, restarts=NEVER)


@pytest.mark.core
def test_dead_letters_have_the_row_and_its_error_and_each_row_is_in_one_output_across_a_kill(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = "SELECT window.start AS at, count(*) AS n FROM b GROUP BY window(at, '10 seconds')"
    letters = "SELECT row, operator, error, failed IS NOT NULL FROM b_dead_letters"
    operators = [sql("windows", ["b"], windows), sql("letters", ["b_dead_letters"], letters)]
    life = life_of(tmp_path, "deadLetter", operators, ["windows", "letters"])
    killed_behind_a_checkpoint(spark, life, Power(monkeypatch))

    finish(spark, life)

    found = {json.loads(row)["n"]: (row, *more) for row, *more in rows_of(output(tmp_path, "letters")).elements()}
    assert rows_of(output(tmp_path, "letters")).total() == len(found)
    assert sorted(found) == [0, 3]
    assert json.loads(found[3][0]) == {"k": "k", "n": 3, "at": "2026-01-01T12:00:03.000000Z", "gate": "three"}
    assert (found[3][1], found[3][3]) == ("b", True)
    assert found[0][2].startswith("[DIVIDE_BY_ZERO]")
    assert found[3][2].startswith("[CAST_INVALID_INPUT] The value 'three'")
    per_window = Counter(n // 10 for n in GOOD)
    assert rows_of(output(tmp_path, "windows")) == Counter(
        (f"2026-01-01T12:00:{window}0", count) for window, count in per_window.items()
    )


def test_rows_are_dropped_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    with running(spark, life_of(tmp_path, "drop", [], ["b"])) as life:
        assert life.wait() is ExitCode.OK
        life.control.observe()
        seen = life.control.job()
        metrics = Metrics(life.control.job, life.control.checkpoints).render().decode()

    assert sorted((n, x) for n, x, _ in rows_of(output(tmp_path, "b"))) == [(n, n + 60 // n) for n in GOOD]
    assert [dict(chain.rows_failed) for chain in seen.chains] == [{"b": 2}]
    assert 'streamjob_operator_rows_failed_total{chain="b",operator="b"} 2.0' in metrics


def test_a_job_ends_at_a_row_and_the_named_command_goes_on_behind_it(spark: SparkSession, tmp_path: Path) -> None:
    # With restarts: such an end must not be one of them.
    life = replace(life_of(tmp_path, "fail", [], ["b"]), restarts=Life.restarts)

    with pytest.raises(RowFailed) as ended, running(spark, life) as first:
        first.wait()
    assert "Operator 'b' cannot compute the row {" in str(ended.value)
    assert '"n":0' in str(ended.value)
    assert "[DIVIDE_BY_ZERO]" in str(ended.value)
    (setting,) = [each.strip("'; ") for each in ended.value.fix.split("--set ")[1].split("; or")[:1]]
    finish(spark, replace(life, overrides=(setting,)))

    assert sorted(n for n, *_ in rows_of(output(tmp_path, "b"))) == GOOD
