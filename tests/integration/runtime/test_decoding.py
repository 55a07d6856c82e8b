"""Sources decode records of Kafka, sinks encode them, and records that cannot be decoded end the job or are dropped."""

from __future__ import annotations

import base64
import json
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import jobs
from tests.integration.runtime.embedded import Life, finish, life_in, running
from tests.integration.runtime.graphs import job, output, rows_of
from tests.integration.runtime.power import Power
from tests.integration.runtime.stories import NEVER, killed_behind_a_checkpoint
from tests.jobs import sql
from tests.servers.kafka import KafkaServer

from streamjob.errors import ExitCode, StreamJobError
from streamjob_runtime.job.bad_input_errors import RecordNotDecoded
from streamjob_runtime.monitoring.metrics import Metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

FIELDS = "id BIGINT, name STRING, at TIMESTAMP"
AT = "2026-01-01T12:00:00"
JSON = {"value": {"format": "json", "schema": FIELDS}, "key": {"format": "text"}}


def source(server: KafkaServer, topic: str, **fields: Any) -> dict[str, Any]:
    return jobs.topic("orders", server.bootstrap, topic, {"maxOffsetsPerTrigger": 4}, **{"bounded": True, **fields})


def sink_options(server: KafkaServer, topic: str) -> dict[str, str]:
    """Return the options of a sink with a topic for commits of its own: the jobs of all tests have one name."""
    commits = f"{topic}-commits-{secrets.token_hex(4)}"
    server.create_topic(commits, 1, cleanup_policy="compact")
    return {"kafka.bootstrap.servers": server.bootstrap, "topic": topic, "commitsTopic": commits}


def rows_job(directory: Path, read: dict[str, Any], select: str = "value.id AS id") -> dict[str, Any]:
    rows = sql("rows", ["orders"], f"SELECT {select} FROM orders")
    return job(directory, [read], [rows], ["rows"], checkpointing={"interval": "1h"})


def life_of(directory: Path, spec: dict[str, Any]) -> Life:
    return life_in(directory, spec, restarts=NEVER)


def problem_of(spark: SparkSession, tmp_path: Path, spec: dict[str, Any]) -> StreamJobError:
    with pytest.raises(StreamJobError) as refused, running(spark, life_of(tmp_path, spec)) as only:
        only.wait()
    return refused.value


def as_json(number: int, **fields: Any) -> str:
    return json.dumps({"id": number, "name": f"n{number}", "at": AT, "more": 1, **fields})


def ids(directory: Path) -> list[int]:
    return sorted(number for (number, *_), count in rows_of(output(directory, "rows")).items() for _ in range(count))


@pytest.mark.parametrize(
    ("encoding", "values"),
    [
        (JSON["value"], [as_json(1), '{"id": 2}', None]),
        (
            {"format": "csv", "schema": FIELDS, "options": {"sep": ";", "timestampFormat": "dd.MM.yyyy HH:mm"}},
            ["1;n1;01.01.2026 12:00", "2;;", None],
        ),
    ],
    ids=["json", "csv"],
)
def test_values_become_structs_and_keys_texts(
    spark: SparkSession,
    kafka_server: KafkaServer,
    topic: str,
    tmp_path: Path,
    encoding: dict[str, Any],
    values: Sequence[str | None],
) -> None:
    kafka_server.produce(topic, [(f"k{number}", value) for number, value in enumerate(values)], partition=0)
    read = source(kafka_server, topic, value=encoding, key={"format": "text"})

    finish(spark, life_of(tmp_path, rows_job(tmp_path, read, "key, value.*, value IS NULL AS gone, offset")))

    assert sorted(rows_of(output(tmp_path, "rows"))) == [
        ("k0", 1, "n1", AT, False, 0),
        ("k1", 2, None, None, False, 1),
        ("k2", None, None, None, True, 2),
    ]


