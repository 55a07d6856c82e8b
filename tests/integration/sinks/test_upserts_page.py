"""The functions of the guide to upserts write by key, change nothing when repeated, and refuse what does not fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
import redis
from pyspark.sql import DataFrame, SparkSession
from tests.architecture.documents import blocks
from tests.integration.sinks.upserts import PAGE, module
from tests.servers.mariadb import MariadbServer
from tests.servers.redis import RedisServer

from streamjob_runtime.spark.session import keep_utc

pytestmark = [pytest.mark.spark, pytest.mark.server]

TYPES = {
    "boolean": ("TINYINT(1)", {"true": "1", "false": "0"}),
    "tinyint": ("TINYINT", {"-128": "-128", "127": "127"}),
    "smallint": ("SMALLINT", {"-32768": "-32768", "32767": "32767"}),
    "int": ("INT", {"-2147483648": "-2147483648", "2147483647": "2147483647"}),
    "bigint": ("BIGINT", {each: each for each in ("-9223372036854775808", "9223372036854775807")}),
    "float": ("DOUBLE", {"3.4028235e38": "3.4028234663852886e38", "1.4e-45": "1.401298464324817e-45"}),
    "double": ("DOUBLE", {each: each for each in ("1.7976931348623157e308", "5e-324", "0.1")} | {"-0.0": "0"}),
    "decimal(38,0)": ("DECIMAL(38,0)", {each: each for each in ("9" * 38, "-" + "9" * 38)}),
    "decimal(38,38)": (
        "DECIMAL(38,38)",
        {each: each for each in (f"0.{'0' * 6}{'123456789' * 3}12345", f"-0.{'9' * 38}", f"0.{'0' * 37}1")},
    ),
    "date": ("DATE", {each: each for each in ("0001-01-01", "1582-10-10", "1969-12-31", "9999-12-31")}),
    "timestamp": (
        "DATETIME(6)",
        {
            "0001-01-02 00:00:00+00:00": "0001-01-02 00:00:00.000000",
            "1969-12-31 23:59:59.999999+00:00": "1969-12-31 23:59:59.999999",
            "2013-11-03 01:30:00.123456-05:00": "2013-11-03 06:30:00.123456",
            "9999-12-31 23:59:59.999999+00:00": "9999-12-31 23:59:59.999999",
        },
    ),
    "timestamp_ntz": ("DATETIME(6)", {"2026-03-29 02:30:00.000001": "2026-03-29 02:30:00.000001"}),
}
"""By Spark's type: MySQL's, and what MariaDB's client prints for each value."""
TEXTS = [
    "",
    " a ",
    "'\"%s\\ %",
    "a\nb\r\nc\td",
    "Größe ☃ 😀",
    "\U0010ffff\ud7ff\ue000\uffff",
    "a\0b",
    "NULL",
    "y" * 70_000,
]
BYTES = [b"", bytes(range(256)), b"'\\%s"]


def table(server: MariadbServer, columns: str, *parts: str, values: Sequence[str] = ("v",)) -> dict[str, Any]:
    """Make the table with the key `id`, and return the functions of the page for it."""
    server.execute(f"CREATE OR REPLACE TABLE departures {columns}")
    found = module("def connect(", *parts)
    found.update({"KEY": ["id"], "VALUES": values, "COLUMNS": ["id", *values]})
    return found


def of(spark: SparkSession, kind: str, *values: str) -> DataFrame:
    """Return rows that are numbered from 0, with a NULL behind the values."""
    rows = [f"({number}L, CAST({value} AS {kind}))" for number, value in enumerate((*values, "NULL"))]
    return spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS t(id, v)")


@pytest.fixture(autouse=True)
def utc() -> None:
    """Let Python see times as it does in a job."""
    keep_utc()


