"""Avro in a job: its schema comes from the job, from a file next to it, or from a registry, and secrets do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamjob.errors import InvalidJob
from streamjob.job.connectors.kafka_source import subject_of
from streamjob.job.connectors.options import MissingVariable, encodings_of, with_resolved_encodings
from streamjob.job.loading.load import LoadedJob, load_job
from streamjob.job.planning.graph import graph_of

SCHEMA = '{"type": "long"}'
URL = "http://registry:8081"


def load(
    directory: Path,
    value: dict[str, Any] | None = None,
    sink: dict[str, Any] | None = None,
    environ: dict[str, str] | None = None,
    **options: str,
) -> LoadedJob:
    kafka = {"kafka.bootstrap.servers": "b:9092"}
    source = {"name": "a", "format": "kafka", "options": {**kafka, **(options or {"subscribe": "orders"})}}
    written = {"name": "out", "input": "a", "format": "kafka", "options": {**kafka, "topic": "sums"}}
    if value is not None:
        source["value"] = {"format": "avro", **value}
    if sink is not None:
        written["value"] = {"format": "avro", **sink}
    file = directory / "job.yaml"
    file.write_text(json.dumps({"name": "j", "sources": [source], "sinks": [written]}))
    return load_job(file, environ=environ)


def problems(directory: Path, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(InvalidJob) as refused:
        load(directory, *args, **kwargs)
    return str(refused.value) + refused.value.fix


def test_a_schema_file_next_to_the_job_becomes_the_schema(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(SCHEMA)

    spec = load(tmp_path, {"schemaFile": "order.avsc"}, {"schemaFile": "order.avsc"}).spec

    assert [encodings_of(each)["value"].schema_ddl for each in (spec.source("a"), spec.sink("out"))] == [SCHEMA, SCHEMA]


def test_a_schema_file_that_is_missing_is_named(tmp_path: Path) -> None:
    assert "source 'a': value.schemaFile: gone.avsc: there is no such file" in problems(
        tmp_path, {"schemaFile": "gone.avsc"}
    )


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({}, "value has no schema"),
        ({"schema": "id BIGINT"}, "value.schema is not JSON"),
        ({"schema": SCHEMA, "schemaFile": "x.avsc"}, "value has schema and schemaFile"),
        ({"schema": SCHEMA, "registry": {"url": URL, "version": 3}}, "value has a schema and registry.version"),
        ({"registry": {"url": "registry:8081"}}, "value.registry.url 'registry:8081' is no URL"),
        ({"registry": {"url": URL, "version": "newest"}}, "value.registry.version"),
        ({"registry": {"url": URL, "autoRegister": True}}, "value.registry.autoRegister: a source registers nothing"),
        ({"registry": {"url": URL, "options": {"basic.auth.user": "x"}}}, "the unknown option 'basic.auth.user'"),
        ({"registry": {"url": URL, "options": {"max.retries": "some"}}}, "max.retries is no number"),
        ({"registry": {"url": URL, "options": {"basic.auth.user.info": "me:secret"}}}, "holds a secret"),
        ({"registry": {"url": URL, "options": {"bearer.auth.token": "secret"}}}, "holds a secret"),
        ({"registry": {"url": "http://me:secret@registry"}}, "holds a secret"),
        ({"format": "json", "schema": "id BIGINT", "registry": {"url": URL}}, "the format json has no schemas there"),
    ],
)
def test_a_mistake_in_an_encoding_is_named_and_never_shows_a_secret(
    tmp_path: Path, value: dict[str, Any], what: str
) -> None:
    found = problems(tmp_path, value)

    assert what in found
    assert "secret" not in found.replace("a secret", "").replace("secrets", "")


def test_the_subject_is_that_of_the_topic_unless_there_are_several(tmp_path: Path) -> None:
    value = {"registry": {"url": URL}}

    spec = load(tmp_path, value, value).spec

    registry = encodings_of(spec.source("a"))["value"].registry
    assert registry is not None
    assert subject_of(spec.source("a"), "key", registry) == "orders-key"
    assert subject_of(spec.sink("out"), "value", registry) == "sums-value"
    assert "the records are of several topics" in problems(tmp_path, value, subscribe="a,b")
    assert "the records are of several topics" in problems(tmp_path, value, subscribePattern="a.*")
    load(tmp_path, {"registry": {"url": URL, "subject": "orders"}}, subscribe="a,b")


def test_secrets_of_a_registry_come_from_the_environment_and_stay_out_of_the_graph(tmp_path: Path) -> None:
    options = {"basic.auth.user.info": "${env:LOGIN}", "ssl.truststore.location": "ca.pem"}
    value = {"registry": {"url": URL, "options": options}}
    set_ = {"LOGIN": "me:word"}

    assert "value.registry.basic.auth.user.info refers to the environment variable LOGIN" in problems(
        tmp_path, value, environ={}
    )
    loaded = load(tmp_path, value, environ=set_)
    registry = encodings_of(loaded.spec.source("a"))["value"].registry
    assert registry is not None
    assert loaded.registry_options(registry, set_) == {
        "url": URL,
        "basic.auth.user.info": "me:word",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
    }
    literal = registry.model_copy(update={"options": {"basic.auth.user.info": "me:word"}})
    (source,) = loaded.spec.sources
    assert source.value is not None
    spec = loaded.spec.model_copy(
        update={
            "sources": (source.model_copy(update={"value": source.value.model_copy(update={"registry": literal})}),)
        }
    )
    assert "word" not in json.dumps(graph_of(spec))


def test_the_place_of_a_registry_and_options_of_an_encoding_come_from_the_environment(tmp_path: Path) -> None:
    value = {"registry": {"url": "${env:REGISTRY}"}, "options": {"avroSchemaEvolutionMode": "${env:MODE}"}}
    loaded = load(tmp_path, value)
    source = loaded.spec.source("a")
    registry = encodings_of(source)["value"].registry
    assert registry is not None

    assert loaded.registry_options(registry, {"REGISTRY": URL})["url"] == URL
    assert encodings_of(with_resolved_encodings(source, {"MODE": "restart"}))["value"].options == {
        "avroSchemaEvolutionMode": "restart"
    }
    (unset,) = loaded.missing_variables({"REGISTRY": URL})
    assert (
        unset.what == "value.options.avroSchemaEvolutionMode refers to the environment variable MODE, which is not set"
    )
    with pytest.raises(MissingVariable, match="REGISTRY"):
        loaded.registry_options(registry, {})
