"""Sources read Avro and sinks write it, with schemas of the job or of a schema registry."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import jobs
from tests.integration.runtime.avro_records import long, named, record, text
from tests.integration.runtime.embedded import finish, running
from tests.integration.runtime.graphs import job, output, rows_of
from tests.integration.runtime.power import Power
from tests.integration.runtime.test_decoding import ids, life_of, problem_of, rows_job, sink_options, source
from tests.jobs import sql
from tests.servers.kafka import KafkaServer
from tests.servers.process import free_port
from tests.servers.schema_registry import SchemaRegistryServer, guarded

from streamjob.errors import StreamJobError
from streamjob_runtime.job.bad_input_errors import RecordNotDecoded
from streamjob_runtime.kafka.schemas import RegistryUnreachable, SchemaMissing, SchemaRegistry
from streamjob_runtime.spark.text.text_records import UnusableSchema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

ORDER = record("Order", id="long", name=["null", "string"])
EMPTY = long(0)
"""The branch of a union that is null."""


def order(number: int, name: str | None = None) -> bytes:
    return long(number) + (EMPTY if name is None else long(1) + text(name))


@pytest.mark.core
def test_avro_is_read_with_the_schema_of_a_file_and_broken_records_are_told_from_empty_ones(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    schema = record("Order", id=["null", "long"], name=["null", "string"])
    nothing = EMPTY + EMPTY
    broken = [b"", b"\x02", nothing + b"\x00", b"\x02\x02\x02\xfe\xff\xff\xff\x0f", b"\x09\x00"]
    good = [long(1) + long(7) + long(1) + text("seven"), nothing, None]
    values: list[str | bytes | None] = [*good, *broken]
    kafka_server.produce(topic, [(long(n), value) for n, value in enumerate(values)], partition=0)
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "order.avsc").write_text(schema)
    read = source(
        kafka_server,
        topic,
        value={"format": "avro", "schemaFile": "order.avsc"},
        key={"format": "avro", "schema": '"long"'},
        onError="drop",
    )
    life = life_of(tmp_path, rows_job(tmp_path, read, "key, value.*, value IS NULL AS gone"))

    with running(spark, life) as only:
        only.wait()
        (dropped,) = only.records_not_decoded()

    assert rows_of(output(tmp_path, "rows")) == Counter(
        [(0, 7, "seven", False), (1, None, None, False), (2, None, None, True)]
    )
    assert dropped == len(broken)


def test_a_job_ends_at_a_record_that_is_not_avro(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    kafka_server.produce(topic, [(None, order(1)), (None, "no avro")], partition=1)
    life = life_of(tmp_path, rows_job(tmp_path, source(kafka_server, topic, value={"format": "avro", "schema": ORDER})))

    with (
        pytest.raises(RecordNotDecoded, match="at offset 1 is not avro with the declared schema"),
        running(spark, life) as only,
    ):
        only.wait()


def evolving(server: KafkaServer, topic: str, registry: SchemaRegistryServer, **fields: Any) -> dict[str, Any]:
    return source(server, topic, value={"format": "avro", "registry": {"url": registry.url, **fields}})


def test_a_schema_that_evolves_in_the_middle_of_a_stream_costs_no_row_across_a_kill(
    spark: SparkSession,
    kafka_server: KafkaServer,
    schema_registry: SchemaRegistryServer,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The reader's version has a field that the first one lacks, lacks another one, and has a wider type.
    subject = f"{topic}-value"
    schema_registry.register(f"{topic}-any", '"string"')
    first = schema_registry.register(subject, record("Order", id="int", old="string", name="string"))
    schema_registry.set_compatibility(subject, "NONE")
    schema_registry.register(subject, record("Order", name="string", id="long", note=("string", "none")))
    kafka_server.produce(
        topic, [(None, named(first, long(n) + text("gone") + text(f"n{n}"))) for n in range(20)], partition=0
    )
    read = evolving(kafka_server, topic, schema_registry, version=2)
    read["bounded"] = False
    read["options"]["startingOffsets"] = "earliest"
    life = life_of(tmp_path, rows_job(tmp_path, read, "value.*, offset"))
    power = Power(monkeypatch)
    with running(spark, life) as before:
        before.wait_for_batches()
        before.checkpoint()
        # Nobody knew this schema when the job began.
        third = schema_registry.register(
            subject, record("Order", id="long", more=["null", "long"], name="string", note="string")
        )
        later = [(None, named(third, long(2**40 + n) + EMPTY + text(f"n{n}") + text("new"))) for n in range(20, 40)]
        kafka_server.produce(topic, later, partition=0)
        # Five batches have the first records.
        before.wait_for(lambda: before.batch > 5, "a record of the new schema")
        power.cut(before, lambda: None)
        before.wait()

    power.comes_back()
    with running(spark, replace(life, overrides=("checkpointing.interval=300ms",))) as after:
        after.wait_for(lambda: rows_of(output(tmp_path, "rows")).total() >= 40, "all rows")
        after.stop()

    old = [(f"n{n}", n, "none", n) for n in range(20)]
    new = [(f"n{n}", 2**40 + n, "new", n) for n in range(20, 40)]
    assert rows_of(output(tmp_path, "rows")) == Counter([*old, *new])


def test_a_record_that_names_no_schema_of_the_registry_is_broken(
    spark: SparkSession,
    kafka_server: KafkaServer,
    schema_registry: SchemaRegistryServer,
    topic: str,
    tmp_path: Path,
) -> None:
    number = schema_registry.register(f"{topic}-value", ORDER)
    other = schema_registry.register(f"{topic}-other", record("Other", at="long"))
    good = named(number, order(1, "a"))
    values = [good, order(2), named(999_999, order(3)), named(other, long(4)), b"\x01" + good[1:], good[:5], b"\x00"]
    kafka_server.produce(topic, [(None, each) for each in values], partition=0)
    read = {**evolving(kafka_server, topic, schema_registry), "onError": "deadLetter"}
    letters = sql("letters", ["orders_dead_letters"], "SELECT offset, error FROM orders_dead_letters")
    rows = sql("rows", ["orders"], "SELECT value.id AS id FROM orders")
    spec = job(tmp_path, [read], [rows, letters], ["rows", "letters"], checkpointing={"interval": "1h"})

    finish(spark, life_of(tmp_path, spec))

    assert ids(tmp_path) == [1]
    error = (
        "the value is not avro with the declared schema, or names no schema of the registry that can be read with it"
    )
    cut, no_id = "its bytes are no value of the schema", "it does not begin with the id of a schema"
    causes = [no_id, "the registry has no schema 999999 whose values can be read", cut, no_id, cut, no_id]
    found = dict(rows_of(output(tmp_path, "letters")).elements())
    assert set(found) == set(range(1, len(values)))
    for n, cause in enumerate(causes, 1):
        assert str(found[n]).startswith(f"{error}: {cause}")


@pytest.mark.parametrize("register", [True, False], ids=["registers", "looks up"])
def test_what_a_sink_writes_with_a_registry_a_source_reads(
    spark: SparkSession,
    kafka_server: KafkaServer,
    schema_registry: SchemaRegistryServer,
    topic: str,
    tmp_path: Path,
    register: bool,
) -> None:
    out = f"{topic}-out"
    kafka_server.create_topic(out, 1)
    if not register:
        schema_registry.register(
            f"{out}-value", record("Order", id="long", name=["null", "string"], more=["null", "int"])
        )
    kafka_server.produce(topic, [(f"k{n}", order(n, f"n{n}" if n % 2 else None)) for n in range(20)], partition=0)
    spec = rows_job(tmp_path, source(kafka_server, topic, value={"format": "avro", "schema": ORDER}), "key, value.*")
    registered = {"format": "avro", "registry": {"url": schema_registry.url}}
    registering = {"format": "avro", "registry": {"url": schema_registry.url, "autoRegister": register}}
    spec["sinks"] = [jobs.sink("rows", "kafka", value=registering, options=sink_options(kafka_server, out))]
    finish(spark, life_of(tmp_path / "first", spec))

    assert schema_registry.versions(f"{out}-value") == [1]
    read = source(kafka_server, out, key={"format": "text"}, value=registered)
    second = rows_job(tmp_path / "second", read, "key, value.id, value.name")
    finish(spark, life_of(tmp_path / "second", second))
    assert rows_of(output(tmp_path / "second", "rows")) == Counter(
        (f"k{n}", n, f"n{n}" if n % 2 else None) for n in range(20)
    )


def test_keys_and_values_are_written_and_read_with_a_registry_that_wants_a_password(
    spark: SparkSession,
    kafka_server: KafkaServer,
    schema_registry: SchemaRegistryServer,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = f"{topic}-out"
    kafka_server.create_topic(out, 1)
    kafka_server.produce(topic, [(None, order(n, f"n{n}")) for n in range(8)], partition=0)
    monkeypatch.setenv("REGISTRY_PASSWORD", "only-for-tests-5e1d")
    with guarded(schema_registry, "streamjob", "only-for-tests-5e1d") as url:
        registry = {"url": url, "options": {"basic.auth.user.info": "streamjob:${env:REGISTRY_PASSWORD}"}}
        avro = {"format": "avro", "registry": registry}
        registering = {"format": "avro", "registry": {**registry, "autoRegister": True}}
        written = "named_struct('id', value.id) AS key, value.id AS id, value.name AS name"
        first = rows_job(tmp_path, source(kafka_server, topic, value={"format": "avro", "schema": ORDER}), written)
        options = sink_options(kafka_server, out)
        first["sinks"] = [jobs.sink("rows", "kafka", key=registering, value=registering, options=options)]
        finish(spark, life_of(tmp_path / "first", first))
        read = source(kafka_server, out, key=avro, value=avro)
        second = rows_job(tmp_path / "second", read, "key.id AS k, value.id, value.name")
        finish(spark, life_of(tmp_path / "second", second))

    assert [schema_registry.versions(f"{out}-{part}") for part in ("key", "value")] == [[1], [1]]
    assert rows_of(output(tmp_path / "second", "rows")) == Counter((n, n, f"n{n}") for n in range(8))


def test_a_source_is_refused_before_it_reads_without_its_schema(
    spark: SparkSession, kafka_server: KafkaServer, schema_registry: SchemaRegistryServer, topic: str, tmp_path: Path
) -> None:
    silent = f"http://127.0.0.1:{free_port()}"

    def problem(value: dict[str, Any]) -> StreamJobError:
        read = source(kafka_server, topic, value={"format": "avro", **value})
        return problem_of(spark, tmp_path, rows_job(tmp_path, read))

    missing = problem({"registry": {"url": schema_registry.url}})
    with pytest.raises(RegistryUnreachable, match=silent):
        SchemaRegistry(spark, "Source 'orders'", {"url": silent, "max.retries": "0"}).schema("orders-value", "latest")
    wrong = problem({"schema": '{"type": "recrod"}'})

    assert isinstance(missing, SchemaMissing)
    assert f"does not have the subject '{topic}-value'" in str(missing)
    assert isinstance(wrong, UnusableSchema)
