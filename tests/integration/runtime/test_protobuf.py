"""Sources read Protobuf and sinks write it, with schemas of the job or of a schema registry."""

from __future__ import annotations

import base64
import datetime
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import jobs
from tests.integration.runtime.embedded import finish, running
from tests.integration.runtime.graphs import job, output, rows_of
from tests.integration.runtime.power import Power
from tests.integration.runtime.protobuf_records import ORDER, descriptor_set, message_class, named, order_file
from tests.integration.runtime.stories import killed_and_finished
from tests.integration.runtime.test_decoding import life_of, problem_of, rows_job, sink_options, source
from tests.jobs import sql
from tests.servers.kafka import KafkaServer
from tests.servers.schema_registry import SchemaRegistryServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

Order = message_class(order_file(), "shop.Order")
FULL: dict[str, Any] = {
    "id": 7,
    "name": "Ö",
    "state": "PAID",
    "lines": [{"sku": "a", "count": 3}, {"sku": "b"}],
    "prices": {"a": 1.5},
    "cash": 5,
    "at": datetime.datetime(2026, 1, 1, 12, 0, 0, 250_000),
    "took": datetime.timedelta(seconds=90),
    "stars": {"value": 4},
    "gift": False,
    "codes": [-1, 300],
    "raw": b"\x00\xff",
}
READ = {
    **FULL,
    "lines": [{"sku": "a", "count": 3}, {"sku": "b"}],
    "at": "2026-01-01T12:00:00.250Z",
    "took": "INTERVAL '0 00:01:30' DAY TO SECOND",
    "raw": base64.b64encode(FULL["raw"]).decode(),
}
"""The same as Spark writes it as JSON, which leaves NULL out; a scalar that was not written is NULL."""


def bytes_of(**fields: Any) -> bytes:
    written: bytes = Order(**fields).SerializeToString()
    return written


def decoded_values(directory: Path) -> list[dict[str, Any] | None]:
    return [json.loads(text) if text else None for _, text in sorted(rows_of(output(directory, "rows")))]


@pytest.mark.core
def test_protobuf_is_read_with_the_schema_of_a_proto_file_or_of_a_descriptor_set(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    # A number without an end, a text that is not UTF-8, a number in the place of a text, and no tag.
    broken = [b"\x08", b"\x12\x01\xff", b"\x10\x05", b"\xff"]
    good = [bytes_of(**FULL), b"", None, bytes_of(id=1) + b"\xf8\x07\x01", bytes_of(id=1) + bytes_of(id=2)]
    values: list[str | bytes | None] = [*good, *broken]
    kafka_server.produce(topic, [(bytes_of(id=n), value) for n, value in enumerate(values)], partition=0)
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "order.proto").write_text(ORDER)
    (tmp_path / "job" / "order.desc").write_bytes(descriptor_set(order_file()))
    read = source(
        kafka_server,
        topic,
        value={"format": "protobuf", "schemaFile": "order.proto"},
        key={
            "format": "protobuf",
            "schemaFile": "order.desc",
            "message": "shop.Order",
            "options": {"emit.default.values": "true"},
        },
        onError="drop",
    )
    life = life_of(tmp_path, rows_job(tmp_path, read, "key.id AS n, to_json(value) AS v"))

    with running(spark, life) as only:
        only.wait()
        (dropped,) = only.records_not_decoded()

    empty: dict[str, Any] = {"lines": [], "prices": {}, "codes": []}
    assert decoded_values(tmp_path) == [READ, empty, None, {**empty, "id": 1}, {**empty, "id": 2}]
    assert dropped == len(broken)


def registered(url: str, **fields: Any) -> dict[str, Any]:
    return {"format": "protobuf", "registry": {"url": url, **fields}}


def writing(server: KafkaServer, topic: str, value: dict[str, Any]) -> dict[str, Any]:
    return jobs.sink("rows", "kafka", value=value, options=sink_options(server, topic))


