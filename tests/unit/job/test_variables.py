"""Variables of a job: `${var:name}` from the command line, `${env:NAME}` from where the job runs, and defaults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.job.texts import job

from streamjob.errors import InvalidJob
from streamjob.job.connectors.options import MissingVariable, is_secret, substitute
from streamjob.job.loading.load import LoadedJob, load_job
from streamjob.job.model.references import ENVIRONMENT, VARIABLE, names_in, replaced, unset_in

JOB = """
name: small
parallelism: ${var:slots:-3}
channels: {capacityBytes: "${var:bytes:-1000}"}
sources:
- name: a
  format: kafka
  options: {kafka.bootstrap.servers: "${env:BROKERS:-localhost:9092}", subscribe: "${var:stage:-test}-orders"}
operators: [{name: b, inputs: [a], sql: "SELECT '${var:stage:-test}' AS stage, value FROM a"}]
sinks: [{name: out, input: b, format: parquet, options: {path: "${var:out:-output}"}}]
"""


def load(directory: Path, text: str, *variables: str, overrides: tuple[str, ...] = ()) -> LoadedJob:
    file = directory / "job.yaml"
    file.write_text(text, encoding="utf-8")
    return load_job(file, overrides, variables=variables)


def problems(directory: Path, text: str, *variables: str) -> list[str]:
    with pytest.raises(InvalidJob) as caught:
        load(directory, text, *variables)
    return [str(each).replace("\n    fix: ", "; ") for each in caught.value.problems]


def unset(name: str) -> str:
    return f"which is not given; give it by --var {name}=…, or a default: ${{var:{name}:-…}}"


def test_a_variable_has_the_value_of_the_command_line(tmp_path: Path) -> None:
    spec = load(tmp_path, JOB, "stage=prod", "slots=8", "bytes=5", "out=there/a=b").spec

    assert (spec.parallelism, spec.channels.capacity_bytes) == (8, 5)
    assert spec.source("a").options["subscribe"] == "prod-orders"
    assert spec.operator("b").sql == "SELECT 'prod' AS stage, value FROM a"
    assert spec.sink("out").options["path"] == "there/a=b"


def test_a_variable_that_is_not_given_has_its_default(tmp_path: Path) -> None:
    spec = load(tmp_path, JOB).spec

    assert (spec.parallelism, spec.channels.capacity_bytes) == (3, 1000)
    assert spec.source("a").options["subscribe"] == "test-orders"


def test_a_value_keeps_its_spelling_where_a_field_takes_text(tmp_path: Path) -> None:
    spec = load(tmp_path, JOB, "stage=1.10", "out=007").spec

    assert spec.source("a").options["subscribe"] == "1.10-orders"
    assert spec.sink("out").options["path"] == "007"


def test_a_value_of_the_environment_stays_a_reference_in_the_model(tmp_path: Path) -> None:
    loaded = load(tmp_path, JOB)

    assert loaded.spec.source("a").options["kafka.bootstrap.servers"] == "${env:BROKERS:-localhost:9092}"
    assert loaded.options(loaded.spec.source("a"), {})["kafka.bootstrap.servers"] == "localhost:9092"
    assert loaded.options(loaded.spec.source("a"), {"BROKERS": "k:1"})["kafka.bootstrap.servers"] == "k:1"


def test_a_field_that_is_set_on_the_command_line_may_refer_to_a_variable(tmp_path: Path) -> None:
    spec = load(tmp_path, JOB, "dir=there", overrides=("sinks.out.options.path=${var:dir}/x",)).spec

    assert spec.sink("out").options["path"] == "there/x"


def test_a_variable_that_is_not_given_is_a_problem_of_its_field(tmp_path: Path) -> None:
    text = JOB.replace("${var:out:-output}", "${var:out}").replace("${var:slots:-3}", "${var:slots}")

    by = "in a StreamJob, write the value itself"
    assert problems(tmp_path, text, "slot=4") == [
        "--var slot: nothing refers to it; did you mean 'slots'?",
        f"job: parallelism refers to the variable 'slots', {unset('slots')}; {by}",
        f"sink 'out': options.path refers to the variable 'out', {unset('out')}; {by}",
    ]


@pytest.mark.parametrize("given", ["stage", "=x", "a b=c"])
def test_a_variable_needs_a_name_and_a_value(tmp_path: Path, given: str) -> None:
    assert "is not NAME=VALUE" in problems(tmp_path, JOB, given)[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("${var:out:-output}", "${var:}", "sink 'out': options.path has '${var:' and no reference to a variable"),
        ("${var:out:-output}", "${env:A-b}", "sink 'out': options.path has '${env:' and no reference to the environ"),
        ("name: small", "name: small\ncheckpointing: {location: '${env:PLACE}'}", "checkpointing: location refers to"),
    ],
)
def test_a_reference_that_nothing_replaces_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    (problem,) = problems(tmp_path, JOB.replace(old, new))

    assert problem.startswith(said)


def test_a_number_has_to_be_one(tmp_path: Path) -> None:
    assert problems(tmp_path, JOB, "slots=many") == ["job: parallelism must be a whole number"]


def test_a_stream_job_has_no_variables(tmp_path: Path) -> None:
    body = "\n".join(f"    {line}" for line in JOB.splitlines())
    resource = f"apiVersion: streamjob.io/v1alpha1\nkind: StreamJob\nmetadata: {{name: small}}\nspec:\n  job:\n{body}"

    found = problems(tmp_path, resource, "stage=prod")

    assert found[0].startswith("--var: has no effect on a StreamJob")
    assert any("refers to the variable 'stage'" in each for each in found)


@pytest.mark.parametrize(
    ("key", "value", "secret"),
    [
        ("password", "${env:P}", False),
        ("password", "${env:P:-}", False),
        ("password", "${env:P:-${env:Q}}", False),
        ("password", "${env:P:-hunter2}", True),
        ("password", "${env:P:-${env:Q:-hunter2}}", True),
        ("url", "postgresql://u:${env:P:-hunter2}@h/d", True),
        ("url", "postgresql://u:${env:P}@${env:H:-localhost}/d", False),
        ("path", "${env:P:-output}", False),
    ],
)
def test_a_default_in_the_file_is_no_place_for_a_secret(key: str, value: str, secret: bool) -> None:
    assert is_secret(key, value) is secret


def test_a_secret_given_as_a_variable_is_refused_without_being_shown(tmp_path: Path) -> None:
    text = JOB.replace('subscribe: "', 'kafka.sasl.password: "${var:pw}", subscribe: "')

    (problem,) = problems(tmp_path, text, "pw=hunter2")

    assert "holds a secret" in problem
    assert "hunter2" not in problem


def test_an_empty_value_gives_way_to_the_default() -> None:
    assert substitute("${env:A:-b}${env:C}", {"A": "", "C": ""}) == "b"


def test_a_default_may_refer_to_another_variable() -> None:
    assert substitute("${env:A:-${env:B:-c}}", {}) == "c"
    assert substitute("${env:A:-${env:B:-c}}", {"B": "b"}) == "b"
    with pytest.raises(MissingVariable, match="B is not set"):
        substitute("${env:A:-x${env:B}}", {})


_parts = st.recursive(
    st.text(st.characters(codec="ascii", exclude_characters="${}"), max_size=5)
    | st.sampled_from(["${env:A}", "${var:a}", "${var:b-c}", "${env:B}"]),
    lambda inner: st.builds("${{{}:{}:-{}}}".format, st.sampled_from(["env", "var"]), st.sampled_from("AB"), inner),
    max_leaves=3,
)


@given(st.lists(_parts, max_size=4).map("".join), st.dictionaries(st.sampled_from(["A", "B", "a"]), st.text("x$")))
def test_what_is_missing_is_what_keeps_a_text_from_being_replaced(text: str, values: dict[str, str]) -> None:
    for kind in (ENVIRONMENT, VARIABLE):
        missing = list(unset_in(text, kind, values.get))

        complete = replaced(text, kind, {**dict.fromkeys(missing, ""), **values}.get)

        assert set(missing) <= set(names_in(text, kind)) - set(values)
        if "$" not in "".join(values.values()):
            assert not list(names_in(complete, kind))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("iceberg", {"table": "${env:TABLE}", "catalog.uri": "${env:URI}", "catalog.type": "${env:KIND}"}),
        ("postgresql", {"url": "${env:URL}", "table": "${env:TABLE}", "mode": "${env:MODE}", "key": "${env:KEY}"}),
        ("kafka", {"kafka.bootstrap.servers": "${env:BROKERS}", "topic": "${env:TOPIC}", "mode": "${env:MODE}"}),
        ("delta", {"path": "${env:PATH_OF_IT}", "mode": "${env:MODE}", "key": "${env:KEY}"}),
    ],
)
def test_any_option_of_a_sink_may_come_from_the_environment(tmp_path: Path, kind: str, options: dict[str, str]) -> None:
    sink = {"name": "out", "input": "a", "format": kind, "options": options}
    (tmp_path / "job.yaml").write_text(job(sinks=json.dumps(sink)))

    assert load_job(tmp_path / "job.yaml").spec.sinks[0].options == options

    (tmp_path / "job.yaml").write_text(job(sinks=json.dumps({**sink, "options": {**options, "tabel": "${env:X}"}})))
    with pytest.raises(InvalidJob, match="tabel"):
        load_job(tmp_path / "job.yaml")
