"""A job is the same in SQL and in YAML, into which it is converted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.job.sql_text import in_sql
from typer.testing import CliRunner

from streamjob.cli.main import app
from streamjob.job.loading.converting import NotConvertible, content_of, converted
from streamjob.job.loading.load import load_job
from streamjob.job.loading.yaml_file import read_documents
from streamjob.job.loading.yaml_writing import write_yaml
from streamjob.job.model.origins import Origins
from streamjob.job.model.reading import read_spec
from streamjob.job.model.spec import JobSpec
from streamjob.job.sql_job import read_sql

# Hypothesis also tries constants of the code, such as the beginning of a reference.
_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12).filter(
    lambda text: "${" not in text
)
_some_texts = _texts.filter(bool) | st.sampled_from(
    [
        *("1", "01", "1e3", "-5", "true", "no", "~", "it's", "a\\b", 'say "x"', "a;b", "-- x", "/*", " x "),
        *("a\nb\x85", "a\n\u2028b", "a\n\u2029", "a\r\nb", "a \nb"),
    ]
)
_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True) | st.sampled_from(
    ["select", "order", "from", "window", "values", "set", "create", "a-b", "with", "as"]
)
_uids = st.from_regex(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,6}[A-Za-z0-9_])?", fullmatch=True)
_keys = (
    st.sampled_from(["path", "format", "Uid", "options.x", "delivery", "inputs", "kafka.a.b", "bounded"]) | _some_texts
)
_options = st.dictionaries(_keys, _some_texts | st.just("${env:A:-b}"), max_size=4)
_columns = st.sampled_from(
    [
        *("a INT", "t TIMESTAMP", "d DECIMAL(10, 2)", "watermark TIMESTAMP", "`WATERMARK` ARRAY<ARRAY<INT>>"),
        *("`b c` STRING NOT NULL COMMENT 'it''s, ; so'", "s STRUCT<x: INT, y: MAP<INT, STRING>>"),
    ]
)
_schemas = st.builds(
    lambda gap, columns: gap.join(columns), st.sampled_from([", ", ",", " , "]), st.lists(_columns, min_size=1)
)
_durations = st.integers(0, 10**9).map(lambda each: f"{each}ms") | st.sampled_from(["1h", "2d", "90s", "1h30m"])


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


_watermarks = st.fixed_dictionaries(
    {"column": st.sampled_from(["t", "a b", "x.y", "it`s"]), "delay": _durations},
    optional={
        "idleTimeout": st.sampled_from(["30s", "1 minute"]),
        "maxAhead": st.sampled_from(["30d", "1 hour"]),
        "perPartition": st.booleans(),
        "nullEventTime": st.sampled_from(["fail", "drop", "deadLetter"]),
    },
)
_expressions = st.sampled_from(
    [
        *("*", "x", "timestamp AS at", "to_timestamp(x, 'yyyy, MM') AS at", "CASE WHEN a < 1 THEN b END AS `b c`"),
        *("a > b AS c", "xs[0] AS x", "a AS `as`", "struct(a, b)", "`a, b` AS c", "CAST(x AS ARRAY<INT>) AS y"),
    ]
)
_computed = st.lists(_expressions, min_size=1) | st.lists(_expressions, min_size=1).map(lambda each: ["*", *each])
_registries = st.fixed_dictionaries(
    {"url": st.sampled_from(["http://a:1", "http://a:1,http://b:1"])},
    optional={
        "subject": st.just("a-b"),
        "version": st.sampled_from(["latest", 3]),
        "autoRegister": st.booleans(),
        "options": _options.filter(bool),
    },
)
_encodings = st.fixed_dictionaries(
    {"format": st.sampled_from(["avro", "csv", "json", "protobuf", "text"])},
    optional={
        "schema": st.sampled_from(["x INT", "a STRING, b INT", '{"type": "long"}']),
        "schemaFile": st.just("order.avsc"),
        "message": st.just("shop.Order"),
        "registry": _registries,
        "options": _options.filter(bool),
    },
)
_source = _some(
    uid=_uids,
    key=_encodings,
    value=_encodings,
    changes=st.sampled_from(["debezium", "upsert"]),
    onError=st.sampled_from(["fail", "drop", "deadLetter"]),
    skip=st.just("t/0/1, t/0/2"),
    schema=_schemas,
    columns=_computed,
    python=st.just("m:f"),
    options=_options,
    bounded=st.booleans(),
    watermark=_watermarks,
).filter(lambda source: not source.keys() >= {"columns", "python"})
_operator = _some(
    uid=_uids, watermark=_watermarks, outputMode=st.sampled_from(["append", "update", "complete"]), chain=st.booleans()
)
_sink = _some(
    uid=_uids,
    key=_encodings,
    value=_encodings,
    options=_options,
    delivery=st.sampled_from(["exactly-once", "at-least-once"]),
)
_queries = st.sampled_from(
    [
        "SELECT * FROM {0}",
        "-- first; a comment\nSELECT ';' AS x, '--' FROM {0} /* ; */ WHERE a > 1 -- last",
        "SELECT `;`, 'it\\'s' FROM {0}\n\n  GROUP BY window(t, '1 hour')",
    ]
)


def _joined(query: str, names: list[str]) -> str:
    quoted = [f"`{each}`" for each in names]
    joins = "".join(f" JOIN {each} ON true" for each in quoted[1:])
    return query.replace("{0}", quoted[0] + joins)


@st.composite
def jobs(draw: st.DrawFn) -> JobSpec:
    """Return any job that YAML can describe and that has no part without a use for it."""
    names = draw(st.lists(_names, min_size=3, max_size=8, unique_by=str.lower))
    first, second = sorted(draw(st.tuples(st.integers(1, len(names) - 1), st.integers(1, len(names) - 1))))
    sources, operators, sinks = names[:first], names[first:second], names[second:]
    data: dict[str, Any] = {"name": draw(_uids.filter(lambda each: each[0] != "_" and each[-1] != "_"))}
    data |= draw(_some(parallelism=st.integers(1, 99), maxParallelism=st.integers(1, 99)))
    data |= draw(
        _some(
            checkpointing=_some(
                timeout=_durations.filter(lambda each: each != "0ms"), numRetained=st.integers(1, 9),
                incremental=st.booleans(), mode=st.sampled_from(["aligned", "unaligned"]), location=_some_texts,
            ),
            channels=_some(capacityBytes=st.integers(1, 10**12), capacityRecords=st.integers(1, 10**9)),
            functions=st.dictionaries(_names, st.sampled_from(["m:f", "a.b:c", "m:C.f"])),
            sparkConf=st.dictionaries(st.sampled_from(["spark.a", "spark.b.c", "other"]) | _some_texts, _texts),
        )
    )  # fmt: skip
    data["sources"] = [{"name": each, "format": draw(_some_texts)} | draw(_source) for each in sources]
    data["operators"] = []
    for name in operators:
        inputs = draw(st.lists(st.sampled_from(sources + operators), min_size=1, max_size=3, unique=True))
        looped = draw(st.sets(st.sampled_from(inputs)))
        schema = draw(_schemas)
        edges = [{"from": each, "feedback": True, "schema": schema} if each in looped else each for each in inputs]
        written = draw(st.permutations(inputs))
        code = {"python": "m:f"} if draw(st.booleans()) else {"sql": _joined(draw(_queries), list(written))}
        data["operators"].append({"name": name, "inputs": edges, **draw(_operator), **code})
    for name in sinks:
        by = draw(st.lists(st.sampled_from(["a", "b c", "it`s", "by"]), unique=True))
        part = {"name": name, "format": draw(_some_texts), "input": draw(st.sampled_from(sources + operators))}
        data.setdefault("sinks", []).append(part | draw(_sink) | ({"partitionBy": by} if by else {}))
    reading = read_spec(data)
    assert reading.spec is not None
    assert reading.problems == ()
    return reading.spec


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(jobs())
def test_a_job_in_sql_is_the_same_job(spec: JobSpec) -> None:
    text = in_sql(content_of(spec))

    read = read_sql(text, Origins())

    again = read_spec(read.data).spec
    assert read.problems == ()
    assert again == spec
    assert again.max_parallelism_is_given() == spec.max_parallelism_is_given()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(jobs())
def test_a_job_written_as_yaml_and_read_again_is_the_same_job(spec: JobSpec) -> None:
    (data,) = read_documents(converted(spec))

    assert read_spec(data).spec == spec
    assert data == content_of(spec)


@pytest.mark.parametrize("break_", ["\x85", "\u2028", "\u2029", "\r", "\r\n"])
def test_other_line_breaks_than_line_feeds_survive_in_yaml(break_: str) -> None:
    content = {"text": f"a\nb{break_}", "list": [f"{break_}a\n{break_}b"]}

    assert read_documents(write_yaml(content)) == [content]


JOB = """
SET 'name' = 'small';
CREATE SOURCE a (x INT, y STRING) WITH ('format' = 'csv', 'path' = 'in');
CREATE VIEW b AS SELECT x FROM a;
CREATE SINK out WITH ('format' = 'parquet', 'path' = '${var:out}');
INSERT INTO out SELECT * FROM b;
"""


def test_the_command_writes_a_new_file_with_the_same_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.sql").write_text(JOB, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    first = CliRunner().invoke(app, ["convert", "job.sql", "--var", "out=there", "-o", "job.yaml"])
    merged = CliRunner().invoke(app, ["convert", "job.yaml", "--set", "parallelism=7"])
    again = CliRunner().invoke(app, ["convert", "job.sql", "--var", "out=there", "-o", "job.yaml"])

    assert (first.exit_code, first.output) == (0, "")
    assert load_job("job.yaml").spec == load_job("job.sql", variables=["out=there"]).spec
    assert "parallelism: 7" in merged.output
    assert (again.exit_code, "name a file that does not exist" in again.output) == (2, True)


def test_a_function_that_only_its_file_has_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(
        "from streamjob import Job\njob = Job('small')\na = job.source('a', format='rate')\n"
        "b = job.operator(inputs=[a], name='b')(lambda a: a)\njob.sink('out', input=b, format='noop')\n",
        encoding="utf-8",
    )

    with pytest.raises(NotConvertible, match="operator 'b' has the function jobs:<lambda>"):
        converted(load_job(tmp_path / "jobs.py").spec)
