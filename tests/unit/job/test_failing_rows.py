"""An operator with `onError` computes each row of one input by itself; its dead letters are its second output."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.job.sql_text import in_sql
from tests.unit.job.texts import job, messages

from streamjob.job.loading.converting import content_of, converted
from streamjob.job.loading.load import load_job
from streamjob.job.planning.dead_letters import with_dead_letters
from streamjob.job.planning.plan import plan

DIVIDES = "{name: b, inputs: [a], sql: 'SELECT 10 / x AS x, t FROM a', onError: deadLetter}"
TIMED = DIVIDES.replace("onError", "watermark: {column: t, delay: 1h}, onError")
SINKS = (
    "{name: out, input: b, format: parquet, options: {path: out}}, "
    "{name: dead, input: b_dead_letters, format: parquet, options: {path: dead}}"
)

LOOP = (
    "{name: b, inputs: [a, {from: b, feedback: true, schema: 'x DOUBLE'}], sql: 'SELECT 1 AS x FROM a "
    "UNION ALL SELECT x FROM b', onError: drop}"
)


def write(directory: Path, operators: str = DIVIDES, sinks: str = SINKS) -> Path:
    file = directory / "job.yaml"
    file.write_text(job(operators=operators, sinks=sinks), encoding="utf-8")
    return file


def test_rows_are_computed_in_a_chain_that_results_and_dead_letters_read(tmp_path: Path) -> None:
    spec = load_job(write(tmp_path, TIMED)).spec

    planned = plan(spec)

    assert [chain.uid for chain in planned.chains] == ["b", "b.dead-letters", "b.rows"]
    assert spec.operator("b_tried").watermark is None
    assert spec.operator("b").watermark is not None
    assert with_dead_letters(spec) is spec


def test_an_operator_that_drops_rows_has_no_channel(tmp_path: Path) -> None:
    file = write(tmp_path, DIVIDES.replace("deadLetter", "drop"), SINKS.split(", {")[0])

    assert not plan(load_job(file).spec).channels


@pytest.mark.parametrize("form", ["sql", "yaml"])
def test_a_converted_job_has_the_operator_as_it_was_written(tmp_path: Path, form: str) -> None:
    loaded = load_job(write(tmp_path, TIMED))
    file = tmp_path / f"again.{form}"

    text = in_sql(content_of(loaded.written)) if form == "sql" else converted(loaded.written)
    file.write_text(text, encoding="utf-8")

    assert load_job(file).written == loaded.written
    assert load_job(file).spec == loaded.spec


@pytest.mark.parametrize(
    ("operators", "sinks", "said"),
    [
        (DIVIDES.replace("FROM a'", "FROM c'"), SINKS, "operator 'b': its SQL reads 'c'"),
        (DIVIDES.replace("10 / x", "count(*)"), SINKS, "operator 'b': has onError, and computes rows from several"),
        (DIVIDES.replace("inputs: [a]", "inputs: [a, a]"), SINKS, "operator 'b': has onError and 2 inputs"),
        (
            LOOP,
            SINKS.split(", {")[0],
            "operator 'b': has onError, and is part of a loop",
        ),
        (DIVIDES, SINKS.replace("b_dead", "b_ded"), "operator 'b': has onError: deadLetter, and nothing reads"),
        (TIMED.replace("deadLetter", "maybe"), SINKS, "operator 'b': onError"),
    ],
)
def test_mistakes_are_about_the_operator_that_was_written(
    tmp_path: Path, operators: str, sinks: str, said: str
) -> None:
    found = messages(tmp_path, job(operators=operators, sinks=sinks))

    assert any(each.startswith(said) for each in found), found
    assert all("b_tried" not in each for each in found)
