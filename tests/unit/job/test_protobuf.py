"""Protobuf in a job: its schema is a .proto file or a descriptor set, and mistakes are named before anything starts."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.duration_pb2 import DESCRIPTOR as DURATION

from streamjob.errors import InvalidJob
from streamjob.job.connectors.options import encodings_of
from streamjob.job.loading.load import LoadedJob, load_job
from streamjob.job.model.encoding_spec import Encoding
from streamjob_runtime.kafka import schemas
from streamjob_runtime.spark.connectors.finding import compilers, needed

TEXT = 'syntax = "proto3";\n\tmessage Order { int64 id = 1; } // a “quoted” word\n'
URL = "http://registry:8081"


def descriptor_set() -> bytes:
    found = FileDescriptorSet()
    DURATION.CopyToProto(found.file.add())
    return bytes(found.SerializeToString())


DESCRIPTORS = base64.b64encode(descriptor_set()).decode()


def load(directory: Path, value: dict[str, Any] | None = None, sink: dict[str, Any] | None = None) -> LoadedJob:
    kafka = {"kafka.bootstrap.servers": "b:9092"}
    source = {"name": "a", "format": "kafka", "options": {**kafka, "subscribe": "orders"}}
    written = {"name": "out", "input": "a", "format": "kafka", "options": {**kafka, "topic": "sums"}}
    for part, given in ((source, value), (written, sink)):
        if given is not None:
            part["value"] = {"format": "protobuf", **given}
    file = directory / "job.yaml"
    file.write_text(json.dumps({"name": "j", "sources": [source], "sinks": [written]}))
    return load_job(file)


@pytest.mark.parametrize(
    ("content", "schema"), [(TEXT.encode(), TEXT), (descriptor_set(), DESCRIPTORS)], ids=["proto", "descriptor set"]
)
def test_the_file_of_a_schema_is_text_or_a_descriptor_set(tmp_path: Path, content: bytes, schema: str) -> None:
    (tmp_path / "order").write_bytes(content)

    spec = load(tmp_path, {"schemaFile": "order"}, {"schemaFile": "order"}).spec

    assert [encodings_of(each)["value"].schema_ddl for each in (spec.source("a"), spec.sink("out"))] == [schema] * 2


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidJob, match=r"source 'a': value.schemaFile: gone.proto: there is no such file"):
        load(tmp_path, {"schemaFile": "gone.proto"})


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({}, "source 'a': value has no schema"),
        (
            {"schema": "id BIGINT, name STRING"},
            "value.schema is neither the text of a .proto file nor a descriptor set",
        ),
        ({"schema": ""}, "value.schema is neither"),
        ({"schema": TEXT, "schemaFile": "x.proto"}, "value has schema and schemaFile"),
        ({"schema": TEXT, "registry": {"url": URL, "version": 3}}, "value has a schema and registry.version"),
        ({"registry": {"url": "registry"}}, "value.registry.url 'registry' is no URL"),
        ({"schema": TEXT, "options": {"enum.as.ints": "true"}}, "value.options has the unknown option 'enum.as.ints'"),
        ({"schema": TEXT, "options": {"enums.as.ints": "yes"}}, "value.options: enums.as.ints is 'yes'"),
        ({"schema": TEXT, "options": {"recursive.fields.max.depth": "11"}}, "recursive.fields.max.depth is '11'"),
        ({"schema": TEXT, "options": {"mode": "FAILFAST"}}, "value.options has 'mode'"),
        ({"format": "avro", "schema": '"long"', "message": "Order"}, "value.message: the format avro has no messages"),
    ],
)
def test_a_mistake_in_a_source_is_named(tmp_path: Path, value: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        load(tmp_path, value)

    assert what in str(refused.value)


@pytest.mark.parametrize(
    ("sink", "what"),
    [
        ({}, "value has no schema"),
        (
            {"registry": {"url": URL, "autoRegister": True}},
            "value.registry.autoRegister: there is no schema to register",
        ),
        (
            {"registry": {"url": URL}, "schema": DESCRIPTORS},
            "value.schema is a descriptor set, and the registry has texts",
        ),
        ({"schema": TEXT, "options": {"enums.as.ints": "true"}}, "value.options: protobuf has none in a sink"),
    ],
)
def test_a_mistake_in_a_sink_is_named(tmp_path: Path, sink: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        load(tmp_path, sink=sink)

    assert what in str(refused.value)


@pytest.mark.parametrize(
    ("value", "connectors"),
    [
        ({"schema": TEXT}, ("kafka", "protobuf")),
        ({"registry": {"url": URL}}, ("kafka", "protobuf")),
        ({"schema": DESCRIPTORS}, ("kafka",)),
        ({"format": "avro", "registry": {"url": URL}}, ("kafka",)),
    ],
    ids=["text", "registry", "descriptor set", "avro"],
)
def test_only_a_job_with_texts_of_proto_files_needs_what_compiles_them(
    tmp_path: Path, value: dict[str, Any], connectors: tuple[str, ...]
) -> None:
    spec = load(tmp_path, value).spec

    assert needed(spec, {}) == connectors
    assert compilers(spec) == tuple(each for each in connectors if each == "protobuf")


def test_a_spark_without_what_compiles_proto_files_is_told_from_a_bad_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "has_class", lambda *_: False)
    spark: Any = None

    schemas.check_compiler(spark, "Source 'a'", Encoding(format="protobuf", schema=DESCRIPTORS))
    with pytest.raises(schemas.CompilerMissing, match="Source 'a': this Spark cannot compile"):
        schemas.check_compiler(spark, "Source 'a'", Encoding(format="protobuf", schema=TEXT))
