"""A source with dead letters has two outputs: both come from a chain that decodes each record once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.job.sql_text import in_sql
from tests.unit.job.texts import job, messages, topic

from streamjob.job.loading.converting import content_of, converted
from streamjob.job.loading.load import load_job
from streamjob.job.planning.dead_letters import BROKEN, with_dead_letters
from streamjob.job.planning.plan import plan

VALUE = "value: {format: json, schema: 'x INT, t TIMESTAMP'}, onError: deadLetter"
SINKS = (
    "{name: out, input: b, format: parquet, options: {path: out}}, "
    "{name: dead, input: a_dead_letters, format: parquet, options: {path: dead}}"
)
WINDOWS = "{name: b, inputs: [a], sql: 'SELECT x, count(*) AS n FROM a GROUP BY x, window(t, ''1 hour'')'}"
TIMED = "columns: [value.*, key], watermark: {column: t, delay: 1h}"


def write(directory: Path, more: str = TIMED, *, operators: str = WINDOWS, sinks: str = SINKS) -> Path:
    file = directory / "job.yaml"
    file.write_text(job(sources=topic(f"{VALUE}, {more}"), operators=operators, sinks=sinks), encoding="utf-8")
    return file


def test_records_are_decoded_in_a_chain_that_rows_and_dead_letters_read(tmp_path: Path) -> None:
    spec = load_job(write(tmp_path)).spec

    planned = plan(spec)

    assert [chain.uid for chain in planned.chains] == ["a", "a.dead-letters", "b"]
    assert [(each.source, each.target) for each in planned.channels] == [("a", "a.dead-letters"), ("a", "b")]
    assert spec.sources[0].watermark is None
    assert spec.operator("a").watermark is not None
    assert with_dead_letters(spec) is spec


def test_a_function_of_the_source_gets_the_decoded_rows(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("def timed(rows):\n    return rows\n", encoding="utf-8")

    spec = load_job(write(tmp_path, "python: 'steps:timed', watermark: {column: t, delay: 1h}")).spec

    assert [each.name for each in spec.operator("a").inputs] == ["a_rows"]
    assert spec.operator("a").python == "steps:timed"


@pytest.mark.parametrize("form", ["sql", "yaml"])
def test_a_converted_job_has_the_source_as_it_was_written(tmp_path: Path, form: str) -> None:
    loaded = load_job(write(tmp_path))
    file = tmp_path / f"again.{form}"

    text = in_sql(content_of(loaded.written)) if form == "sql" else converted(loaded.written)
    file.write_text(text, encoding="utf-8")

    assert load_job(file).written == loaded.written
    assert load_job(file).spec == loaded.spec


@pytest.mark.parametrize(
    ("more", "operators", "sinks", "said"),
    [
        ("columns: [value.*], watermark: {column: value.y, delay: 1h}", WINDOWS, SINKS, None),
        ("watermark: {column: at, delay: 1h}", WINDOWS, SINKS, "source 'a': its watermark is on 'at', which is not a"),
        ("columns: ['max(x)']", WINDOWS, SINKS, "source 'a': its columns have 'max(x)', and MAX() needs other rows"),
        (TIMED, WINDOWS, SINKS.replace("a_dead", "a_ded"), "source 'a': has onError: deadLetter, and nothing reads"),
        (TIMED, "", SINKS.replace("input: b", "input: a_dead_letters"), "source 'a': nothing reads it"),
    ],
)
def test_mistakes_are_about_the_source_that_was_written(
    tmp_path: Path, more: str, operators: str, sinks: str, said: str | None
) -> None:
    found = messages(tmp_path, job(sources=topic(f"{VALUE}, {more}"), operators=operators, sinks=sinks))

    if said is not None:
        assert any(each.startswith(said) for each in found), found
    assert all("a_records" not in each for each in found)


FILES = "{name: a, format: %s, schema: 'x INT, `b c` INT', options: {path: in}, onError: deadLetter, columns: [%s]}"
ROWS = "{name: b, inputs: [a], sql: 'SELECT x FROM a'}"


@pytest.mark.parametrize(
    ("columns", "of_records", "query"),
    [
        (
            "'*', x + 1 AS y",
            None,
            "SELECT *, x + 1 AS y FROM (SELECT * EXCEPT (BROKEN) FROM `a_records` WHERE BROKEN IS NULL)",
        ),
        (
            "'*', _metadata.file_name AS file",
            ("*", "_metadata"),
            (
                "SELECT * EXCEPT (`_metadata`), _metadata.file_name AS file FROM "
                "(SELECT * EXCEPT (BROKEN) FROM `a_records` WHERE BROKEN IS NULL)"
            ),
        ),
    ],
)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_records_of_files_keep_their_metadata_for_the_columns_that_read_it(
    tmp_path: Path, form: str, columns: str, of_records: tuple[str, ...] | None, query: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(job(sources=FILES % (form, columns), operators=ROWS, sinks=SINKS), encoding="utf-8")

    spec = load_job(file).spec

    assert spec.sources[0].columns == of_records
    assert spec.operator("a").sql == query.replace("BROKEN", f"`{BROKEN}`")
    assert "AS file" in str(spec.operator("a_dead_letters").sql)
