"""Wrong jobs are refused before Spark starts, with everything that is wrong and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.job.mistakes import ONE_PROBLEM
from tests.unit.job.texts import MARKED, SINK, SOURCE, computed, jdbc, job, looped, messages, postgresql, sql, topic

from streamjob.errors import ExitCode, InvalidJob, refuse
from streamjob.job.connectors.options import UnusableOptions
from streamjob.job.loading.load import load_job


@pytest.mark.parametrize(("text", "what", "fix"), ONE_PROBLEM.values(), ids=ONE_PROBLEM.keys())
def test_what_is_wrong_is_said_with_the_fix(tmp_path: Path, text: str, what: str, fix: str) -> None:
    found = [each.replace(str(tmp_path), "DIR") for each in messages(tmp_path, text)]

    assert (f"{what}\n    fix: {fix}" if fix else what) in found
    assert "hunter2" not in "".join(found)


ALONE = sorted(
    set(ONE_PROBLEM)
    - {"no inputs", "name of a source that is no table", "inputs that are no list", "nothing but feedback"}
)


@pytest.mark.parametrize("case", ALONE)
def test_one_mistake_is_one_problem(tmp_path: Path, case: str) -> None:
    assert len(messages(tmp_path, ONE_PROBLEM[case][0])) == 1


VALID = {
    "one input that ends": sql(
        "SELECT a.x FROM a JOIN r ON a.x = r.value",
        inputs="a, r",
        sources=SOURCE.replace("format: csv", "format: csv, bounded: true") + ", {name: r, format: rate}",
    ),
    "an operator on its own": sql("SELECT * FROM a", more=", chain: false"),
    "small channels": job(more="channels: {capacityBytes: 1000000, capacityRecords: 1000, maxBatchRecords: null}"),
    "the smallest job": job(sources="{name: a, format: rate}", sinks="{name: out, input: a, format: noop}"),
    "an aggregation with a watermark": sql("SELECT x, count(*) FROM a GROUP BY x, window(t, '1 hour')", sources=MARKED),
    "a watermark on a computed column": job(sources=computed("'*', 'to_timestamp(x) AS at'", "at")),
    "a watermark on a column with another name": job(sources=computed("'t AS `the time`', 'x'", "the time")),
    "a watermark on a column that only Spark knows": job(sources=computed("'*', 'inline(xs)'", "at")),
    "a watermark on a column of a function": job(
        sources=MARKED.replace("column: t", "column: at").replace("options", "python: 'os.path:basename', options")
    ),
    "values with a time": job(
        sources=topic(
            "key: {format: text}, value: {format: json, schema: 't TIMESTAMP', options: {timestampFormat: 'yyyy'}}, "
            "onError: drop, skip: 't/0/1, t/0/2', columns: ['value.*', key], watermark: {column: t, delay: 1h}"
        ),
        sinks="{name: out, input: a, format: kafka, key: {format: text}, value: {format: json}, "
        "options: {kafka.bootstrap.servers: 'b:1', topic: t}}",
    ),
    "a window over the watermark of an operator": looped(
        "{name: p, inputs: [a], sql: 'SELECT x, t FROM a', watermark: {column: t, delay: 1h}}, "
        "{name: b, inputs: [p], sql: 'SELECT x, count(*) AS n FROM p GROUP BY x, window(t, ''1 hour'')'}"
    ),
    "an event time of its own behind a function": sql(
        "SELECT x, t FROM p", inputs="p", sources=MARKED, more=", watermark: {column: t, delay: 1h}"
    ).replace("operators: [", "operators: [{name: p, inputs: [a], python: 'os.path:basename'}, "),
    "an event time of its own behind an aggregation": sql(
        "SELECT window.end AS at, count(*) AS n FROM a GROUP BY window(t, '1 hour')",
        sources=MARKED,
        more=", watermark: {column: at, delay: 0s}",
    ),
    "an updated table in a console": sql("SELECT x, count(*) FROM a GROUP BY x", more=", outputMode: update").replace(
        "format: parquet, options: {path: out}", "format: console"
    ),
    "a sorted complete table": sql(
        "SELECT x, count(*) n FROM a GROUP BY x ORDER BY n", more=", outputMode: complete"
    ).replace("format: parquet, options: {path: out}", "format: console"),
    "two sinks of one operator": job(sinks=f"{SINK}, {{name: out2, input: a, format: parquet, options: {{path: o2}}}}"),
    "a format that is a class": job(sources="{name: a, format: com.example.Source}"),
    "a sink of one's own": job(sinks="{name: out, input: a, format: 'my.sinks:Table', delivery: exactly-once}"),
    "a table that rows are replaced in": job(
        sinks=postgresql(
            "url: 'postgresql://host/db?sslmode=require', password: '${env:PW}', "
            "table: s.t, mode: upsert, key: 'id, day'"
        )
    ),
    "an address from the environment": job(sinks=postgresql("url: '${env:DATABASE_URL}', table: t")),
    "a mode from the environment": job(sinks=postgresql("url: '${env:URL}', table: t, mode: '${env:MODE}'")),
    "a secret from the environment": job(
        sinks=jdbc("url: 'jdbc:postgresql://${env:U}:${env:P}@host/db', password: '${env:PW}', dbtable: t")
    ),
    "options that only look like secrets": job(
        more="sparkConf: {spark.hadoop.fs.s3a.aws.credentials.provider: a.B, spark.x.tokenizer: y, "
        "spark.kafka.ssl.truststore.location: /x, spark.oauth.token.endpoint.url: 'https://x/y'}"
    ),
    "files with a glob beside the output": job(sources=SOURCE.replace("path: in", "path: 'data/in-*.csv'")),
    "names in another case in SQL": sql("SELECT X FROM A"),
    "an inner join without a watermark": sql(
        "SELECT a.x FROM a JOIN r ON a.x = r.value", inputs="a, r", sources=f"{SOURCE}, {{name: r, format: rate}}"
    ),
    "a name with a dash": sql("SELECT * FROM `a-1`", inputs="a-1", sources=SOURCE.replace("name: a", "name: a-1")),
}


@pytest.mark.parametrize("text", VALID.values(), ids=VALID.keys())
def test_what_is_right_has_no_problems(tmp_path: Path, text: str) -> None:
    assert messages(tmp_path, text) == []


BAD = """
name: flights
paralelism: 3
checkpointing: {interval: 1ms}
sources:
- {name: flights, format: csv, schema: "origin STRING, departed TIMSTAMP", options: {path: data, cleanSource: delete}}
- {name: weather, format: jsn, schema: "origin STRING", options: {path: weather}}
operators:
- {name: delays, inputs: [flihgts, weather], sql: "SELECT FROM flights"}
- {name: hours, uid: delays, inputs: [delays], sql: "SELECT count(*) FROM delays", outputMode: update}
sinks:
- {name: report, input: hours, format: parquet, options: {path: out}}
- {name: copy, input: hours, format: json, options: {path: ./out}}
"""
BAD_SAID = """\
job.yaml: 11 problems
  - job: has no field 'paralelism'
    fix: did you mean 'parallelism'?
  - checkpointing: interval must be at least 100ms
  - source 'flights': has the option cleanSource: Spark would remove files that a restored checkpoint reads again
    fix: leave it out, and remove files older than the oldest checkpoint yourself
  - source 'flights': its schema gives the column 'departed' the unknown type 'TIMSTAMP'
    fix: did you mean 'timestamp'?
  - source 'weather': has the unknown format 'jsn'
    fix: did you mean 'json'?
  - operator 'hours': has the uid 'delays' of the operator 'delays'
    fix: give each part a uid of its own: state is matched by it
  - operator 'delays': has the unknown input 'flihgts'
    fix: did you mean 'flights'?
  - operator 'delays': its SQL does not parse: SELECT names no columns
    fix: correct the query
  - sink 'report': would append a row again each time it changes: operator 'hours' has outputMode update
    fix: write to delta, iceberg, kafka or postgresql with mode: upsert, or use outputMode append
  - sink 'copy': would append a row again each time it changes: operator 'hours' has outputMode update
    fix: write to delta, iceberg, kafka or postgresql with mode: upsert, or use outputMode append
  - sink 'copy': writes where the sink 'report' writes: DIR/out
    fix: give it its own path
