"""A SQL file is a job: its statements give the model that YAML gives, and its mistakes have lines and columns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.generators import generator

from streamjob.errors import InvalidJob
from streamjob.job.loading.load import load_job
from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.drawing import as_json
from streamjob.job.planning.plan import plan

FLIGHTS = Path(__file__).parents[3] / "examples" / "flights"
JOB = """
SET 'name' = 'small';
CREATE SOURCE a (x INT, t TIMESTAMP, WATERMARK FOR t AS t - INTERVAL '1' HOUR) WITH ('format' = 'csv', 'path' = 'in');
CREATE SOURCE b WITH ('format' = 'rate');
CREATE VIEW c AS SELECT x, value FROM b JOIN a ON x = value;
CREATE SINK out PARTITIONED BY (x) WITH ('format' = 'parquet', 'path' = 'out');
INSERT INTO out SELECT * FROM c;
"""


def load(directory: Path, text: str = JOB, **given: object) -> JobSpec:
    file = directory / "job.sql"
    file.write_text(text, encoding="utf-8")
    return load_job(file, **given).spec  # type: ignore[arg-type]


def problems(directory: Path, text: str, **given: object) -> list[str]:
    with pytest.raises(InvalidJob) as caught:
        load(directory, text, **given)
    return [str(each).replace(f"{directory}/", "").replace("\n    fix: ", "; ") for each in caught.value.problems]


def test_the_example_in_sql_is_the_example_in_yaml() -> None:
    in_sql, in_yaml = (load_job(FLIGHTS / name).spec for name in ("job.sql", "job.yaml"))

    assert in_sql == in_yaml
    assert as_json(in_sql, plan(in_sql)) == as_json(in_yaml, plan(in_yaml))


def test_statements_become_the_parts_of_a_job(tmp_path: Path) -> None:
    spec = load(tmp_path)

    assert spec.source("a").schema_ddl == "x INT, t TIMESTAMP"
    watermark = spec.source("a").watermark
    assert watermark is not None
    assert (watermark.column, watermark.delay) == ("t", 3600.0)
    assert spec.source("b").schema_ddl is None
    assert [each.name for each in spec.operator("c").inputs] == ["b", "a"]
    assert (spec.sink("out").input, spec.sink("out").partition_by) == ("c", ("x",))
    assert [each.uid for each in spec.nodes()] == ["a", "b", "c", "out"]


def test_computed_columns_come_behind_those_of_the_format(tmp_path: Path) -> None:
    text = JOB.replace("t TIMESTAMP", "y STRING, t AS to_timestamp(y, 'HH, mm'), `big x` AS x > 1 AND x < (2)")

    source = load(tmp_path, text).source("a")

    assert source.schema_ddl == "x INT, y STRING"
    assert source.columns == ("*", "to_timestamp(y, 'HH, mm') AS t", "x > 1 AND x < (2) AS `big x`")
    assert source.watermark is not None
    assert source.watermark.column == "t"


def test_all_columns_of_a_source_can_be_listed(tmp_path: Path) -> None:
    text = JOB.replace("'path' = 'in'", "'path' = 'in', 'columns' = 'x, struct(x, t) AS s , t'")

    assert load(tmp_path, text).source("a").columns == ("x", "struct(x, t) AS s", "t")


def test_a_uid_and_every_other_field_can_be_given(tmp_path: Path) -> None:
    text = JOB.replace("VIEW c AS", "VIEW c WITH ('uid' = 'c-1', 'outputMode' = 'append', chain = false) AS")
    text += "SET 'checkpointing.numRetained' = 7;\nSET channels.capacityBytes = 5; SET spark.driver.memory = 1g;"

    spec = load(tmp_path, text)

    assert (spec.operator("c").uid, spec.operator("c").chain) == ("c-1", False)
    assert (spec.checkpointing.num_retained, spec.channels.capacity_bytes) == (7, 5)
    assert spec.spark_conf == {"spark.driver.memory": "1g"}


def test_a_query_that_is_inserted_is_an_operator_named_after_the_sink(tmp_path: Path) -> None:
    spec = load(tmp_path, JOB.replace("INTO out SELECT *", "INTO out SELECT x"))
    named = load(tmp_path, JOB.replace("INTO out SELECT *", "INTO out WITH ('name' = 'd', 'uid' = 'e') SELECT x"))

    assert (spec.sink("out").input, spec.operator("out_input").uid) == ("out_input", "out_input")
    assert (named.sink("out").input, named.operator("d").uid) == ("d", "e")
    assert [each.name for each in spec.operator("out_input").inputs] == ["c"]


def test_comments_and_texts_are_no_statements(tmp_path: Path) -> None:
    text = "-- CREATE ; '\n/* ; \" */" + JOB.replace("SELECT x, value", "-- why; 'so\nSELECT x, 'a;--b' AS value")

    assert (
        load(tmp_path, text).operator("c").sql == "-- why; 'so\nSELECT x, 'a;--b' AS value FROM b JOIN a ON x = value"
    )


def test_an_operator_in_python_is_a_view_without_a_query(tmp_path: Path) -> None:
    (tmp_path / "delays.py").write_text("def keep(b, a):\n    return b\n", encoding="utf-8")
    view = "CREATE VIEW c WITH ('python' = 'delays:keep', 'inputs' = 'b, a')"

    spec = load(tmp_path, JOB.replace("CREATE VIEW c AS SELECT x, value FROM b JOIN a ON x = value", view))

    assert (spec.operator("c").python, [each.name for each in spec.operator("c").inputs]) == ("delays:keep", ["b", "a"])


def test_a_loop_has_the_schema_of_its_feedback(tmp_path: Path) -> None:
    text = """
    SET 'name' = 'loop';
    CREATE SOURCE a WITH ('format' = 'rate');
    CREATE VIEW c WITH ('feedback.c' = 'value BIGINT') AS
    SELECT value FROM a UNION ALL SELECT value - 1 AS value FROM c WHERE value > 0;
    CREATE SINK out WITH ('format' = 'noop');
    INSERT INTO out SELECT * FROM c;
    """

    first, second = load(tmp_path, text).operator("c").inputs

    assert (first.name, first.feedback) == ("a", False)
    assert (second.name, second.feedback, second.schema_ddl) == ("c", True, "value BIGINT")


def test_variables_and_overlays_apply_to_sql(tmp_path: Path) -> None:
    (tmp_path / "prod.yaml").write_text("sinks: [{name: out, options: {path: there}}]", encoding="utf-8")
    text = JOB.replace("'in'", "'${var:in}'").replace("x = value", "x = ${var:factor:-2} * value")
    text += "SET 'parallelism' = '${var:slots:-3}';"

    spec = load(tmp_path, text, variables=["in=here"], overlays=[tmp_path / "prod.yaml"])

    assert (spec.source("a").options["path"], spec.sink("out").options["path"], spec.parallelism) == (
        "here",
        "there",
        3,
    )
    assert "x = 2 * value" in (spec.operator("c").sql or "")
    assert problems(tmp_path, text, overlays=[tmp_path / "prod.yaml"])[0].startswith(
        "job.sql, line 3, column 104: source 'a': options.path refers to the variable 'in'"
    )


def test_all_mistakes_are_reported_with_line_and_column_in_their_order(tmp_path: Path) -> None:
    text = """SET 'name' = 'small'; SET 'paralelism' = 2;