@pytest.mark.parametrize("kind", TYPES)
def test_each_value_arrives_as_it_was(kind: str, spark: SparkSession, mariadb: MariadbServer) -> None:
    column, values = TYPES[kind]
    upsert = table(mariadb, f"(id BIGINT PRIMARY KEY, v {column})")["upsert"]

    for _ in range(2):
        upsert(of(spark, kind, *(f"'{each}'" for each in values)), 7)

    found = mariadb.execute("SELECT v FROM departures ORDER BY id")
    assert found == [*([text] for text in values.values()), ["NULL"]]


@pytest.mark.parametrize(
    ("kind", "column", "values"),
    [("string", "LONGTEXT CHARACTER SET utf8mb4", TEXTS), ("binary", "LONGBLOB", BYTES)],
)
def test_texts_and_bytes_arrive_as_they_were(
    kind: str, column: str, values: list[Any], spark: SparkSession, mariadb: MariadbServer
) -> None:
    upsert = table(mariadb, f"(id BIGINT PRIMARY KEY, v {column})")["upsert"]

    for _ in range(2):
        upsert(spark.createDataFrame(list(enumerate(values)), f"id bigint, v {kind}"), 7)

    found = mariadb.execute("SELECT HEX(v) FROM departures ORDER BY id")
    inputs = [each.encode() if isinstance(each, str) else each for each in values]
    assert [bytes.fromhex(text) for (text,) in found] == inputs


