"""Schemas are read as Spark 4.3's `StructType.fromDDL` reads them; each case was compared with it."""

from __future__ import annotations

import pytest

from streamjob.job.query.ddl import NotASchema, columns

ACCEPTED = [
    "a INT, b STRING",
    "a int,b string",
    "a INT NOT NULL COMMENT 'it''s', b DECIMAL(10, 2)",
    "`a b` INT, `c``d` STRING",
    "a STRUCT<b: INT, c STRING NOT NULL COMMENT 'x, y>', d: ARRAY<MAP<STRING, STRUCT<e: INT>>>>",
    "a ARRAY<ARRAY<INT>>",
    "a MAP<STRING,INT>",
    "a TIMESTAMP_NTZ, b TIMESTAMP_LTZ, c TIMESTAMP",
    "a TIMESTAMP WITHOUT TIME ZONE",
    "a TIMESTAMP WITH LOCAL TIME ZONE",
    "a CHAR(3), b VARCHAR(10), c CHARACTER(3)",
    "a INTERVAL DAY TO SECOND, b INTERVAL YEAR TO MONTH, c INTERVAL HOUR, d INTERVAL",
    "a VARIANT",
    "a VOID",
    "a STRING COLLATE UTF8_LCASE",
    "a STRUCT<>",
    "a TIME, b TIME(3)",
    "a LONG, b SHORT, c BYTE, d FLOAT, e REAL, f DOUBLE, g BOOLEAN, h BINARY, i DATE, j TINYINT, k SMALLINT, l INTEGER",
    "m DEC(3), n NUMERIC(3,1), o DECIMAL",
    "select INT, from INT, table STRING, order INT",
    "timestamp TIMESTAMP, date DATE, interval INT, not INT, comment STRING",
    "1a INT",
    "_a INT",
    'a INT COMMENT "dq"',
    "a INT /* c */, b INT -- d",
    "a INT COMMENT 'x' 'y'",
    "a INT COMMENT r'x\\y'",
    "a GEOGRAPHY(4326), b GEOMETRY(ANY)",
    "a STRUCT<b INT, c INT>",
    "a STRUCT<b: INT COMMENT 'x', `c:d`: INT>",
]

REFUSED = [
    "",
    "a",
    "INT",
    "a: INT",
    "a INT,",
    ", a INT",
    "a INT b STRING",
    "a BIGINT DEFAULT 3",
    "a INT GENERATED ALWAYS AS (3)",
    "a DOUBLE PRECISION",
    "a DECIMAL(10,2,3)",
    "a DECIMAL(39,2)",
    "a INT(3)",
    "a FOO",
    "a ARRAY",
    "a ARRAY<INT",
    "a ARRAY<INT>>",
    "a MAP<INT>",
    "a MAP",
    "a STRUCT",
    "STRUCT<a: INT>",
    '{"type":"struct","fields":[]}',
    "a-b INT",
    "a.b INT",
    "ä INT",
    "a INT COMMENT 'x' NOT NULL",
    "a INT NULL",
    "a TIMESTAMP(3)",
    "a STRING(3)",
    "a VARCHAR",
    "a BIGINT UNSIGNED",
    "a INT, A STRING",
]


@pytest.mark.parametrize("schema", ACCEPTED)
def test_what_spark_reads_is_read(schema: str) -> None:
    assert columns(schema)


@pytest.mark.parametrize("schema", REFUSED)
def test_what_spark_refuses_is_refused(schema: str) -> None:
    with pytest.raises(NotASchema):
        columns(schema)


def test_columns_come_with_their_types() -> None:
    schema = "`a b` TIMESTAMP, c STRUCT<d: INT>, e DECIMAL(3, 1) NOT NULL, f TIMESTAMP WITHOUT TIME ZONE, g LONG"

    assert columns(schema) == {
        "a b": "timestamp",
        "c": "struct",
        "e": "decimal",
        "f": "timestamp_ntz",
        "g": "bigint",
    }


@pytest.mark.parametrize(
    ("schema", "what", "fix"),
    [
        ("a INT, t TIMSTAMP", "gives the column 't' the unknown type 'TIMSTAMP'", "did you mean 'timestamp'?"),
        ("a INT b STRING", "has 'b' where a comma or the end should be (character 7)", ""),
        ("a VARCHAR", "ends where a size, like VARCHAR(10) should be", "write it as `name TYPE, name TYPE`"),
        ("a-b INT", "has '-' where it cannot be (character 2)", "put the name in backticks"),
    ],
)
def test_a_wrong_schema_says_where_it_is_wrong(schema: str, what: str, fix: str) -> None:
    with pytest.raises(NotASchema) as caught:
        columns(schema)

    assert (caught.value.what, caught.value.fix) == (what, fix)
