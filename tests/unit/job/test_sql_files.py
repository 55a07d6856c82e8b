"""`sqlFile`: the query of an operator in a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamjob.errors import InvalidJob
from streamjob.job.loading.load import load_job
from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.graph import graph_of

JOB = """
name: small
sources: [{name: a, format: rate}]
operators: [{name: b, inputs: [a], sqlFile: queries/b.sql}]
sinks: [{name: out, input: b, format: console}]
"""
QUERY = "-- keeps even ones\nSELECT value\nFROM a\nWHERE value % ${var:of:-2} = 0\n"


def load(directory: Path, query: str | None = QUERY, text: str = JOB, *variables: str) -> JobSpec:
    (directory / "queries").mkdir()
    if query is not None:
        (directory / "queries" / "b.sql").write_text(query, encoding="utf-8")
    (directory / "job.yaml").write_text(text, encoding="utf-8")
    return load_job(directory / "job.yaml", variables=variables).spec


def problem(directory: Path, query: str | None = QUERY, text: str = JOB) -> str:
    with pytest.raises(InvalidJob) as caught:
        load(directory, query, text)
    found = caught.value.problems[0]
    return str(found).replace("\n    fix: ", "; ")


def test_a_query_in_a_file_is_the_query_of_its_operator(tmp_path: Path) -> None:
    spec = load(tmp_path, QUERY, JOB, "of=3")

    assert spec.operator("b").sql == "-- keeps even ones\nSELECT value\nFROM a\nWHERE value % 3 = 0"
    assert spec.operator("b").sql_file is None
    assert "sqlFile" not in str(graph_of(spec))


def test_the_name_of_the_file_may_have_a_variable(tmp_path: Path) -> None:
    spec = load(tmp_path, "SELECT value FROM a", JOB.replace("queries/b.sql", "'queries/${var:which:-b}.sql'"))

    assert spec.operator("b").sql == "SELECT value FROM a"


def test_a_mistake_is_reported_with_its_line_in_the_file(tmp_path: Path) -> None:
    found = problem(tmp_path, "-- a comment\n\nSELECT value\nFROM a WHERE (value > 1\n")

    assert found.startswith("queries/b.sql, line 4, column 23: operator 'b': its SQL does not parse: ")


def test_a_missing_variable_names_the_file_of_the_query(tmp_path: Path) -> None:
    found = problem(tmp_path, "SELECT value FROM a WHERE value > '${var:least}'")

    assert found.startswith("queries/b.sql: operator 'b': sql refers to the variable 'least'")


def test_a_missing_file_is_a_problem_of_its_operator(tmp_path: Path) -> None:
    assert problem(tmp_path, None) == (
        "operator 'b': sqlFile: queries/b.sql: there is no such file; name it relative to the job file"
    )


@pytest.mark.parametrize(
    ("other", "said"), [("sql: SELECT 1 FROM a", "sql and sqlFile"), ("python: m:f", "sqlFile and")]
)
def test_an_operator_has_one_kind_of_code(tmp_path: Path, other: str, said: str) -> None:
    assert f"operator 'b': has both {said}" in problem(tmp_path, text=JOB.replace("sqlFile", f"{other}, sqlFile"))


def test_a_stream_job_has_no_files_next_to_it(tmp_path: Path) -> None:
    body = "\n".join(f"    {line}" for line in JOB.splitlines())
    resource = f"apiVersion: streamjob.io/v1alpha1\nkind: StreamJob\nmetadata: {{name: small}}\nspec:\n  job:\n{body}"

    found = problem(tmp_path, text=resource)

    assert found.startswith("operator 'b': its sqlFile 'queries/b.sql' cannot be read here")
    assert "mainApplicationFile" in found
