"""Jobs are loaded from YAML, from a StreamJob resource and from Python, and are the same job."""

from __future__ import annotations

import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamjob.errors import ExitCode, InvalidInput, InvalidJob
from streamjob.ids import OperatorUid
from streamjob.job.connectors.options import MissingVariable
from streamjob.job.loading.load import LoadedJob, load_job


@pytest.fixture(autouse=True)
def _python_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loading a job makes its directory importable and imports its modules, for good."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(tempfile.gettempdir()):
            del sys.modules[name]


YAML = """
name: departures
parallelism: 3
checkpointing: {interval: 5s, numRetained: 2}
sources:
- name: flights
  format: csv
  schema: origin STRING, departed TIMESTAMP, delay INT
  options: {path: data/flights, header: true, maxFilesPerTrigger: 6}
  bounded: true
  watermark: {column: departed, delay: 1h}
- name: weather
  format: json
  schema: "origin STRING, observed TIMESTAMP"
  options: {path: data/weather}
  bounded: true
operators:
- {name: delays, uid: delays-1, inputs: [flights, weather], python: "departures:delays"}
- name: hours
  inputs: [delays]
  sql: |
    SELECT origin, count(*) AS flights
    FROM delays GROUP BY origin, window(departed, '1 hour')
sinks:
- {name: report, input: hours, format: parquet, options: {path: output}, partitionBy: [origin]}
sparkConf: {spark.driver.memory: 1g}
"""

PYTHON = """
from streamjob import Job, Watermark

job = Job(
    "departures",
    parallelism=3,
    checkpointing={"interval": "5s", "num_retained": 2},
    spark_conf={"spark.driver.memory": "1g"},
)
flights = job.source(
    "flights",
    format="csv",
    schema="origin STRING, departed TIMESTAMP, delay INT",
    options={"path": "data/flights", "header": True, "maxFilesPerTrigger": 6},
    bounded=True,
    watermark=("departed", "1 hour"),
)
weather = job.source(
    "weather", format="json", schema="origin STRING, observed TIMESTAMP", options={"path": "data/weather"}, bounded=True
)


@job.operator(inputs=[flights, weather], uid="delays-1")
def delays(flights, weather):
    return [flights, weather]


hours = job.sql(
    "hours",
    inputs=[delays],
    sql='''
    SELECT origin, count(*) AS flights
    FROM delays GROUP BY origin, window(departed, '1 hour')
    ''',
)
job.sink("report", input=hours, format="parquet", options={"path": "output"}, partition_by=["origin"])
"""


def write(path: Path, text: str) -> Path:
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def load(directory: Path, text: str, *overrides: str) -> LoadedJob:
    return load_job(write(directory / "job.yaml", text), overrides)


SMALL = """
name: small
sources: [{name: a, format: rate}]
sinks: [{name: out, input: a, format: console}]
"""


def problems_of(file: Path, *overrides: str) -> str:
    with pytest.raises(InvalidJob) as caught:
        load_job(file, overrides)
    return str(caught.value)


def test_python_and_yaml_give_the_same_model(tmp_path: Path) -> None:
    write(tmp_path / "departures.py", PYTHON)

    from_yaml = load(tmp_path, YAML)
    from_python = load_job(tmp_path / "departures.py")

    assert from_python.spec == from_yaml.spec
    assert from_python.directory == from_yaml.directory == tmp_path


def test_a_python_operator_is_called_with_its_inputs_in_order_whichever_way_it_was_written(tmp_path: Path) -> None:
    write(tmp_path / "departures.py", PYTHON)

    for loaded in (load(tmp_path, YAML), load_job(tmp_path / "departures.py")):
        function = loaded.resolve(loaded.spec.operator("delays"))

        assert function("f", "w") == ["f", "w"]


def test_the_functions_of_a_python_job_are_known_by_uid(tmp_path: Path) -> None:
    loaded = load_job(write(tmp_path / "departures.py", PYTHON))

    assert list(loaded.functions) == [OperatorUid("delays-1")]


def test_defaults_follow_from_the_other_fields(tmp_path: Path) -> None:
    write(tmp_path / "departures.py", PYTHON)
    spec = load(tmp_path, YAML).spec

    assert spec.max_parallelism == 6
    assert not spec.max_parallelism_is_given()
    assert spec.source("weather").uid == "weather"
    assert spec.sink("report").delivery == "exactly-once"
    assert spec.checkpointing.interval == 5
    assert spec.checkpointing.timeout == 600


