"""The names of formats, by what their connectors can do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from streamjob.job.connectors.connector import Connector, Delivery
from streamjob.job.connectors.registry import CONNECTORS, sink_of

_CLASS = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)+")
_PYTHON_SINK = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def _those(holds: Callable[[Connector], object]) -> frozenset[str]:
    return frozenset(name for name, each in CONNECTORS.items() if holds(each))


SOURCE_FORMATS = _those(lambda each: each.source)
TABLE_FORMATS = _those(lambda each: each.table)
"""Formats that Spark reads as a whole."""
SINK_FORMATS = _those(lambda each: each.sink)

FILE_FORMATS = _those(lambda each: each.path == "files")
"""Formats that read and write files below a `path`."""
PLACED_FORMATS = _those(lambda each: each.path in ("files", "table"))
"""Formats whose data are at their `path`, and at no other."""
DECODED_FILES = _those(lambda each: each.text_records)
"""File formats with records of text, which are decoded one by one."""
CHECKED_FILES = FILE_FORMATS - {"binaryFile", "xml"}
"""File formats of which a source can leave out damaged files: a binaryFile has any bytes, and Spark decodes XML."""
BOUNDED_FORMATS = _those(lambda each: each.source is not None and each.source.bounded)
"""Formats whose end can be fixed: by the list of files at the first start, or by an offset for each partition."""

_EXACTLY_ONCE = _those(lambda each: each.sink is not None and "exactly-once" in each.sink.deliveries)
EXACTLY_ONCE_FORMATS = _EXACTLY_ONCE & FILE_FORMATS
"""Formats of the exactly-once file sink."""
TRANSACTIONAL_FORMATS = _EXACTLY_ONCE - FILE_FORMATS
"""Formats whose rows appear in one transaction with the record of their checkpoint."""
UPSERT_FORMATS = _those(lambda each: each.sink is not None and each.sink.upserts)
"""Formats of the sinks that can apply changes."""
REPLACE_FORMATS = _those(lambda each: each.sink is not None and each.sink.replaces)
"""Formats of the sinks that can replace a whole table."""


def is_class_name(name: str) -> bool:
    """Return whether `name` is a Java class; only Spark can check it."""
    return _CLASS.fullmatch(name) is not None


def is_python_sink(name: str) -> bool:
    """Return whether `name` is `module:Class`, an implementation of `streamjob.sink.Sink`."""
    return _PYTHON_SINK.fullmatch(name) is not None


def can_exactly_once(name: str) -> bool:
    """Return whether a sink of this format can deliver exactly once."""
    return name in _EXACTLY_ONCE or is_python_sink(name)


def default_delivery(name: str, options: Iterable[str] = ()) -> Delivery:
    """Return the default delivery of a sink, from its format and the names of its options."""
    if is_python_sink(name):
        return "exactly-once"
    sink = sink_of(name)
    is_own = not sink.own_options or any(option.startswith(sink.own_options) for option in options)
    return sink.deliveries[0] if is_own else "at-least-once"
