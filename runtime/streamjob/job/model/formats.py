"""Facts about Spark's formats: their names, requirements and abilities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

FILE_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
"""Formats that read and write files below a `path`."""

SELF_DESCRIBING_FILES = frozenset({"text"})
"""File formats whose columns are known without a schema."""

DECODED_FILES = frozenset({"csv", "json"})
"""File formats with records of text, which are decoded one by one."""

BOUNDED_FILES = frozenset({"avro", "csv", "json", "orc", "parquet", "text"})
"""File formats whose end can be fixed by the list of files at the first start."""

BOUNDED_FORMATS = BOUNDED_FILES | {"kafka"}
"""Formats whose end can be fixed; Kafka's by an offset for each partition."""

SOURCE_FORMATS = FILE_FORMATS | {
    "delta", "deltaSharing", "eventhubs", "iceberg", "kafka", "kinesis", "pulsar", "rate", "rate-micro-batch", "socket",
}  # fmt: skip

TABLE_FORMATS = FILE_FORMATS | {"delta", "deltaSharing", "iceberg", "jdbc"}
"""Formats that Spark reads as a whole."""

SINK_FORMATS = FILE_FORMATS | {"console", "delta", "iceberg", "jdbc", "kafka", "memory", "noop", "postgresql"}

EXACTLY_ONCE_FORMATS = frozenset({"csv", "json", "orc", "parquet", "text"})
"""Formats of the exactly-once file sink."""

TRANSACTIONAL_FORMATS = frozenset({"delta", "iceberg", "kafka", "postgresql"})
"""Formats whose rows appear in one transaction with the record of their checkpoint."""

EXACTLY_ONCE_ONLY_FORMATS = frozenset({"postgresql"})
"""Formats that deliver exactly once and in no other way."""

FIXED_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "rate": {"timestamp": "timestamp", "value": "bigint"},
    "rate-micro-batch": {"timestamp": "timestamp", "value": "bigint"},
    "kafka": {
        "key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint",
        "timestamp": "timestamp", "timestampType": "int", "headers": "array",
    },
}  # fmt: skip
"""Columns of the sources that define their own schema."""

_CLASS = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)+")
_PYTHON_SINK = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def is_class_name(name: str) -> bool:
    """Return whether `name` is a Java class; only Spark can check it."""
    return _CLASS.fullmatch(name) is not None


def is_python_sink(name: str) -> bool:
    """Return whether `name` is `module:Class`, an implementation of `streamjob.sink.Sink`."""
    return _PYTHON_SINK.fullmatch(name) is not None


def can_exactly_once(name: str) -> bool:
    """Return whether a sink of this format can deliver exactly once."""
    return name in EXACTLY_ONCE_FORMATS | TRANSACTIONAL_FORMATS or is_python_sink(name)


def names_catalog(options: Iterable[str]) -> bool:
    """Return whether option names configure a table catalog; then the sink is streamjob's own, not Spark's."""
    return any(option.startswith("catalog.") for option in options)


def default_delivery(name: str, options: Iterable[str] = ()) -> Literal["exactly-once", "at-least-once"]:
    """Return the default delivery of a sink, from its format and the names of its options."""
    if name == "iceberg" and not names_catalog(options):
        return "at-least-once"
    return "exactly-once" if can_exactly_once(name) else "at-least-once"