def test_null_stands_for_the_default(tmp_path: Path) -> None:
    spec = load(tmp_path, SMALL + "maxParallelism: null\ncheckpointing: {alignedCheckpointTimeout: null}\n").spec

    assert spec.max_parallelism == 4
    assert spec.checkpointing.aligned_checkpoint_timeout is None


def test_options_are_text_as_spark_takes_it(tmp_path: Path) -> None:
    options = "{header: true, n: 6, x: 1.5, day: 2013-01-01, at: 10:30, no: no, zero: 007}"
    spec = load(tmp_path, SMALL.replace("format: rate", f"format: a.Source, options: {options}")).spec

    assert spec.source("a").options == {
        "header": "true",
        "n": "6",
        "x": "1.5",
        "day": "2013-01-01",
        "at": "10:30",
        "no": "no",
        "zero": "007",
    }


def test_a_resource_holds_the_job_and_its_spec_overrides_it(tmp_path: Path) -> None:
    text = """
    apiVersion: v1
    kind: ConfigMap
    ---
    apiVersion: streamjob.io/v1alpha1
    kind: StreamJob
    metadata: {name: from-metadata, namespace: flights}
    spec:
      image: ours
      parallelism: 8
      checkpointing: {interval: 1m}
      sparkConf: {spark.a: 2}
      job:
        parallelism: 2
        checkpointing: {interval: 5s, numRetained: 7}
        sparkConf: {spark.a: 1, spark.b: 1}
        sources: [{name: a, format: rate}]
        sinks: [{name: out, input: a, format: console}]
    """
    loaded = load(tmp_path, text)

    assert loaded.spec.name == "from-metadata"
    assert loaded.namespace == "flights"
    assert loaded.spec.parallelism == 8
    assert loaded.spec.max_parallelism == 16
    assert loaded.spec.checkpointing.interval == 60
    assert loaded.spec.checkpointing.num_retained == 7
    assert loaded.spec.spark_conf == {"spark.a": "2", "spark.b": "1"}


def test_a_resource_and_its_job_have_one_name(tmp_path: Path) -> None:
    text = """\
apiVersion: streamjob.io/v1alpha1
kind: StreamJob
metadata: {name: departures}
spec:
  job: {name: NAME, sources: [{name: a, format: rate}], sinks: [{name: out, input: a, format: console}]}
"""

    assert load(tmp_path, text.replace("NAME", "departures")).spec.name == "departures"
    file = write(tmp_path / "job.yaml", text.replace("NAME", "arrivals"))
    assert "spec.job: has the name 'arrivals', but its StreamJob is 'departures'" in problems_of(file)


def test_schedules_of_a_resource_that_never_fire_are_problems(tmp_path: Path) -> None:
    file = write(
        tmp_path / "job.yaml",
        """\
apiVersion: streamjob.io/v1alpha1
kind: StreamJob
metadata: {name: departures}
spec:
  savepoints: {schedule: 0 0 31 2 *}
  schedule: {cron: 0 3 * * *, timeZone: Europe/Bonn}
  job: {sources: [{name: a, format: rate}], sinks: [{name: out, input: a, format: console}]}
""",
    )

    assert "spec.savepoints.schedule: schedule '0 0 31 2 *' never fires" in problems_of(file)
    assert "spec.schedule: there is no time zone 'Europe/Bonn'; write it like Europe/Berlin" in problems_of(file)


@pytest.mark.parametrize(
    ("cron", "source", "said"),
    [
        ("6h", "format: csv, schema: x INT, options: {path: /in}", "'6h' is not a time: write minute, hour, day of"),
        ("0 3 * * *", "format: rate", "source 'a' has the format 'rate', which does not tell what is there now"),
        (
            "0 3 * * *",
            "format: csv, schema: x INT, bounded: true, options: {path: /in}",
            "all its sources are bounded, so that its first run would finish it",
        ),
    ],
)
def test_a_schedule_that_the_job_cannot_keep_is_a_problem(tmp_path: Path, cron: str, source: str, said: str) -> None:
    text = f"""\
apiVersion: streamjob.io/v1alpha1
kind: StreamJob
metadata: {{name: departures}}
spec:
  SCHEDULE
  job: {{sources: [{{name: a, {source}}}], sinks: [{{name: out, input: a, format: console}}]}}
"""
    load(tmp_path, text.replace("  SCHEDULE\n", ""))
    file = write(tmp_path / "job.yaml", text.replace("SCHEDULE", f"schedule: {{cron: {cron}}}"))

    assert f"spec.schedule: {said}" in problems_of(file)


