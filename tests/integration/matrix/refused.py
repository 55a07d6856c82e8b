"""What the sinks of the matrix refuse, with words of the error, and what not every reader reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.integration.matrix.values import NAMES, NESTED

Values = Mapping[str, Mapping[str, str]]
"""Words of the error by type and name of the value."""


def _types(words: str, *kinds: str) -> Mapping[str, str]:
    return dict.fromkeys(kinds, words)


_INTERVALS = ("interval day to second", "interval year to month")
_ARRAYS = ("array<int>", "array<string>")
_NOT_IN_CSV = "which CSV does not hold"
_NOT_IN_FILES = "files in a bucket do not hold"
_CSV_TYPES = {
    **_types(_NOT_IN_CSV, "binary", *NESTED),
    "variant": "which CSV does not hold|files in a bucket do not hold",
}

REFUSED_TYPES: Mapping[str, Mapping[str, str]] = {
    "csv": _CSV_TYPES,
    "orc": _types("which ORC does not hold", "variant"),
    "parquet in a bucket": _types(_NOT_IN_FILES, *_INTERVALS, "variant"),
    "csv in a bucket": {**_CSV_TYPES, **_types(_NOT_IN_FILES, *_INTERVALS)},
    "json in a bucket": _types(_NOT_IN_FILES, *_INTERVALS, "variant"),
    "iceberg": _types("the rows have types that Iceberg has not", *_INTERVALS, "variant"),
    "delta": _types("cannot have the column", *_INTERVALS, "variant"),
    "postgresql": _types("which does not hold INTERVAL", *_INTERVALS),
    "jdbc": _types(
        "which JDBC does not write", *_INTERVALS, *(kind for kind in NESTED if kind not in _ARRAYS), "variant"
    ),
    "kafka, avro": _types("which AVRO does not hold", "variant"),
}
"""Words of the error by sink and type."""

_NO_TEXTS: Values = {"string": dict.fromkeys(("no UTF-8", "lone surrogate"), "text that is not (valid )?UTF-8")}


def _years(words: str) -> Values:
    return {
        "date": dict.fromkeys(("year 10000", "year 0"), words),
        "timestamp": dict.fromkeys(("year 56302", "year 0"), words),
        "timestamp_ntz": dict.fromkeys(("year 10000",), words),
    }


_SKIPPED = "a day from 1582-10-05 to 1582-10-14, which JDBC does not hold"
_OLD = "a time before 1582-10-15, which ORC does not hold"

REFUSED_VALUES: Mapping[str, Values] = {
    **dict.fromkeys(
        ("parquet", "csv", "json", "parquet in a bucket", "csv in a bucket", "json in a bucket", "kafka, json",
         "kafka, avro"), _NO_TEXTS,
    ),
    "jdbc": {
        "string": {**_NO_TEXTS["string"], "NUL": "invalid byte sequence"},
        "date": {"before the Gregorian calendar": _SKIPPED},
        "timestamp": {"before the Gregorian calendar": _SKIPPED},
    },
    "orc": {
        **_NO_TEXTS,
        "date": dict.fromkeys(("year 1", "before the Gregorian calendar", "year 0"), _OLD),
        "timestamp": {
            **dict.fromkeys(("before the Gregorian calendar", "year 1", "year 0"), _OLD),
            "before 1970": "a fraction of the last second before 1970, which ORC does not hold",
        },
        "timestamp_ntz": {"year 1": _OLD},
    },
    "iceberg": {
        **_NO_TEXTS,
        **_years("outside the years 1 to 9999"),
        "array<struct<at:timestamp,raw:binary>>": {"NULL": "has NULL, which pyiceberg stores as one without entries"},
    },
    "delta": {**_NO_TEXTS, **_years("outside the years 1 to 9999")},
    "postgresql": {
        "string": {**_NO_TEXTS["string"], "NUL": "a text with NUL, which PostgreSQL does not hold"},
        **_years("the server refuses rows"),
    },
}  # fmt: skip
"""Words of the error by sink, type and name of the value."""

REFUSED_NAMES: Mapping[str, Mapping[str, str]] = {
    "orc": {"back`tick": "which ORC does not hold"},
    "postgresql": {"n" * 64: "has no column"},
    "kafka, avro": {name: "Illegal" for name in NAMES if name not in ("id", "Größe", "select", "_x", "名前", "n" * 64)},
}
"""Words of the error by sink and name of a column."""

ONLY: Mapping[tuple[str, str], Sequence[str]] = {
    ("parquet", "variant"): ("Spark",),
    **{("orc", kind): ("Spark",) for kind in ("timestamp", *(kind for kind in NESTED if "timestamp" in kind))},
}
"""The only readers of a sink that know a type, or hold all its values."""
