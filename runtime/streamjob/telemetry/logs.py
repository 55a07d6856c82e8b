"""Log formats: text for people, or one JSON object a line for log systems.

An object has `timestamp` (RFC 3339, UTC), `level`, `logger` and `message`, `exception` for an error with its traceback,
and those of `FIELDS` that are known where the record was logged.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeVar

VARIABLE = "STREAMJOB_LOG_FORMAT"
"""The environment variable with the format; child processes take it from there."""

FIELDS = ("job", "namespace", "attempt", "epoch", "checkpoint", "chain", "executor", "trace_id", "span_id")
"""The fields that say what a record is about."""

_TEXT = "%(asctime)s %(levelname)s %(message)s"

_TRACES = 20

Value = str | int
_Result = TypeVar("_Result")


class LogFormat(StrEnum):
    """How records are written."""

    TEXT = "text"
    JSON = "json"


_process: dict[str, Value] = {}
_traces: OrderedDict[Value | None, Mapping[str, Value]] = OrderedDict()
_NONE: Mapping[str, Value] = MappingProxyType({})
_here: ContextVar[Mapping[str, Value]] = ContextVar("log_fields", default=_NONE)


def log_format(environment: Mapping[str, str] = os.environ) -> LogFormat:
    """Return the format that an environment sets; text if it sets none."""
    return LogFormat.JSON if environment.get(VARIABLE, "").strip().lower() == LogFormat.JSON else LogFormat.TEXT


def describe_process(**fields: Value) -> None:
    """Set fields of all later records of this process."""
    _process.update(fields)


def process_fields() -> Mapping[str, Value]:
    """Return the fields of all records of this process."""
    return dict(_process)


@contextmanager
def about(**fields: Value) -> Iterator[None]:
    """Set fields of the records that this thread or task logs in the context."""
    token = _here.set({**_here.get(), **fields})
    try:
        yield
    finally:
        _here.reset(token)


def trace_checkpoint(checkpoint: int, fields: Mapping[str, Value]) -> None:
    """Add fields to later records about a checkpoint: its trace."""
    _traces[checkpoint] = dict(fields)
    while len(_traces) > _TRACES:
        _traces.popitem(last=False)


def within(fields: Mapping[str, Value], call: Callable[..., _Result], *arguments: Any) -> _Result:
    """Call a function in a context of `about`; return its result."""
    with about(**fields):
        return call(*arguments)


class TextLines(logging.Formatter):
    """Writes a record as text, with its time in UTC like all times that streamjob shows.

    Args:
        fmt: the format of a line.
        datefmt: the format of its time; None for date and time with milliseconds.
    """

    converter = staticmethod(time.gmtime)


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON in ASCII, in which no text can begin another line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Value] = {
            "timestamp": _rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        own = {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        known = {**_process, **_here.get(), **own}
        known = {**_traces.get(known.get("checkpoint"), {}), **known}
        line |= {name: known[name] for name in FIELDS if name in known}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        return json.dumps(line, default=str)


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def log_to(handler: logging.Handler, form: LogFormat, level: int = logging.INFO) -> None:
    """Log this process's records through a handler.

    With JSON, this includes warnings and errors of libraries, Python's warnings, and exceptions that end a thread.

    Args:
        handler: writes the lines.
        level: the least level of streamjob's own records.
    """
    own = logging.getLogger("streamjob")
    own.setLevel(level)
    if form is LogFormat.TEXT:
        handler.setFormatter(TextLines(_TEXT, "%H:%M:%S"))
        own.addHandler(handler)
        return
    handler.setFormatter(JsonLines())
    logging.getLogger().addHandler(handler)
    logging.captureWarnings(True)
    threading.excepthook = _log_thread


def _log_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_type is not SystemExit and ended.exc_value is not None:
        name = ended.thread.name if ended.thread is not None else "?"
        error = ended.exc_value
        logging.getLogger("streamjob").error(
            "Thread %s has ended with an error: %s", name, error, exc_info=(ended.exc_type, error, ended.exc_traceback)
        )


def line(text: str, level: int, form: LogFormat, error: BaseException | None = None) -> str:
    """Return a line for an output that no handler writes to.

    Args:
        text: the message.
        level: its level, which only JSON shows.
        error: the exception whose traceback follows.
    """
    if form is LogFormat.TEXT:
        return text if error is None else f"{text}\n{''.join(traceback.format_exception(error)).rstrip()}"
    info = None if error is None else (type(error), error, error.__traceback__)
    return JsonLines().format(logging.LogRecord("streamjob", level, "", 0, "%s", (text,), info))


def write_line(text: str, level: int = logging.WARNING) -> None:
    """Write a line to standard error in the format of this process, also from a signal handler."""
    sys.stderr.write(f"{line(text, level, log_format())}\n")