def test_overrides_reach_every_field(tmp_path: Path) -> None:
    spec = load(
        tmp_path,
        SMALL,
        "name=other",
        "parallelism=5",
        "checkpointing.interval=1m",
        "sources.a.format=a.Source",
        "sources.a.options.kafka.bootstrap.servers=x:9092",
        "sparkConf.spark.driver.memory=4g",
        "sinks.out.delivery=at-least-once",
    ).spec

    assert spec.name == "other"
    assert spec.max_parallelism == 10
    assert spec.checkpointing.interval == 60
    assert spec.source("a").options == {"kafka.bootstrap.servers": "x:9092"}
    assert spec.spark_conf == {"spark.driver.memory": "4g"}


def test_overrides_reach_a_python_job_too(tmp_path: Path) -> None:
    file = write(tmp_path / "departures.py", PYTHON)

    assert load_job(file, ["parallelism=1"]).spec.max_parallelism == 2


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("parallelism", "--set parallelism: is not PATH=VALUE"),
        ("sources.b.options.x=1", "--set sources.b.options.x: there is no 'b'"),
        ("sources.a=1", "names 'a' and none of its fields"),
        ("name.x=1", "there is nothing below it that could have a field 'x'"),
        ("paralelism=1", "has no field 'paralelism'\n    fix: did you mean 'parallelism'?"),
        ("sources.a.options.x={", "the value cannot be read as YAML"),
    ],
)
def test_an_override_that_cannot_be_applied_is_a_problem(tmp_path: Path, override: str, said: str) -> None:
    assert said in problems_of(write(tmp_path / "job.yaml", SMALL), override)


def test_relative_paths_are_below_the_file_and_uris_stay(tmp_path: Path) -> None:
    text = """
    name: paths
    checkpointing: {location: snapshots}
    sources: [{name: a, format: text, options: {path: in/*.txt}}]
    sinks:
    - {name: one, input: a, format: parquet, delivery: at-least-once, options: {path: "s3://bucket/x"}}
    - {name: two, input: a, format: parquet, options: {path: /abs}}
    """
    loaded = load(tmp_path, text)

    assert loaded.options(loaded.spec.source("a")) == {"path": f"{tmp_path}/in/*.txt"}
    assert loaded.options(loaded.spec.sink("one")) == {"path": "s3://bucket/x"}
    assert loaded.options(loaded.spec.sink("two")) == {"path": "/abs"}
    assert loaded.location() == f"{tmp_path}/snapshots"


SECRET = """
name: secret
sources:
- name: a
  format: kafka
  options: {kafka.bootstrap.servers: "k:9092", kafka.sasl.password: "${env:PW}", subscribe: "t-${env:STAGE}"}
sinks: [{name: out, input: a, format: console}]
sparkConf: {spark.hadoop.fs.s3a.secret.key: "${env:PW}"}
"""


def test_a_secret_comes_from_the_environment_at_use_and_is_nowhere_else(tmp_path: Path) -> None:
    loaded = load(tmp_path, SECRET)
    environ = {"PW": "hunter2", "STAGE": "prod"}

    assert loaded.options(loaded.spec.source("a"), environ) == {
        "kafka.bootstrap.servers": "k:9092",
        "kafka.sasl.password": "hunter2",
        "subscribe": "t-prod",
    }
    assert loaded.spark_conf(environ) == {"spark.hadoop.fs.s3a.secret.key": "hunter2"}
    assert "hunter2" not in repr(loaded) + loaded.spec.model_dump_json()


def test_a_variable_that_is_not_set_is_an_error_when_it_is_used(tmp_path: Path) -> None:
    loaded = load(tmp_path, SECRET)

    with pytest.raises(MissingVariable, match="the environment variable PW is not set"):
        loaded.options(loaded.spec.source("a"), {"STAGE": "prod"})


def test_variables_that_are_not_set_are_problems_where_the_environment_is_known(tmp_path: Path) -> None:
    file = write(tmp_path / "job.yaml", SECRET)

    with pytest.raises(InvalidJob) as caught:
        load_job(file, environ={"STAGE": "prod"})

    assert [str(each).splitlines()[0] for each in caught.value.problems] == [
        "source 'a': kafka.sasl.password refers to the environment variable PW, which is not set",
        "sparkConf: spark.hadoop.fs.s3a.secret.key refers to the environment variable PW, which is not set",
    ]


def test_a_module_beside_the_file_goes_before_an_installed_one(tmp_path: Path) -> None:
    text = SMALL.replace("input: a", "input: b") + "operators: [{name: b, inputs: [a], python: 'rich:keep'}]\n"
    for version in ("first", "second"):
        directory = tmp_path / version
        directory.mkdir()
        write(directory / "helpers.py", f"def keep(a): return '{version}'\n")
        loaded = load(directory, text.replace("rich:", "helpers:"))

        assert loaded.resolve(loaded.spec.operator("b"))("a") == version


