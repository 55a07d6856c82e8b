"""Tests of the log formats."""

from __future__ import annotations

import io
import json
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from streamjob.cli.log_options import logging_as
from streamjob.client.formatting import clock_time
from streamjob.errors import CannotRestore
from streamjob.telemetry import logs
from streamjob.telemetry.logs import (
    JsonLines,
    LogFormat,
    TextLines,
    about,
    describe_process,
    log_format,
    log_to,
    within,
)

HOSTILE = 'a\nb\r\x1b[31m{"level": "info"}\x00\u2028\x85\ud800'


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave no handler, format or field behind."""
    monkeypatch.setattr(logs, "_process", {})
    monkeypatch.setenv(logs.VARIABLE, "text")
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    root, own = logging.getLogger(), logging.getLogger("streamjob")
    handlers = list(root.handlers), list(own.handlers)
    level = own.level
    yield
    root.handlers[:], own.handlers[:] = handlers
    own.setLevel(level)
    logging.captureWarnings(False)


def logged(form: LogFormat = LogFormat.JSON) -> io.StringIO:
    output = io.StringIO()
    log_to(logging.StreamHandler(output), form)
    return output


def lines(output: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_a_record_is_one_object_with_its_time_level_logger_and_message() -> None:
    record = logging.LogRecord("streamjob", logging.WARNING, "", 0, "%d of %s", (3, "x"), None)
    record.created = 1_700_000_000.0625

    assert json.loads(JsonLines().format(record)) == {
        "timestamp": "2023-11-14T22:13:20.062Z",
        "level": "warning",
        "logger": "streamjob",
        "message": "3 of x",
    }


def test_times_of_the_log_and_of_the_view_are_in_utc_wherever_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    record = logging.LogRecord("streamjob", logging.WARNING, "", 0, "late", (), None)
    record.created = 1_700_000_000.0
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    try:
        time.tzset()
        assert TextLines("%(asctime)s %(message)s").format(record).startswith("2023-11-14 22:13:20")
        assert clock_time(record.created) == "22:13:20"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_hostile_text_stays_on_its_line_and_in_its_field() -> None:
    # Not by a logger: pytest would capture the text, and could not send it on.
    record = logging.makeLogRecord({"name": "streamjob", "levelname": "WARNING", "msg": HOSTILE, "chain": HOSTILE})

    text = JsonLines().format(record)

    assert text.isascii()
    assert "\n" not in text
    line = json.loads(text)
    assert line["message"] == line["chain"] == HOSTILE
    assert line["level"] == "warning"


def test_a_record_has_the_fields_of_its_process_its_context_and_its_own() -> None:
    output = logged()
    log = logging.getLogger("streamjob")

    describe_process(job="flights", attempt=3)
    with about(checkpoint=7, chain="report"):
        within({"chain": "join"}, log.info, "inner")
        log.info("outer", extra={"checkpoint": 8})
    log.info("behind")

    inner, outer, behind = lines(output)
    assert (inner["checkpoint"], inner["chain"], inner["job"], inner["attempt"]) == (7, "join", "flights", 3)
    assert (outer["checkpoint"], outer["chain"]) == (8, "report")
    assert "checkpoint" not in behind


def test_an_exception_is_a_field_of_the_same_line() -> None:
    output = logged()
    try:
        raise ValueError("wrong\nvalue")
    except ValueError:
        logging.getLogger("streamjob").exception("It failed")

    (line,) = lines(output)
    assert line["message"] == "It failed"
    assert "test_logs.py" in line["exception"]
    assert line["exception"].endswith("ValueError: wrong\nvalue")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_errors_of_libraries_and_ends_of_threads_are_json_too() -> None:
    def fail() -> None:
        raise ValueError("the thread's error")

    output = logged()
    logging.getLogger("botocore").warning("a warning")
    logging.getLogger("botocore").info("not shown")
    thread = threading.Thread(target=fail, name="worker")
    thread.start()
    thread.join()

    library, ended = lines(output)
    assert (library["logger"], library["message"]) == ("botocore", "a warning")
    assert "worker" in ended["message"]
    assert "the thread's error" in ended["exception"]


def test_text_remains_text() -> None:
    output = logged(LogFormat.TEXT)

    logging.getLogger("streamjob").info("hello", extra={"chain": "x"})

    assert output.getvalue().endswith("INFO hello\n")


@pytest.mark.parametrize(("value", "form"), [("json", "json"), (" JSON ", "json"), ("text", "text"), ("", "text")])
def test_the_format_is_a_variable_of_the_environment(value: str, form: str) -> None:
    assert log_format({logs.VARIABLE: value}) == form
    assert log_format({}) is LogFormat.TEXT


def test_a_command_that_logs_json_ends_with_its_error_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, logging_as(LogFormat.JSON):
        raise CannotRestore("no such snapshot", "name another one")

    assert ended.value.exit_code == 3
    line = json.loads(capsys.readouterr().err)
    assert line["level"] == "error"
    assert "no such snapshot" in line["message"]


def test_a_command_that_logs_json_ends_with_an_unexpected_error_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, logging_as(LogFormat.JSON):
        raise ZeroDivisionError("a defect")

    assert ended.value.exit_code == 5
    assert "ZeroDivisionError: a defect" in json.loads(capsys.readouterr().err)["exception"]