CREATE SOURCE a (x INT, WATERMARK FOR t AS x - INTERVAL 1 HOUR) WITH ('format' = 'rate');
CREATE SOURCE b WITH ('format' 'rate');
CREATE SOURCE c WITH ('format' = 'rat');
CREATE SOURCE d WITH ('uid' = 'a b', 'format' = 'rate');
CREATE VIEW e AS
  SELECT count(
  FROM c;
CREATE VIEW f AS SELECT * FROM g;
CREATE VIEW h WITH ('outputmod' = 'append') AS SELECT * FROM f;
SELECT 1;
CREATE SINK i WITH ('format' = 'console');
CREATE SINK j WITH ('format' = 'console'); INSERT INTO j SELECT * FROM h; INSERT INTO j SELECT * FROM h;
INSERT INTO k SELECT * FROM h
"""

    assert [each.split("; ")[0] for each in problems(tmp_path, text)] == [
        "line 1, column 27: SET: has no setting 'paralelism'",
        "line 2, column 44: source 'a': has a watermark for 't' that is computed from something else",
        "line 3, column 32: source 'b': has 'rate' where '=' should be",
        "line 4, column 15: source 'c': has the unknown format 'rat'",
        "line 5, column 23: source 'd': uid cannot be 'a b'",
        "line 8, column 8: operator 'e': its SQL does not parse: Expecting ) near 'c'",
        "line 9, column 32: operator 'f': has the unknown input 'g'",
        "line 10, column 21: operator 'h': has no field 'outputmod'",
        "line 11, column 1: statement: has SELECT where a statement should be",
        "line 12, column 13: sink 'i': nothing is inserted into it",
        "line 13, column 87: sink 'j': is inserted into again, and a sink has one input",
        "line 14, column 13: sink 'k': is inserted into, and there is no CREATE SINK for it",
    ]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "CREATE STREAM x (a INT)",
            "line 1, column 8: statement: has STREAM where SOURCE, TABLE, FUNCTION, VIEW or SINK should be",
        ),
        ("CREATE SOURCE", "line 1, column 14: statement: ends where the name of the source should be"),
        ("CREATE SOURCE x (a INT", "line 1, column 23: source 'x': ends where ')' should be"),
        ("CREATE SOURCE x (a INT)", "line 1, column 24: source 'x': ends where 'WITH' should be"),
        (
            "CREATE SOURCE x (a AS b) WITH ('format' = 'rate', 'columns' = 'b')",
            "line 1, column 51: source 'x': has computed columns and 'columns'",
        ),
        (
            "CREATE SOURCE x WITH ('format' = 'rate', 'columns' = 'b, `c')",
            "line 1, column 42: source 'x': has 'columns' in which '`' is not closed",
        ),
        ("CREATE SOURCE x WITH ('a' = b)", "line 1, column 29: source 'x': has a value that is no text in quotes"),
        ("CREATE SOURCE x WITH ('a' = 1, 'a' = 2)", "line 1, column 32: source 'x': has 'a' twice"),
        ("CREATE SOURCE x WITH ('a' = 1) y", "line 1, column 32: source 'x': has y where the end of the statement"),
        ("CREATE VIEW x SELECT 1", "line 1, column 15: operator 'x': has SELECT where 'AS' should be"),
        ("CREATE VIEW x AS", "line 1, column 17: operator 'x': ends where a query should be"),
        ("INSERT OVERWRITE x SELECT 1", "line 1, column 8: sink 'x': has OVERWRITE where 'INTO' should be"),
        ("SET 'a'", "line 1, column 8: statement: ends where '=' should be"),
        ("SET 'checkpointing' = 1", "line 1, column 5: SET: has no setting 'checkpointing'"),
        ("SELECT 'abc", 'line 1, column 8: file: "\'" is not closed'),
        ("SELECT /* abc", "line 1, column 8: file: '/*' is not closed"),
        (
            "CREATE TABLE x (a INT) WITH ('connector' = 'kafka')",
            "line 1, column 30: table 'x': has 'connector', which is Flink's; write 'format' = 'kafka', and",
        ),
        (
            "CREATE SOURCE x WITH ('format' = 'kafka', 'properties.bootstrap.servers' = 'b')",
            "line 1, column 43: source 'x': has 'properties.bootstrap.servers', which is Flink's",
        ),
        (
            "CREATE TABLE x (t TIMESTAMP, WATERMARK FOR t AS t) WITH ('format' = 'json')",
            "line 1, column 30: table 'x': has a watermark, and is a table; write CREATE SOURCE x for a stream",
        ),
        (
            "CREATE TABLE x (a INT) WITH ('format' = 'json', 'path' = 'x'); INSERT INTO x SELECT 1 AS a",
            "line 1, column 76: sink 'x': is inserted into, and there is no CREATE SINK for it; write CREATE",
        ),
        (
            "CREATE SOURCE x (t TIMESTAMP(3)) WITH ('format' = 'json', 'path' = 'x')",
            "line 1, column 15: source 'x': its schema has '(' where a comma or the end should be (character 12)",
        ),
        ("EXECUTE STATEMENT SET BEGIN", "line 1, column 1: statement: EXECUTE is no statement here; leave it out"),
        (
            "CREATE SOURCE x (WATERMARK FOR t AS t - INTERVAL 1 MONTH) WITH ('format' = 'rate')",
            "line 1, column 50: source 'x': has a watermark without an interval of whole units of time",
        ),
    ],
)
def test_a_statement_that_is_none_is_refused_where_it_goes_wrong(tmp_path: Path, statement: str, said: str) -> None:
    assert any(each.startswith(said) for each in problems(tmp_path, statement)), problems(tmp_path, statement)


def test_a_job_needs_a_name(tmp_path: Path) -> None:
    assert problems(tmp_path, JOB.replace("SET 'name' = 'small';", "")) == [
        "job: has no name; add SET 'name' = 'departures'"
    ]


def test_a_secret_in_a_sql_file_is_refused(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, JOB.replace("'path' = 'in'", "'path' = 'in', 'password' = 'hunter2'"))

    assert found.startswith("line 3, column 15: source 'a': the option 'password' holds a secret")
    assert "hunter2" not in found


def test_the_reference_of_sql_is_in_step_with_the_models() -> None:
    generate = generator("generate_sql")

    assert generate.TARGET.read_text(encoding="utf-8") == generate.render(), "run `python docs/generate_sql.py`"


def test_the_how_to_quotes_a_message_of_its_job(tmp_path: Path) -> None:
    page = (FLIGHTS.parents[1] / "docs" / "how-to" / "write-a-job-in-sql.md").read_text(encoding="utf-8")
    job = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)[0]
    quoted = re.findall(r"```\njob.sql: 1 problem\n  - (.*?)\n    fix: (.*?)\n```", page)[0]

    assert load(tmp_path, job).name == "departures"
    assert problems(tmp_path, job.replace("FROM late", "FROM lte")) == ["; ".join(quoted)]