def test_a_module_that_fails_to_import_is_a_problem_of_its_operator(tmp_path: Path) -> None:
    write(tmp_path / "broken_module.py", "x = 1\nimport no_such_package\n\n\ndef keep(a):\n    return a\n")
    text = SMALL.replace("input: a", "input: b") + "operators: [{name: b, inputs: [a], python: 'broken_module:keep'}]\n"
    loaded = load(tmp_path, text)

    with pytest.raises(InvalidJob) as caught:
        loaded.resolve(loaded.spec.operator("b"))

    assert "operator 'b': importing broken_module failed: line 2: ModuleNotFoundError" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("job.yaml", "", "file: is empty"),
        ("job.yaml", "- a\n- b\n", "job: is not a mapping"),
        ("job.yaml", "name: [\n", "file: cannot be read as YAML: line 2, column 1"),
        (
            "job.yaml",
            "name: a\nname: b\n",
            "file: cannot be read as YAML: line 2, column 1: the key 'name' is there twice",
        ),
        ("job.yaml", "name: a\n---\nname: b\n", "file: holds 0 jobs"),
        ("job.yaml", "apiVersion: v1\nkind: Pod\n", "file: is a resource of kind 'Pod'"),
        (
            "job.yaml",
            "apiVersion: streamjob.io/v1alpha1\nkind: StreamJob\nspec: {mainApplicationFile: job.py}\n",
            "spec.job: is not there\n    fix: name that file itself: job.py",
        ),
        ("broken.py", "x = 1\ny = x +\n", "file: line 2: SyntaxError: invalid syntax"),
        (
            "broken.py",
            "def f():\n    return nothing\n\n\nf()\n",
            "file: line 2: NameError: name 'nothing' is not defined",
        ),
        ("broken.py", "x = 1\n", "file: defines no 'job'\n    fix: write job = Job('name') at the top level"),
        (
            "broken.py",
            "from streamjob import Job\nflights = Job('flights')\n",
            "file: defines no 'job'\n    fix: rename 'flights' to 'job'",
        ),
        ("json.py", "x = 1\n", "file: has the name of the module 'json'"),
        ("broken.py", "import sys\nsys.exit(3)\n", "file: line 2: SystemExit: 3"),
        (
            "broken.py",
            (
                "from streamjob import Job\njob = Job('a')\n"
                "job.sink('out', input=Job('b').source('x', format='rate'), format='console')\n"
            ),
            "input 'x': belongs to the job 'b'",
        ),
    ],
)
def test_a_file_that_holds_no_job_says_why(tmp_path: Path, name: str, text: str, said: str) -> None:
    assert said in problems_of(write(tmp_path / name, text))


def test_a_file_that_is_not_there_is_invalid_input(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no such file") as caught:
        load_job(tmp_path / "none.yaml")

    assert caught.value.exit_code == ExitCode.INVALID_INPUT


def test_a_job_in_a_file_may_call_its_operators_as_functions(tmp_path: Path) -> None:
    loaded = load_job(write(tmp_path / "departures.py", PYTHON + "\nassert delays(1, 2) == [1, 2]\n"))

    assert loaded.spec.name == "departures"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (
            "job = Job('a', batchDuration='2s')",
            "Job() has no argument 'batchDuration'\n    fix: did you mean 'batch_dura",
        ),
        (
            "Job('a').source('b', fromat='rate')",
            "Job.source() has no argument 'fromat'\n    fix: did you mean 'format'?",
        ),
        (
            "@Job('a').operator(input=[])\ndef b(): pass",
            "Job.operator() has no argument 'input'\n    fix: did you mean 'in",
        ),
        ("Job('a').sink('b', wholly=1)", "Job.sink() has no argument 'wholly'\n    fix: the arguments are delivery, "),
    ],
)
def test_an_argument_that_does_not_exist_suggests_the_nearest(tmp_path: Path, line: str, what: str) -> None:
    (tmp_path / "named.py").write_text(f"from streamjob import Job\n\n{line}\n")

    with pytest.raises(InvalidJob) as refused:
        load_job(tmp_path / "named.py")

    assert f"file: line 3: {what}" in str(refused.value)


def test_a_missing_argument_is_told_as_python_tells_it() -> None:
    from streamjob import Job

    with pytest.raises(TypeError, match=r"Job.source\(\) missing 1 required keyword-only argument: 'format'"):
        Job("a").source("b")  # type: ignore[call-arg]