@pytest.mark.thorough
def test_records_of_several_schemas_are_read_by_the_numbers_of_their_fields(
    spark: SparkSession,
    kafka_server: KafkaServer,
    schema_registry: SchemaRegistryServer,
    topic: str,
    tmp_path: Path,
) -> None:
    # A registry has text, which may import what another subject has.
    common = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'
    schema_registry.register(f"{topic}-common", common, schemaType="PROTOBUF")
    money = [{"name": "shop/money.proto", "subject": f"{topic}-common", "version": 1}]
    head = 'syntax = "proto3"; package shop; import "shop/money.proto"; '
    subject = f"{topic}-value"

    def register(text: str, **fields: Any) -> int:
        return schema_registry.register(subject, text, schemaType="PROTOBUF", **fields)

    reader = register(
        head + "message Note { string text = 1; } message Order { int64 id = 1; Money price = 2; string note = 3; }",
        references=money,
    )
    schema_registry.set_compatibility(subject, "NONE")
    older = register('syntax = "proto3"; package shop; message Order { int32 number = 1; }')
    other = register('syntax = "proto3"; package shop; message Order { string id = 1; }')
    several = register('syntax = "proto3"; package shop; message Order { repeated int64 id = 1; }')
    as_bytes = register('syntax = "proto3"; package shop; message Order { uint32 id = 1; bytes note = 3; }')
    values: list[str | bytes | None] = [
        named(reader, b"\x08\x01\x12\x02\x08\x63\x1a\x01a", 1),
        named(older, b"\x08\x02"),
        named(as_bytes, b"\x08\x03\x1a\x01b"),
        named(reader, b"\x0a\x01b", 0),  # a Note
        named(other, b"\x0a\x01c"),
        named(several, b"\x0a\x01\x04"),
        named(999_999, b"\x08\x03"),
        named(reader, b"\x08\x04", 7),
        b"\x08\x05",
        b"",
    ]
    kafka_server.produce(topic, [(None, each) for each in values], partition=0)
    read = source(kafka_server, topic, value=registered(schema_registry.url, version=1), onError="deadLetter")
    read["value"]["message"] = "Order"
    letters = sql("letters", ["orders_dead_letters"], "SELECT offset, error FROM orders_dead_letters")
    rows = sql("rows", ["orders"], "SELECT value.id, value.price.cents, value.note FROM orders")
    spec = job(tmp_path, [read], [rows, letters], ["rows", "letters"], checkpointing={"interval": "1h"})
    finish(spark, life_of(tmp_path, spec))

    assert rows_of(output(tmp_path, "rows")) == Counter([(1, 99, "a"), (2, None, None), (3, None, "b")])
    error = (
        "the value is not protobuf with the declared schema, "
        "or names no schema of the registry that can be read with it"
    )
    found = dict(rows_of(output(tmp_path, "letters")).elements())
    assert set(found) == set(range(3, len(values)))
    assert all(str(each).startswith(f"{error}: it") for each in found.values())


@pytest.mark.parametrize("register", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["registers", "asks"])
def test_what_a_sink_writes_with_a_registry_a_source_and_other_libraries_read(
    spark: SparkSession,
    kafka_server: KafkaServer,
    schema_registry: SchemaRegistryServer,
    topic: str,
    tmp_path: Path,
    register: bool,
) -> None:
    out = f"{topic}-out"
    kafka_server.create_topic(out, 1)
    other = ORDER.replace("/* An order. */", "message Other { int64 id = 1; }")
    if not register:
        schema_registry.register(f"{out}-value", other, schemaType="PROTOBUF")
    given = {"schema": other} if register else {}
    encoded = {**registered(schema_registry.url, autoRegister=register), "message": "shop.Order", **given}
    kafka_server.produce(topic, [(None, bytes_of(**FULL)), (None, bytes_of(id=8))], partition=0)
    values = {"format": "protobuf", "schema": base64.b64encode(descriptor_set(order_file())).decode()}
    first = rows_job(tmp_path, source(kafka_server, topic, value=values), "value")
    first["sinks"] = [writing(kafka_server, out, encoded)]
    finish(spark, life_of(tmp_path / "first", first))
    read = source(kafka_server, out, value={**registered(schema_registry.url), "message": "Order"})
    second = rows_job(tmp_path / "second", read, "value.id AS n, to_json(value) AS v")
    finish(spark, life_of(tmp_path / "second", second))

    assert schema_registry.versions(f"{out}-value") == [1]
    assert {n: json.loads(value) for n, value in rows_of(output(tmp_path / "second", "rows"))} == {
        7: READ,
        8: {"id": 8, "lines": [], "prices": {}, "codes": []},
    }
    # A zero byte, four of the id, and one for the second message of the schema, after its count.
    records = [each.value for each in kafka_server.consume(out) if each.value is not None]
    assert [(each[0], tuple(each[5:7]), Order.FromString(each[7:])) for each in records] == [
        (0, (2, 2), Order(**FULL)),
        (0, (2, 2), Order(id=8)),
    ]