def test_a_job_ends_at_a_record_that_it_cannot_decode_and_the_named_command_goes_on_behind_it(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    values = [as_json(number) for number in range(30)]
    values[17] = as_json(17, id="seventeen")
    kafka_server.produce(topic, [("k", value) for value in values], partition=1)
    # With restarts: such an end must not be one of them.
    life = replace(life_of(tmp_path, rows_job(tmp_path, source(kafka_server, topic, **JSON))), restarts=Life.restarts)

    with pytest.raises(RecordNotDecoded) as ended, running(spark, life) as first:
        first.wait()
    assert f"the value of partition 1 of topic '{topic}' at offset 17 is not json" in str(ended.value)
    (setting,) = [each.strip("'; ") for each in ended.value.fix.split("--set ")[1].split("; or")[:1]]

    finish(spark, replace(life, overrides=(setting,)))

    assert ids(tmp_path) == [each for each in range(30) if each != 17]


@pytest.mark.parametrize(
    ("form", "bad"),
    [("json", "no json"), ("json", ""), ("json", b"\xff\xfe"), ("csv", "17,n17,2026-01-01,more")],
)
def test_a_record_that_cannot_be_decoded_ends_the_job_also_if_no_query_reads_its_fields(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path, form: str, bad: str | bytes
) -> None:
    good = as_json(1) if form == "json" else "1,n1,2026-01-01"
    kafka_server.produce(topic, [("k", good), ("k", bad)], partition=1)
    read = source(kafka_server, topic, value={"format": form, "schema": FIELDS})

    said = f"the value of partition 1 of topic '{topic}' at offset 1 is not {form} with the fields {FIELDS}: it"
    with (
        pytest.raises(RecordNotDecoded, match=said),
        running(spark, life_of(tmp_path, rows_job(tmp_path, read, "offset AS id"))) as job,
    ):
        job.wait()


@pytest.mark.core
def test_records_that_cannot_be_decoded_are_dropped_and_counted_across_a_kill(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: list[str | bytes | None] = [as_json(number) for number in range(40)]
    bad: dict[int, str | bytes] = {3: "no json", 12: "", 13: as_json(13, at="soon"), 25: b"\xff\xfe", 39: '{"id": 39'}
    for number, value in bad.items():
        values[number] = value
    kafka_server.produce(topic, [("k", value) for value in values], partition=0)
    life = life_of(tmp_path, rows_job(tmp_path, source(kafka_server, topic, **JSON, onError="drop")))
    killed_behind_a_checkpoint(spark, life, Power(monkeypatch))

    with running(spark, life) as last:
        assert last.wait() is ExitCode.OK
        last.control.observe()
        seen = last.control.job()
        metrics = Metrics(last.control.job, last.control.checkpoints).render().decode()

    assert ids(tmp_path) == [each for each in range(40) if each not in bad]
    # At least one batch was covered by the checkpoint, and is not read again.
    (dropped,) = [each.records_not_decoded for chain in seen.chains for each in chain.inputs]
    assert dropped is not None
    assert 1 <= dropped <= 4
    assert f'streamjob_source_records_not_decoded_total{{source="orders"}} {float(dropped)}' in metrics


@pytest.mark.parametrize("columns", ["columns", "function"])
def test_dead_letters_have_the_original_bytes_and_each_record_is_in_one_output_across_a_kill(
    spark: SparkSession,
    kafka_server: KafkaServer,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    columns: str,
) -> None:
    values: list[str | bytes | None] = [as_json(n, at=f"2026-01-01T12:{n:02d}:00") for n in range(40)]
    bad: dict[int, str | bytes] = {3: "no json", 12: b"\xff\xfe", 25: as_json(25, at="soon"), 39: "{"}
    for number, value in bad.items():
        values[number] = value
    kafka_server.produce(topic, [("k", value) for value in values], partition=1)
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "flattening.py").write_text("def flat(rows):\n    return rows.select('value.*')\n")
    how = (
        {"columns": ["explode(array(value.at)) AS at", "key"]}
        if columns == "columns"
        else {"python": "flattening:flat"}
    )
    timed = {"watermark": {"column": "at", "delay": "1m"}}
    counts = "SELECT window.start AS at, count(*) AS n FROM orders GROUP BY window(at, '10 minutes')"
    letters = "SELECT CAST(key AS STRING), base64(value), topic, partition, offset, error, failed IS NOT NULL FROM "
    spec = job(
        tmp_path,
        [source(kafka_server, topic, **JSON, **how, **timed, onError="deadLetter")],
        [sql("rows", ["orders"], counts), sql("letters", ["orders_dead_letters"], letters + "orders_dead_letters")],
        ["rows", "letters"],
        checkpointing={"interval": "1h"},
    )
    life = life_of(tmp_path, spec)
    killed_behind_a_checkpoint(spark, life, Power(monkeypatch))

    finish(spark, life)

    found = sorted(rows_of(output(tmp_path, "letters")).elements(), key=lambda row: int(row[4]))
    errors = {
        3: "it is no JSON: Unrecognized token",
        12: "its bytes are no UTF-8",
        25: 'the field at is "soon", which is no TIMESTAMP',
        39: "it is no JSON: Unexpected end-of-input",
    }
    assert [(*row[:5], row[6]) for row in found] == [
        ("k", base64.b64encode(each if isinstance(each, bytes) else each.encode()).decode(), topic, 1, n, True)
        for n, each in bad.items()
    ]
    for row in found:
        assert str(row[5]).startswith(f"the value is not json with the fields {FIELDS}: {errors[int(row[4])]}")
    windows = Counter(n // 10 for n in range(40) if n not in bad)
    assert rows_of(output(tmp_path, "rows")) == Counter(
        (f"2026-01-01T12:{window}0:00", count) for window, count in windows.items()
    )


def test_a_job_that_begins_to_keep_dead_letters_goes_on_with_its_windows(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    def produce(*values: str) -> None:
        kafka_server.produce(topic, [("k", value) for value in values], partition=0)

    def spec(**fields: Any) -> dict[str, Any]:
        read = source(kafka_server, topic, **JSON, **fields, columns=["value.*"], bounded=False)
        read |= {"watermark": {"column": "at", "delay": "0s"}}
        read["options"]["startingOffsets"] = "earliest"
        counts = "SELECT window.start AS at, count(*) AS n FROM orders GROUP BY window(at, '10 minutes')"
        operators, outputs = [sql("rows", ["orders"], counts)], ["rows"]
        if "onError" in fields:
            letters = "SELECT CAST(value AS STRING) AS value FROM orders_dead_letters"
            operators.append(sql("letters", ["orders_dead_letters"], letters))
            outputs.append("letters")
        return job(tmp_path, [read], operators, outputs, checkpointing={"interval": "300ms"})

    produce(as_json(1), as_json(2))
    life = life_of(tmp_path, spec())
    with running(spark, life) as first:
        first.wait_for_batches()
        first.stop()

    produce("broken", as_json(3), as_json(4, at="2026-01-01T12:30:00"))
    with running(spark, life_of(tmp_path, spec(onError="deadLetter"))) as second:
        second.wait_for(lambda: bool(output(tmp_path, "rows")) and bool(output(tmp_path, "letters")), "both outputs")
        second.stop()

    assert rows_of(output(tmp_path, "rows")) == Counter([(AT, 3)])
    assert rows_of(output(tmp_path, "letters")) == Counter([("broken",)])


def test_keys_that_are_no_text_are_dropped(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    kafka_server.produce(topic, [(b"\xff", "a"), (b"k", "b"), (None, "c")], partition=0)
    read = source(kafka_server, topic, key={"format": "text"}, onError="drop")

    finish(spark, life_of(tmp_path, rows_job(tmp_path, read, "key, CAST(value AS STRING) AS value")))

    assert rows_of(output(tmp_path, "rows")) == Counter([("k", "b"), (None, "c")])


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_what_a_sink_encodes_a_source_decodes(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path, delivery: str
) -> None:
    kafka_server.produce(topic, [(f"k{number}", as_json(number)) for number in range(20)], partition=0)
    kafka_server.create_topic(f"{topic}-out", 1)
    spec = rows_job(
        tmp_path, source(kafka_server, topic, **JSON), "key, value.id AS id, value.at AS at, 7 AS partition"
    )
    spec["operators"][0]["sql"] = "SELECT key, value.id AS id, value.at AS at FROM orders"
    value = {"format": "json", "options": {"timestampFormat": "yyyy"}}
    options = sink_options(kafka_server, f"{topic}-out")
    spec["sinks"] = [jobs.sink("rows", "kafka", delivery=delivery, value=value, options=options)]

    finish(spark, life_of(tmp_path, spec))

    found = {(each.key, each.value) for each in kafka_server.consume(f"{topic}-out")}
    assert found == {(f"k{number}".encode(), f'{{"id":{number},"at":"2026"}}'.encode()) for number in range(20)}
