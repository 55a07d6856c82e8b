"""`renames` and `migrate`: what a job says about the change of its state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.jobs import job_spec, source, sql

from streamjob import Job
from streamjob.errors import InvalidJob
from streamjob.ids import OperatorUid
from streamjob.job.loading.converting import converted
from streamjob.job.loading.load import load_dsl, load_job
from streamjob.job.model.spec import JobSpec, MigrationSpec
from streamjob.job.planning.graph import graph_of

OLD = "SELECT key, value FROM state"
OF_ONE_FORM = MigrationSpec.model_validate({"from": "3f2a", "sql": OLD})
B, C = OperatorUid("b"), OperatorUid("c")
JOB = """
name: small
sources: [{name: a, format: rate}]
operators: [{name: b, inputs: [a], sql: SELECT value FROM a}]
sinks: [{name: out, input: b, format: console}]
migrate: {MIGRATE}
"""


def load(directory: Path, migrate: str, *variables: str) -> JobSpec:
    (directory / "job.yaml").write_text(JOB.replace("{MIGRATE}", migrate), encoding="utf-8")
    return load_job(directory / "job.yaml", variables=variables).spec


def problems(directory: Path, migrate: str) -> list[str]:
    with pytest.raises(InvalidJob) as caught:
        load(directory, migrate)
    return [str(each).replace("\n    fix: ", "; ") for each in caught.value.problems]


def with_renames(renames: dict[str, str]) -> dict[str, Any]:
    return sql("b", "a", "SELECT value FROM {}", renames=renames)


def test_a_migration_has_a_query_and_the_form_that_it_reads(tmp_path: Path) -> None:
    spec = load(tmp_path, f"{{b: {{from: 3f2a, sql: '  {OLD}  '}}}}")

    assert spec.migrate == {B: OF_ONE_FORM}


def test_a_migration_may_have_a_query_for_each_table(tmp_path: Path) -> None:
    spec = load(tmp_path, f"{{b: {{sql: {{open: '  {OLD}  ', timers: '{OLD} LIMIT 1'}}}}}}")

    assert spec.migrate[B].sql == {"open": OLD, "timers": f"{OLD} LIMIT 1"}


def test_a_migration_in_a_file_is_its_query(tmp_path: Path) -> None:
    (tmp_path / "b.sql").write_text("SELECT key, value\nFROM state WHERE value > ${var:least}\n", encoding="utf-8")

    spec = load(tmp_path, "{b: {sqlFile: b.sql}}", "least=3")

    assert spec.migrate[B].sql == {"state": "SELECT key, value\nFROM state WHERE value > 3"}
    assert spec.migrate[B].sql_file is None


def test_each_table_of_a_migration_may_have_a_file(tmp_path: Path) -> None:
    (tmp_path / "open.sql").write_text("SELECT key FROM open WHERE n > ${var:least}", encoding="utf-8")
    (tmp_path / "more.sql").write_text(OLD, encoding="utf-8")

    spec = load(tmp_path, "{b: {sqlFile: {open: open.sql, more: more.sql}}}", "least=3")

    assert spec.migrate[B].sql == {"open": "SELECT key FROM open WHERE n > 3", "more": OLD}
    assert spec.migrate[B].sql_file is None


def test_a_mistake_in_the_file_of_a_table_is_one_problem_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "open.sql").write_text(OLD, encoding="utf-8")
    (tmp_path / "more.sql").write_text("SELECT key,\nvalue FROM state WHERE (value > 1\n", encoding="utf-8")

    (found,) = problems(tmp_path, "{b: {sqlFile: {open: open.sql, more: more.sql}}}")

    assert found.startswith("more.sql, line 2, column 33: migrate.b: its SQL does not parse: ")


@pytest.mark.parametrize(
    ("migrate", "said"),
    [
        ("{b: {sqlFile: {open: none.sql}}}", "migrate.b: sqlFile: none.sql: there is no such file; name it relative"),
        ("{b: {sqlFile: {1: b.sql}}}", "migrate.b: has a key that is not text; put it in quotes"),
        ("{b: {sqlFile: {open: 1}}}", "migrate.b: sqlFile.open must be text"),
        ("{c: {sql: SELECT 1}}", "migrate.c: no operator has this uid; the uids of operators are b"),
        ("{b: {from: 3f2a}}", "migrate.b: has `from` and no query, so it changes nothing; give it sql"),
        ("{b: {}}", "migrate.b: has no query; give it sql"),
        ("{b: {sql: SELECT 1, sqlFile: b.sql}}", "migrate.b: has both sql and sqlFile; keep one of them"),
        ("{b: {sql: {}}}", "migrate.b: has no query; give it sql"),
        ("{b: {sql: {open: SELECT 1, more: SELEC 1}}}", "migrate.b: its SQL for 'more' does not parse: "),
        ("{b: {sql: {open: 1}}}", "migrate.b: sql.open must be text"),
        ("{b: {sql: 1}}", "migrate.b: sql must be a mapping"),
        ("{b: {sql: SELEC 1}}", "migrate.b: its SQL does not parse: "),
        ("{b: {sq: SELECT 1}}", "migrate.b: has no field 'sq'; did you mean 'sql'?"),
        ("{b: {sqlFile: none.sql}}", "migrate.b: sqlFile: none.sql: there is no such file; name it relative to the"),
        ("{1: {sqlFile: none.sql}}", "migrate.1: has a key that is not text; put it in quotes"),
        ("{b: {sql: 'SELECT ${var:x} FROM state'}}", "migrate.b: sql refers to the variable 'x', which is not given"),
    ],
)
def test_a_wrong_migration_is_one_problem(tmp_path: Path, migrate: str, said: str) -> None:
    (found,) = problems(tmp_path, migrate)

    assert found.startswith(said)


def test_a_mistake_in_the_file_of_a_migration_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "b.sql").write_text("SELECT key,\nvalue FROM state WHERE (value > 1\n", encoding="utf-8")

    (found,) = problems(tmp_path, "{b: {sqlFile: b.sql}}")

    assert found.startswith("b.sql, line 2, column 33: migrate.b: its SQL does not parse: ")


IN_SQL = """
SET 'name' = 'small';
CREATE SOURCE a WITH ('format' = 'rate');
CREATE VIEW b WITH ('uid' = 'b-1', 'renames.Value' = 'value') AS SELECT value FROM a;
CREATE SINK out WITH ('format' = 'console');
INSERT INTO out SELECT * FROM b;
"""


def test_a_sql_file_says_the_same_as_yaml(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text(
        f"{IN_SQL}SET 'migrate.b-1.from' = '3f2a'; SET 'migrate.b-1.sql' = {OLD};", encoding="utf-8"
    )

    spec = load_job(tmp_path / "job.sql").spec

    assert spec.operator("b").renames == {"Value": "value"}
    assert spec.migrate == {OperatorUid("b-1"): OF_ONE_FORM}
    (tmp_path / "job.yaml").write_text(converted(spec), encoding="utf-8")
    assert load_job(tmp_path / "job.yaml").spec == spec


def test_a_sql_file_names_the_file_of_a_migration(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text(f"{IN_SQL}SET 'migrate.b-1.sqlFile' = 'b.sql';", encoding="utf-8")
    (tmp_path / "b.sql").write_text(OLD, encoding="utf-8")

    assert load_job(tmp_path / "job.sql").spec.migrate == {
        OperatorUid("b-1"): MigrationSpec.model_validate({"sql": OLD})
    }


def test_a_sql_file_names_the_file_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text(f"{IN_SQL}SET 'migrate.b-1.sqlFile.left_side' = 'b.sql';", encoding="utf-8")
    (tmp_path / "b.sql").write_text(OLD, encoding="utf-8")

    (migration,) = load_job(tmp_path / "job.sql").spec.migrate.values()
    assert migration.sql == {"left_side": OLD}


def test_a_sql_file_may_have_a_query_for_each_table(tmp_path: Path) -> None:
    sides = [f"SET 'migrate.b-1.sql.{name}' = {OLD}" for name in ("left_side", "right_side")]
    (tmp_path / "job.sql").write_text(f"{IN_SQL}{'; '.join(sides)};", encoding="utf-8")

    (migration,) = load_job(tmp_path / "job.sql").spec.migrate.values()

    assert migration.sql == {"left_side": OLD, "right_side": OLD}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("'migrate.c.sql' = SELECT 1", "line 7, column 5: migrate.c: no operator has this uid; the uids of operators"),
        ("'migrate.b-1.sq' = SELECT 1", "line 7, column 5: migrate.b-1: has no field 'sq'; did you mean 'sql'?"),
        ("'migrate.b-1.sql' = SELEC 1", "line 7, column 5: migrate.b-1: its SQL does not parse: "),
        ("'migrate.b-1' = SELECT 1", "line 7, column 5: SET: has no setting 'migrate.b-1'; name the uid of a view"),
        ("'migrate.b-1.sql' = 'SELECT 1'; SET 'migrate.b-1.sql' = 'SELECT 2'", "line 7, column 41: SET: sets "),
        ("'migrate.b-1.sql' = 'SELECT 1'; SET 'migrate.b-1.sql.a' = 'SELECT 2'", "line 7, column 41: SET: sets "),
        ("'migrate.b-1.sql.left_side' = SELEC 1", "line 7, column 5: migrate.b-1: its SQL for 'left_side' does not"),
    ],
)
def test_a_wrong_migration_in_a_sql_file_is_one_problem_with_its_line(tmp_path: Path, setting: str, said: str) -> None:
    (tmp_path / "job.sql").write_text(f"{IN_SQL}SET {setting};", encoding="utf-8")

    with pytest.raises(InvalidJob) as caught:
        load_job(tmp_path / "job.sql")

    (found,) = (str(each).replace("\n    fix: ", "; ") for each in caught.value.problems)
    assert found.startswith(said)


def test_an_operator_that_could_not_be_read_is_not_missed_by_its_migration(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text(f"{IN_SQL}CREATE VIEW c AS;\nSET 'migrate.c.sql' = {OLD};", encoding="utf-8")

    with pytest.raises(InvalidJob) as caught:
        load_job(tmp_path / "job.sql")

    assert "migrate.c" not in str(caught.value)


def test_a_stream_job_has_no_file_with_a_migration(tmp_path: Path) -> None:
    body = "\n".join(f"    {line}" for line in JOB.replace("{MIGRATE}", "{b: {sqlFile: b.sql}}").splitlines())
    text = f"apiVersion: streamjob.io/v1alpha1\nkind: StreamJob\nmetadata: {{name: small}}\nspec:\n  job:\n{body}"
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")

    with pytest.raises(InvalidJob, match=r"migrate.b: its sqlFile 'b.sql' cannot be read here"):
        load_job(tmp_path / "job.yaml")


def test_a_rename_may_change_the_case_only_or_take_a_name_that_gets_free(tmp_path: Path) -> None:
    job = Job("small")
    job.source("a", format="rate")
    job.sql("b", inputs=["a"], sql="SELECT value FROM a", renames={"n": "N", "a": "b", "b": "c"})
    job.sink("out", input="b", format="console")

    assert load_dsl(job, directory=tmp_path).spec.operators[0].renames == {"n": "N", "a": "b", "b": "c"}


@pytest.mark.parametrize(
    ("renames", "said"),
    [
        ({"n": "n"}, "renames 'n' to its own name"),
        ({"n": ""}, "renames has an empty name"),
        ({"": "n"}, "renames has an empty name"),
        ({"z": "n", "n": "m", "m": "n"}, "renames both 'z' and 'm' to 'n'"),
        ({"n": "m", "m": "n"}, "renames 'n', 'm' in a circle"),
        ({"z": "a", "a": "b", "b": "c", "c": "a"}, "renames 'a', 'b', 'c' in a circle"),
        ({"n": "total", "m": "Total"}, "renames both 'n' and 'm' to 'Total'"),
    ],
)
def test_a_rename_has_two_names(tmp_path: Path, renames: dict[str, str], said: str) -> None:
    job = Job("small")
    job.source("a", format="rate")
    job.sql("b", inputs=["a"], sql="SELECT value FROM a", renames=renames)
    job.sink("out", input="b", format="console")

    with pytest.raises(InvalidJob, match=said) as caught:
        load_dsl(job, directory=tmp_path)
    parts = [str(each).partition(":")[0] for each in caught.value.problems]
    assert parts == ["operator 'b'"] * (1 + ("z" in renames))


def test_a_job_in_python_says_the_same_as_its_file(tmp_path: Path) -> None:
    job = Job("small", migrate={"b": {"from": "3f2a", "sql": OLD}, "c": MigrationSpec(sql={"open": OLD})})
    job.source("a", format="rate")
    job.sql("b", inputs=["a"], sql="SELECT value FROM a", renames={"n": "total"})
    job.operator(inputs=["b"], name="c", renames={"m": "rest"})(len)
    job.sink("out", input="c", format="console")
    spec = load_dsl(job, directory=tmp_path).spec
    (tmp_path / "job.yaml").write_text(converted(spec), encoding="utf-8")

    assert load_job(tmp_path / "job.yaml").spec == spec
    assert spec.operator("b").renames == {"n": "total"}
    assert spec.operator("c").renames == {"m": "rest"}
    assert spec.migrate == {B: OF_ONE_FORM, C: MigrationSpec(sql={"open": OLD})}


def test_what_changes_state_is_not_in_the_graph_of_a_snapshot() -> None:
    plain = job_spec(with_renames({}), sources=[source("a")])
    changed = job_spec(with_renames({"n": "total"}), sources=[source("a")], migrate={"b": {"sql": OLD}})

    assert changed != plain
    assert graph_of(changed) == graph_of(plain)