def test_a_job_whose_messages_are_missing_or_unlike_its_rows_is_refused_before_it_reads(
    spark: SparkSession, kafka_server: KafkaServer, schema_registry: SchemaRegistryServer, topic: str, tmp_path: Path
) -> None:
    two = 'syntax = "proto3"; message A { A again = 1; int32 n = 2; } message B { int32 n = 1; required_ x = 2; }'

    def read(**value: Any) -> str:
        spec = rows_job(tmp_path, source(kafka_server, topic, value={"format": "protobuf", **value}))
        return str(problem_of(spark, tmp_path, spec))

    def written(select: str, **value: Any) -> str:
        spec = rows_job(tmp_path, source(kafka_server, topic, value={"format": "protobuf", "schema": ORDER}), select)
        spec["sinks"] = [writing(kafka_server, topic, {"format": "protobuf", "schema": ORDER, **value})]
        return str(problem_of(spark, tmp_path, spec))

    good = two.replace("required_ x = 2; ", "")
    problems = {
        "does not have the subject": read(registry={"url": schema_registry.url}),
        "required_": read(schema=two, message="A"),
        "`message` has to name one of its messages: A, B": read(schema=good),
        "it has no message C; it has A, B": read(schema=good, message="C"),
        "the field A.again has the message A within itself": read(schema=good, message="A"),
        "imports other.proto, which is not with it": read(
            schema=good.replace("; message A", '; import "other.proto"; message A', 1), message="B"
        ),
        "the message shop.Order has no field for the column extra": written("value.id, 1 AS extra"),
        "the field shop.Order.id is int64, and its column is STRING": written("'x' AS id"),
        "the field shop.Order.lines is repeated shop.Order.Line": written("1 AS lines"),
        "needs a struct, and the column is BIGINT": written("value.id AS value"),
    }
    assert {expected: found for expected, found in problems.items() if expected not in found} == {}


ENVELOPE = """
syntax = "proto3";
package shop;
message Row { int64 id = 1; string name = 2; }
message Source { int64 ts_ms = 1; }
message Envelope { Row before = 1; Row after = 2; string op = 3; int64 ts_ms = 4; Source source = 5; }
"""


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def envelope(operation: str, before: int | None, after: int | None) -> bytes:
    """Return a change as Debezium writes it with a converter to Protobuf; ids and times are from 1 to 127."""
    rows = [
        field(number, bytes([8, key]) + field(2, f"n{key}".encode()))
        for number, key in ((1, before), (2, after))
        if key is not None
    ]
    return b"".join([*rows, field(3, operation.encode()), field(5, bytes([8, 7]))])


def test_changes_of_debezium_in_protobuf_are_read_once_across_a_kill(
    spark: SparkSession,
    kafka_server: KafkaServer,
    schema_registry: SchemaRegistryServer,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    number = schema_registry.register(f"{topic}-value", ENVELOPE, schemaType="PROTOBUF")
    changes = [change for key in range(1, 11) for change in (("c", None, key), ("u", key, key), ("d", key, None))]
    kafka_server.produce(topic, [("k", named(number, envelope(*each), 2)) for each in changes], partition=0)
    value = {**registered(schema_registry.url), "message": "shop.Envelope"}
    read = source(kafka_server, topic, value=value, changes="debezium")

    select = "value.id AS id, value.name AS name, _change_type, unix_millis(_commit_timestamp) AS at"
    killed_and_finished(spark, life_of(tmp_path, rows_job(tmp_path, read, select)), Power(monkeypatch))

    kinds = ("insert", "update_preimage", "update_postimage", "delete")
    assert rows_of(output(tmp_path, "rows")) == Counter(
        (key, f"n{key}", kind, 7) for key in range(1, 11) for kind in kinds
    )