REFUSED = {
    "a text that is too long": ("VARCHAR(3)", "string", "'JFKX'"),
    "spaces that would be cut off": ("VARCHAR(3)", "string", "'JFK '"),
    "a character that the column does not have": ("VARCHAR(3) CHARACTER SET latin1", "string", "'☃'"),
    "a text that is no JSON": ("JSON", "string", "'{'"),
    "a number out of range": ("INT", "bigint", "2147483648"),
    "a number below zero": ("INT UNSIGNED", "int", "-1"),
    "digits before the point": ("DECIMAL(10,2)", "decimal(12,2)", "'1234567890.12'"),
    "digits behind the point": ("DECIMAL(10,2)", "decimal(10,3)", "'0.125'"),
    "NaN": ("DOUBLE", "double", "'NaN'"),
    "infinity": ("DOUBLE", "double", "'Infinity'"),
    "NULL": ("INT NOT NULL", "int", "NULL"),
    "a year that Python does not have": ("DATE", "date", "'+10000-01-01'"),
    "bytes that are too many": ("VARBINARY(1)", "binary", "X'0102'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_value_that_does_not_fit_is_refused_and_the_table_stays_as_it_was(
    what: str, spark: SparkSession, mariadb: MariadbServer
) -> None:
    column, kind, value = REFUSED[what]
    found = table(mariadb, f"(id BIGINT PRIMARY KEY, v {column})")
    mariadb.execute("SET sql_mode = ''; INSERT INTO departures (id, v) VALUES (1, 1)")
    before = mariadb.execute("SELECT id, HEX(v) FROM departures")
    good = spark.createDataFrame([(each,) for each in range(2_500)], "id bigint").selectExpr(
        "id", f"CAST('1' AS {kind}) v"
    )
    if kind == "date":
        good = good.selectExpr("id", "current_date() AS v")
    batch = good.union(spark.sql(f"SELECT 9999L, CAST({value} AS {kind})")).coalesce(1)

    with pytest.raises((found["pymysql"].Error, ValueError)):
        found["upsert"](batch, 7)

    assert mariadb.execute("SELECT id, HEX(v) FROM departures") == before


TABLES = {
    "no key": ("(id BIGINT, v INT)", "int", "the primary key of departures"),
    "a unique index as the key": ("(id BIGINT, v INT, UNIQUE (id))", "int", "the primary key of departures"),
    "a second unique index": ("(id BIGINT PRIMARY KEY, v INT UNIQUE)", "int", "the primary key of departures"),
    "a key that makes itself": ("(id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT)", "int", "is bigint auto_increment"),
    "a column that is missing": ("(id BIGINT PRIMARY KEY)", "int", "departures.v is missing"),
    "a time of seconds": ("(id BIGINT PRIMARY KEY, v DATETIME)", "timestamp", "departures.v is datetime, "),
    "a time of the session": ("(id BIGINT PRIMARY KEY, v TIMESTAMP(6))", "timestamp", "departures.v is timestamp(6), "),
    "a float": ("(id BIGINT PRIMARY KEY, v FLOAT)", "float", "departures.v is float, which does not keep each float"),
    "a double as an integer": ("(id BIGINT PRIMARY KEY, v INT)", "double", "departures.v is int, "),
    "a text of one length": ("(id BIGINT PRIMARY KEY, v CHAR(3))", "string", "departures.v is char, "),
    "an array": ("(id BIGINT PRIMARY KEY, v JSON)", "array<int>", "which does not keep each array<int>"),
}


@pytest.mark.parametrize("what", TABLES)
def test_a_table_that_would_change_values_in_silence_is_refused(
    what: str, spark: SparkSession, mariadb: MariadbServer
) -> None:
    columns, kind, message = TABLES[what]

    with pytest.raises(TypeError) as refused:
        table(mariadb, columns)["upsert"](of(spark, kind), 7)

    assert message in str(refused.value)


@pytest.mark.parametrize("collation", ["utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_nopad_bin"])
def test_keys_that_are_not_equal_stay_apart(collation: str, spark: SparkSession, mariadb: MariadbServer) -> None:
    found = table(mariadb, f"(id VARCHAR(9) CHARACTER SET utf8mb4 COLLATE {collation} PRIMARY KEY, v INT)")
    batch = spark.createDataFrame([("jfk", 1), ("JFK", 2), ("jfk ", 3)], "id string, v int")

    if collation != "utf8mb4_nopad_bin":
        with pytest.raises(TypeError, match=f"has the collation {collation}"):
            found["upsert"](batch, 7)
        return
    found["upsert"](batch, 7)

    assert mariadb.execute("SELECT CONCAT(id, '|'), v FROM departures ORDER BY v") == [
        ["jfk|", "1"],
        ["JFK|", "2"],
        ["jfk |", "3"],
    ]


def test_a_null_in_a_key_is_refused(spark: SparkSession, mariadb: MariadbServer) -> None:
    found = table(mariadb, "(id BIGINT PRIMARY KEY, v INT)")

    with pytest.raises(found["pymysql"].Error, match="cannot be null"):
        found["upsert"](spark.sql("SELECT CAST(NULL AS BIGINT) AS id, 1 AS v"), 7)

    assert mariadb.execute("SELECT * FROM departures") == []


def test_the_table_of_the_page_is_one_that_the_function_takes(spark: SparkSession, mariadb: MariadbServer) -> None:
    (made,) = [each.text for each in blocks() if each.document == PAGE and each.language == "sql"]
    mariadb.execute(made)
    upsert = module("def connect(")["upsert"]

    for flights, batch_id in ((3, 7), (3, 7), (4, 8)):
        rows = f"SELECT 'JFK' AS airport, timestamp'2026-03-29 02:30:00Z' AS hour, {flights}L AS flights"
        upsert(spark.sql(rows), batch_id)

    assert mariadb.execute("SELECT * FROM departures") == [["JFK", "2026-03-29 02:30:00.000000", "4"]]


def test_a_version_decides_whatever_the_order_of_rows_and_calls(spark: SparkSession, mariadb: MariadbServer) -> None:
    columns = "(id BIGINT PRIMARY KEY, flights INT, seen BIGINT NOT NULL)"
    found = table(mariadb, columns, 'VERSION = "seen"', values=("flights", "seen"))

    def call(*rows: tuple[int, int | None, int]) -> list[list[str]]:
        found["upsert"](spark.createDataFrame(list(rows), "id bigint, flights int, seen bigint").coalesce(1), 7)
        return mariadb.execute("SELECT * FROM departures ORDER BY id")

    assert call((1, 30, 3), (1, 20, 2), (2, 5, 1)) == [["1", "30", "3"], ["2", "5", "1"]]
    assert call((1, 10, 1), (2, None, 2)) == [["1", "30", "3"], ["2", "NULL", "2"]]
    assert call((1, 31, 3), (2, 5, 1)) == [["1", "31", "3"], ["2", "NULL", "2"]]


def test_deleted_keys_are_gone(spark: SparkSession, mariadb: MariadbServer) -> None:
    found = table(mariadb, "(id BIGINT PRIMARY KEY, v INT)", "upsert_rows")

    def call(*rows: tuple[int, int | None, bool]) -> list[list[str]]:
        found["upsert"](spark.createDataFrame(list(rows), "id bigint, v int, deleted boolean"), 7)
        return mariadb.execute("SELECT * FROM departures ORDER BY id")

    call((1, 1, False), (2, 2, False))
    for _ in range(2):
        assert call((1, None, True), (3, 3, False), (4, None, True)) == [["2", "2"], ["3", "3"]]


def test_redis_has_the_newest_row_of_each_key(
    spark: SparkSession, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", redis_server.url)
    to_redis = module("def blocks(", "def to_redis(")["to_redis"]
    first = spark.sql("SELECT id, id * 2 AS flights, timestamp'2026-03-29 02:30:00.000001Z' AS seen FROM range(2500)")
    second = spark.sql("SELECT 7L AS id, CAST(NULL AS BIGINT) AS flights")

    for batch in (first, first, second, second):
        to_redis(batch, 7)

    with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
        assert client.dbsize() == 2500
        assert client.hgetall("departures:7") == {"id": "7"}
        assert client.hgetall("departures:2499") == {
            "id": "2499",
            "flights": "4998",
            "seen": "2026-03-29 02:30:00.000001",
        }
        client.set("departures:0", "no hash")
        client.config_set("maxmemory", "1")
        with pytest.raises(redis.RedisError):
            to_redis(first, 8)
        client.config_set("maxmemory", "0")
    with pytest.raises(ValueError, match="a row has no id"):
        to_redis(spark.sql("SELECT CAST(NULL AS BIGINT) AS id"), 9)


class Index(BaseHTTPRequestHandler):
    """An index that refuses documents whose `flights` are no number, as `_bulk` does."""

    documents: dict[str, Any]

    def do_POST(self) -> None:
        lines = [json.loads(line) for line in self.rfile.read(int(self.headers["Content-Length"])).splitlines()]
        items = []
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            refused = isinstance(document["flights"], str)
            if not refused:
                self.documents[action["index"]["_id"]] = document
            error = {"status": 400, "error": {"type": "document_parsing_exception"}} if refused else {"status": 201}
            items.append({"index": {**action["index"], **error}})
        body = json.dumps({"errors": any("error" in each["index"] for each in items), "items": items}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_an_index_has_each_key_once_and_a_refused_document_is_an_error(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents: dict[str, Any] = {}
    with HTTPServer(("127.0.0.1", 0), type("Here", (Index,), {"documents": documents})) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("ELASTICSEARCH_URL", f"http://127.0.0.1:{server.server_port}")
        to_elasticsearch = module("def blocks(", "def to_elasticsearch(")["to_elasticsearch"]
        for _ in range(2):
            to_elasticsearch(spark.sql("SELECT string(id) AS id, id * 0.5D AS flights FROM range(2500)"), 7)
        to_elasticsearch(spark.sql("SELECT '7' AS id, CAST(NULL AS DOUBLE) AS flights"), 8)
        with pytest.raises(RuntimeError, match=r"1 rows were refused, the first one: \{.*document_parsing_exception"):
            to_elasticsearch(spark.sql("SELECT string(id) AS id, double('NaN') AS flights FROM range(1)"), 9)
        with pytest.raises(ValueError, match="a row has no id"):
            to_elasticsearch(spark.sql("SELECT CAST(NULL AS STRING) AS id, 1 AS flights"), 10)
        server.shutdown()

    assert len(documents) == 2500
    assert documents["7"] == {"id": "7", "flights": None}
    assert documents["8"] == {"id": "8", "flights": 4.0}
