"""The Delta sink, on a local directory and in a real S3 server; the kit has the rest of what makes it exactly-once."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, QueryBuilder, Schema, write_deltalake
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession
from tests.integration.sinks import by_hand
from tests.integration.sinks.by_hand import commit
from tests.servers.s3 import S3Server

from streamjob.errors import StreamJobError
from streamjob.ids import BatchId
from streamjob.job.connectors.options import UnusableOptions
from streamjob.sink import Staged
from streamjob_runtime.lakes.delta_storage import DeltaUnreachable
from streamjob_runtime.sinks.delta.commits import StagedBatch
from streamjob_runtime.sinks.delta.sink import DeltaSink
from streamjob_runtime.sinks.errors import CommitContended, RowsRefused, StagedRowsGone, UnusableTable

pytestmark = [pytest.mark.spark, pytest.mark.server]


def opened(options: Mapping[str, str], *partition_by: str, epoch: int = 1, at_once: bool = False) -> DeltaSink:
    sink = DeltaSink("report", partition_by, at_once=at_once, wait=lambda seconds: None)
    return by_hand.opened(sink, options, epoch)


def staged(sink: DeltaSink, *batches: DataFrame) -> list[Staged]:
    for batch in batches:
        sink.check_schema(batch.schema)
    return [sink.stage(batch, BatchId(number)) for number, batch in enumerate(batches)]


def written(sink: DeltaSink, *batches: DataFrame) -> None:
    commit(sink, 1, *staged(sink, *batches))


def rows(path: Path | str, **storage: str) -> list[dict[str, Any]]:
    found = DeltaTable(str(path), storage_options=storage).to_pyarrow_table()
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def ids(path: Path) -> list[int]:
    return [row["id"] for row in rows(path)]


AT = datetime(2026, 7, 1, 12, 30, 0, 500001, tzinfo=UTC)
VALUES: Mapping[str, tuple[str, Any]] = {
    "id": ("1L", 1),
    "small": ("cast(-128 AS tinyint)", -128),
    "big": ("9223372036854775807L", 2**63 - 1),
    "text": ("'naïve☃\U0001f600'", "naïve☃\U0001f600"),
    "long text": ("concat(repeat('x', 31), '\U0010ffff\U0010ffff')", "x" * 31 + "\U0010ffff" * 2),
    "near a surrogate": ("'zzz\ud7ff'", "zzz\ud7ff"),
    "empty": ("''", ""),
    "price": ("cast('0.01' AS decimal(10,2))", Decimal("0.01")),
    "precise": (f"cast('-{'9' * 28}.0123456789' AS decimal(38,10))", Decimal(f"-{'9' * 28}.0123456789")),
    "nan": ("double('NaN')", float("nan")),
    "infinite": ("double('-Infinity')", float("-inf")),
    "zero": ("-0.0D", -0.0),
    "first day": ("date'0001-01-01'", date(1, 1, 1)),
    "day": ("date'1582-10-10'", date(1582, 10, 10)),
    "last": ("timestamp'9999-12-31 23:59:59.999999+00:00'", datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
    "at": ("timestamp'2026-07-01 12:30:00.500001+00:00'", AT),
    "clock": ("timestamp_ntz'2026-03-29 02:30:00'", datetime(2026, 3, 29, 2, 30)),
    "raw": ("X'00FF'", b"\x00\xff"),
    "a.b": ("true", True),
    'quo"ted`ü, (select)': ("cast(null AS string)", None),
    "deep": ("array(named_struct('a', timestamp'2026-07-01 12:30:00.500001+00:00'))", [{"a": AT}]),
    "named": ("map('x', 1.5D)", [("x", 1.5)]),
}


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_value_arrives_as_it_is_under_every_kind_of_name(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        written(
            opened({"path": str(tmp_path / "t")}),
            spark.sql("SELECT " + ", ".join(f"{value} AS {quoted(name)}" for name, (value, _) in VALUES.items())),
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    expected = {name: repr(value) for name, (_, value) in VALUES.items()}
    by_pyarrow = DeltaTable(str(tmp_path / "t")).to_pyarrow_table()
    query = QueryBuilder().register("t", DeltaTable(str(tmp_path / "t"))).execute("SELECT * FROM t")
    for found in (by_pyarrow, pa.table(query).cast(by_pyarrow.schema)):
        shown = {name: repr(value) for name, value in found.to_pylist()[0].items()}
        utc = repr(AT.tzinfo)
        assert {name: text.replace("zoneinfo.ZoneInfo(key='UTC')", utc) for name, text in shown.items()} == expected


def test_readers_find_each_value_by_the_bounds_of_its_file(spark: SparkSession, tmp_path: Path) -> None:
    scalar = {
        name: value for name, value in VALUES.items() if name not in ("deep", "named", "nan") and value[1] is not None
    }
    columns = ", ".join(f"{value} AS {quoted(name)}" for name, (value, _) in scalar.items())
    written(opened({"path": str(tmp_path / "t")}), spark.sql(f"SELECT {columns}"))
    dataset = DeltaTable(str(tmp_path / "t")).to_pyarrow_dataset()

    for name, (_, value) in scalar.items():
        wanted = pa.scalar(value, dataset.schema.field(name).type)
        assert dataset.count_rows(filter=pc.field(name) == wanted) == 1, name


PARTITIONS: Mapping[str, list[str | None]] = {
    "string": ["a", "a/b=c%20 ü'\"", "null", "__HIVE_DEFAULT_PARTITION__", "x" * 300, "zzz\ud7ff", None],
    "boolean": ["true", "false", None],
    "long": ["-9223372036854775808", "0", None],
    "decimal(10,3)": ["2.500", "0.001", "-2.000", "0.000", None],
    "double": ["NaN", "Infinity", "0.1", "1e300", None],
    "date": ["0001-01-01", "1582-10-10", "9999-12-31", None],
    "timestamp": ["0001-01-01 00:00:00", "1969-12-31 23:59:59.999999", "9999-12-31 23:59:59.999999", None],
    "timestamp_ntz": ["2026-03-29 02:30:00.000001", "9999-12-31 23:59:59.999999", None],
}


def test_every_partition_value_arrives_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    given = [(kind, text) for kind, texts in PARTITIONS.items() for text in texts]
    frame = spark.createDataFrame([(number, text) for number, (_, text) in enumerate(given)], "id long, text string")
    for kind in PARTITIONS:
        numbers = [number for number, (each, _) in enumerate(given) if each == kind]
        values = frame.where(frame["id"].isin(numbers)).selectExpr("id", f"cast(text AS {kind}) AS value")
        path = tmp_path / kind
        written(opened({"path": str(path)}, "value"), values)

        table = DeltaTable(str(path))
        assert table.metadata().partition_columns == ["value"]
        query = pa.table(QueryBuilder().register("t", table).execute("SELECT id, value FROM t"))
        expected = {row["id"]: row["value"] for row in values.toArrow().to_pylist()}
        for found in (table.to_pyarrow_table(), query):
            shown = {row["id"]: str(row["value"]) for row in found.to_pylist()}
            assert shown == {key: str(value) for key, value in expected.items()}, kind


REFUSED_ROWS: Mapping[str, tuple[str, str, str]] = {
    "a negative fraction as a partition": (
        "cast('-0.500' AS decimal(10,3))",
        "value",
        "a negative number with a fraction",
    ),
    "an empty text as a partition": ("''", "value", "an empty text, which is read as NULL"),
    "a year above 9999": ("timestamp_millis(1714557600000000)", "", "a time outside the years 1 to 9999"),
    "a date before year 1": ("date_add(date'0001-01-01', -1)", "", "a date outside the years 1 to 9999"),
    "a year inside a map": ("map('a', array(timestamp_millis(1714557600000000)))", "", "outside the years 1 to 9999"),
    "no UTF-8": ("cast(X'61FF' AS string)", "", "a text that is not valid UTF-8"),
}


@pytest.mark.parametrize(("value", "partition", "what"), REFUSED_ROWS.values(), ids=REFUSED_ROWS.keys())
def test_a_value_that_readers_cannot_hold_is_refused_with_its_row_before_it_is_staged(
    spark: SparkSession, tmp_path: Path, value: str, partition: str, what: str
) -> None:
    sink = opened({"path": str(tmp_path / "t")}, *([partition] if partition else []))
    good = spark.range(50).selectExpr(
        "id", f"cast(null AS {spark.sql(f'SELECT {value}').schema[0].dataType.simpleString()}) AS value"
    )
    with pytest.raises(RowsRefused) as raised:
        staged(sink, good.unionByName(spark.sql(f"SELECT 77L AS id, {value} AS value")).coalesce(1))

    assert raised.value.what.startswith("sink report: the column 'value' ")
    assert what in raised.value.what
    assert "in the row {id: 77, value: " in raised.value.what
    assert raised.value.fix
    opened({"path": str(tmp_path / "t")}, epoch=2).abort()
    assert list((tmp_path / "t").rglob("*.parquet")) == []


def test_a_checkpoint_is_one_version_that_names_it(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened({"path": str(tmp_path / "t")})
    first, second = spark.range(40, numPartitions=8), spark.range(40, 50).selectExpr("cast(id AS int) AS id")
    batches = staged(sink, first, second)
    assert [batch.rows for batch in batches] == [40, 10]
    assert ids(tmp_path / "t") == []
    commit(sink, 7, *batches)

    assert ids(tmp_path / "t") == list(range(50))
    table = DeltaTable(str(tmp_path / "t"))
    assert table.version() == 1
    assert table.history(1)[0]["streamjob.checkpoint"] == "7"
    assert len(table.file_uris()) == 2, "a small batch is one file"


def test_many_rows_over_many_tasks_are_complete_in_the_partitions_of_a_table_that_the_sink_makes(
    spark: SparkSession, tmp_path: Path
) -> None:
    many = spark.range(400_000, numPartitions=3).selectExpr("id", "id % 3 AS part", "repeat('x', 20) AS note")
    written(opened({"path": str(tmp_path / "t")}, "part"), many)
    table = DeltaTable(str(tmp_path / "t"))

    assert table.metadata().partition_columns == ["part"]
    assert len(table.to_pyarrow_table(columns=["id"]).column("id").unique()) == table.count() == 400_000


def test_a_commit_whose_answer_is_lost_is_not_made_twice(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened({"path": str(tmp_path / "t")})
    batches = staged(sink, spark.range(3))
    real, calls = DeltaTable.create_write_transaction, list[int]()

    def lost(self: DeltaTable, *args: Any, **kwargs: Any) -> None:
        calls.append(self.version())
        real(self, *args, **kwargs)
        raise OSError("connection reset")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", lost)
    commit(sink, 1, *batches)

    assert (calls, ids(tmp_path / "t")) == ([0], [0, 1, 2])


def test_others_that_write_between_delay_a_commit_and_lose_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    sink = opened({"path": str(path)})
    batches = staged(sink, spark.range(3))
    real, others = DeltaTable.create_write_transaction, iter([100, 101])

    def overtaken(self: DeltaTable, *args: Any, **kwargs: Any) -> None:
        for number in others:
            write_deltalake(path, pa.table({"id": pa.array([number], pa.int64())}), mode="append")
            break
        real(self, *args, **kwargs)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", overtaken)
    commit(sink, 1, *batches)
    assert ids(path) == [0, 1, 2, 100, 101]

    def always(self: DeltaTable, *args: Any, **kwargs: Any) -> None:
        write_deltalake(path, pa.table({"id": pa.array([200], pa.int64())}), mode="append")
        real(self, *args, **kwargs)

    more = staged(sink, spark.range(3, 5))
    monkeypatch.setattr(DeltaTable, "create_write_transaction", always)
    with pytest.raises(CommitContended, match="others changed the table each time before checkpoint 2 was committed"):
        commit(sink, 2, *more)
    assert 3 not in ids(path)


def test_the_record_outlives_the_log_the_files_and_an_older_version_of_the_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    sink = opened({"path": str(path)})
    batches = staged(sink, spark.range(5), spark.range(5, 10))
    commit(sink, 1, batches[0])
    DeltaTable(str(path)).create_checkpoint()
    (path / "_delta_log" / f"{0:020}.json").unlink()
    DeltaTable(str(path)).delete("id < 3")
    DeltaTable(str(path)).restore(1)
    commit(sink, 1, batches[0])
    assert ids(path) == list(range(5))

    table = DeltaTable(str(path))
    table.optimize.compact()
    table.delete("id < 3")
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    for sink_after in (sink, opened({"path": str(path)}, epoch=2)):
        commit(sink_after, 1, batches[0])
    assert ids(path) == [3, 4]

    # The files of the second batch were orphans for VACUUM, and the rows are due.
    with pytest.raises(StagedRowsGone, match="rows of checkpoint 2 are neither part of the table nor in streamjob/"):
        commit(opened({"path": str(path)}, epoch=3), 2, batches[1])


def test_files_that_somebody_made_part_of_a_table_are_no_leftovers(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    batches = staged(opened({"path": str(path)}), spark.range(5), spark.range(5, 8))
    (file,) = StagedBatch.model_validate(batches[0].committable).files

    table = DeltaTable(str(path))
    action = AddAction(file.path, file.size, {}, 0, True, file.statistics)
    table.create_write_transaction([action], "append", table.schema())
    opened({"path": str(path)}, epoch=2).abort()

    assert ids(path) == list(range(5))
    assert len(list(path.rglob("streamjob/**/*.parquet"))) == 1


def test_a_table_that_was_made_again_or_changed_does_not_get_the_rows_of_the_former(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    sink = opened({"path": str(path)})
    batches = staged(sink, spark.range(5))
    other = pa.table({"id": ["text"]})
    write_deltalake(path, other, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(UnusableTable, match="has changed since rows of checkpoint 1 were staged: id"):
        commit(sink, 1, *batches)
    assert DeltaTable(str(path)).to_pyarrow_table().to_pylist() == [{"id": "text"}]

    for file in (path / "_delta_log").iterdir():
        file.unlink()
    DeltaTable.create(path, Schema.from_arrow(pa.schema([("id", pa.int64())])))
    with pytest.raises(StagedRowsGone, match="is another one than it was, and rows of checkpoint 1 are due"):
        commit(sink, 1, *batches)


def test_rows_that_do_not_fit_are_refused_before_the_first(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    written(opened({"path": path}), spark.sql("SELECT 1 AS id, 'a' AS note"))
    with pytest.raises(UnusableTable) as raised:
        opened({"path": path}).check_schema(spark.sql("SELECT 1L AS id, 'x' AS not").schema)
    assert "has column 'id' of type integer, which does not hold BIGINT as it is" in raised.value.what
    assert "has no column 'not'" in raised.value.what
    assert "did you mean 'note'?" in raised.value.fix

    with pytest.raises(UnusableTable, match="'note' and 'NOTE', which differ in case only"):
        opened({"path": path}).check_schema(spark.sql("SELECT 1 AS id, 'a' AS note, 'b' AS NOTE").schema)
    with pytest.raises(UnusableTable, match="cannot have the column 'gap' of type INTERVAL"):
        opened({"path": f"{path}2"}).check_schema(spark.sql("SELECT interval 1 day AS gap").schema)


def test_rows_are_widened_also_inside_other_types(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    wide = "SELECT 1L AS id, 1D AS d, array(1D) AS ds, cast(1 AS decimal(20,4)) AS m, named_struct('x', 1L) AS s"
    narrow = (
        "SELECT cast(2 AS tinyint) AS id, 0.5F AS d, array(0.5F) AS ds, cast(2 AS decimal(10,2)) AS m, "
        "named_struct('x', 2) AS s"
    )
    written(opened({"path": str(path)}), spark.sql(wide), spark.sql(narrow))

    assert rows(path)[1] == {"id": 2, "d": 0.5, "ds": [0.5], "m": Decimal(2), "s": {"x": 2}}


def test_null_in_a_required_column_is_refused_with_its_row(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    fields = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("note", pa.string())])
    DeltaTable.create(path, Schema.from_arrow(fields))
    sink = opened({"path": str(path)})
    with pytest.raises(RowsRefused, match=r"'id' is required, and has NULL, in the row \{id: NULL, note: 'x'\}"):
        staged(sink, spark.sql("SELECT 1L AS id, 'a' AS note UNION ALL SELECT null, 'x'"))
    with pytest.raises(UnusableTable, match="has column 'id', which is required, and the rows do not have it"):
        sink.check_schema(spark.sql("SELECT 'a' AS note").schema)


def test_at_least_once_shows_each_batch_at_once(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = opened({"path": str(path)}, at_once=True)
    assert staged(sink, spark.range(3)) == [Staged(None, 3)]
    assert ids(path) == [0, 1, 2]
    opened({"path": str(path)}, epoch=2, at_once=True).abort()
    assert ids(path) == [0, 1, 2]


REFUSED: Mapping[str, tuple[Mapping[str, str], type[StreamJobError], str]] = {
    "no path": ({}, UnusableOptions, "sink report: lacks the option 'path'"),
    "an unknown option": ({"path": "/t", "mergeSchema": "true"}, UnusableOptions, "has no option 'mergeSchema'"),
    "no server": (
        {
            "path": "s3://bucket/t",
            "storage.AWS_ENDPOINT_URL": "http://127.0.0.1:1",
            "storage.AWS_ALLOW_HTTP": "true",
            "storage.AWS_ACCESS_KEY_ID": "key",
            "storage.AWS_SECRET_ACCESS_KEY": "hunter-secret-2",
            "storage.AWS_REGION": "us-east-1",
            "storage.max_retries": "0",
        },
        DeltaUnreachable,
        "the table cannot be read",
    ),
}


@pytest.mark.parametrize(("options", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_work_is_refused_at_the_start(
    options: Mapping[str, str], error: type[StreamJobError], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        opened(options)
    assert raised.value.fix
    assert "hunter-secret-2" not in str(raised.value)


def test_a_table_in_a_bucket_is_made_and_appended_to(spark: SparkSession, s3_server: S3Server, tmp_path: Path) -> None:
    storage = {
        "AWS_ENDPOINT_URL": s3_server.endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": s3_server.access_key,
        "AWS_SECRET_ACCESS_KEY": s3_server.secret_key,
        "AWS_REGION": s3_server.region,
    }
    path = f"s3://{s3_server.bucket}/delta/{tmp_path.name}"
    options = {"path": path, **{f"storage.{name}": value for name, value in storage.items()}}
    for epoch, first in ((1, 0), (2, 5)):
        sink = opened(options, epoch=epoch)
        batches = staged(sink, spark.range(first, first + 5, numPartitions=2), spark.range(100, 105))
        # Another process commits the first batch, and removes the second, which no checkpoint covers.
        later = opened(options, epoch=epoch + 10)
        commit(later, epoch, batches[0])
        later.abort()
        with pytest.raises(StagedRowsGone):
            commit(later, epoch + 1, batches[1])
        commit(sink, epoch, batches[0])

    assert [row["id"] for row in rows(path, **storage)] == list(range(10))


KINDS = ("insert", "update_preimage", "update_postimage", "delete")


@pytest.mark.parametrize("partition", [None, "id", "note"])
def test_a_table_is_what_all_changes_in_their_order_make_of_it(
    spark: SparkSession, tmp_path: Path, partition: str | None
) -> None:
    path, chance = tmp_path / "t", random.Random(7)
    changes = [(chance.choice(KINDS), chance.randrange(8), f"{number:04}") for number in range(120)]
    options = {"path": str(path), "mode": "upsert", "key": "id"}
    sink = opened(options, *([partition] if partition else []))
    frames = [
        spark.createDataFrame(changes[first : first + 30], "_change_type string, id bigint, note string").coalesce(1)
        for first in range(0, 120, 30)
    ]
    batches = staged(sink, *frames)

    def expected(count: int) -> dict[int, str]:
        table: dict[int, str] = {}
        for kind, key, note in changes[:count]:
            table.pop(key, None)
            if kind in ("insert", "update_postimage"):
                table[key] = note
        return table

    commit(sink, 1, *batches[:2])
    assert {row["id"]: row["note"] for row in rows(path)} == expected(60)
    commit(sink, 2, batches[2])
    commit(sink, 2, batches[2])
    assert DeltaTable(str(path)).version() == 2

    later = opened(options, epoch=2)
    commit(later, 2, batches[2])
    commit(later, 3, batches[3])
    sink.stage(frames[0], BatchId(9))
    later.abort()
    assert {row["id"]: row["note"] for row in rows(path)} == expected(120)
    assert len(ids(path)) == len(expected(120))
    assert list(path.rglob("streamjob/**/*.parquet")) == []


def test_a_deletion_without_effect_is_recorded_and_does_not_meet_later_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    sink = opened({"path": str(path), "mode": "upsert", "key": "id"})
    deletion = spark.sql("SELECT 'delete' AS _change_type, 5L AS id, 'x' AS note, 1 AS amount")
    batches = staged(sink, deletion)
    commit(sink, 1, *batches)
    write_deltalake(path, deletion.drop("_change_type").toArrow(), mode="append")
    commit(sink, 1, *batches)
    assert ids(path) == [5]

    # Columns that the rows lack keep what is stored.
    commit(sink, 2, *staged(sink, spark.sql("SELECT 5L AS id, 'new' AS note")))
    assert rows(path) == [{"id": 5, "note": "new", "amount": 1}]
    with pytest.raises(RowsRefused, match="the column 'id' is part of the key, and has NULL, in the row"):
        staged(sink, spark.sql("SELECT cast(null AS bigint) AS id, 'x' AS note"))