"""


def test_everything_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(BAD, encoding="utf-8")

    with pytest.raises(InvalidJob) as caught:
        load_job("job.yaml")

    assert caught.value.exit_code == ExitCode.INVALID_INPUT
    assert str(caught.value).replace(str(tmp_path), "DIR").splitlines() == BAD_SAID.splitlines()


def test_a_cycle_names_its_way(tmp_path: Path) -> None:
    inputs = {"b": "a, d", "c": "b", "d": "c"}
    operators = ", ".join(f"{{name: {name}, inputs: [{of}], python: 'os:getcwd'}}" for name, of in inputs.items())
    text = job(operators=operators, sinks=SINK.replace("input: a", "input: d"))

    said = (
        "operator 'b': is part of a cycle: b → c → d → b\n"
        "    fix: mark the input that closes it as feedback, or take one of them out"
    )
    assert said in messages(tmp_path, text)


def test_spark_is_asked_before_a_query_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(sql("SELEC x FROM a"), encoding="utf-8")
    asked: list[str] = []

    load_job(file, spark_parser=lambda query: asked.append(query))

    assert asked == ["SELEC x FROM a"]


def test_a_part_that_cannot_be_read_causes_no_problems_elsewhere(tmp_path: Path) -> None:
    text = job(
        sources="{name: a, uid: 'no good', schema: 3}", operators="{name: b, inputs: [a], sql: 'SELECT * FROM a'}"
    )

    found = messages(tmp_path, text.replace("input: a", "input: b"))

    assert {each.split(":")[0] for each in found} == {"source 'a'"}


def test_all_that_is_wrong_is_told_at_once_and_each_fix_once() -> None:
    found = [("has no option 'a'", "leave it out"), ("has no option 'b'", "leave it out"), ("lacks 'c'", "add c")]

    with pytest.raises(UnusableOptions) as raised:
        refuse(UnusableOptions, "sink report:", iter(found))

    assert raised.value.what == "sink report: has no option 'a'; has no option 'b'; lacks 'c'"
    assert raised.value.fix == "leave it out; add c"


def test_nothing_is_refused_if_nothing_is_wrong() -> None:
    refuse(UnusableOptions, "sink report:", iter(()))
