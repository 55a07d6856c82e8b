"""Describes an error for people."""

from __future__ import annotations

import errno
import re
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

import streamjob
import streamjob_runtime
from streamjob.errors import StreamJobError

_LONGEST = 4000
_TRACE = "Traceback (most recent call last):\n"
_FRAME = re.compile(r'^  File "(.+)", line (\d+)(?:, in (.+))?$', re.MULTILINE)
_RAISED = re.compile(r"^\S.*", re.MULTILINE)
"""The first line behind the frames of a trace."""
_OF_SPARK = re.compile(r"(?:-packages|\.zip|/python)/(?:pyspark|py4j)/")
_OF_LIBRARIES = re.compile(r"/lib/python3\.\d+/|^<")
_OURS = tuple(f"{path}/" for path in (*streamjob_runtime.__path__, *streamjob.__path__))
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_SPACE = ("No space left on device", "Disk quota exceeded")
_EXECUTOR = re.compile(r"\((\S+) executor (?!driver\))(\S+)\)")
"""Spark's name of the place where a task failed; in a job on one machine the executor is the driver."""
_CALLED = re.compile(r"^An error occurred while calling \S+\n: ")
_AROUND = re.compile(
    r"^(?:[\w.$]+: )?(?:\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: |"
    r"Job aborted due to stage failure: [^\n]*?: Lost task \S+ in stage \S+ \(TID \d+\) \([^)\n]*\): )"
)
"""What Py4J and Spark write before the message of an exception in Java."""
_CLASS = r"(?:[a-z]\w*\.)+([A-Z][\w$]*): "
_CAUSED_BY = re.compile(rf"^Caused by: {_CLASS}(.+)", re.MULTILINE)
_HEADER = re.compile(
    r"((?:CSV header does not conform|Number of column in CSV header is not).*?CSV file: \S+)", re.DOTALL
)
_DECODED_BY_SOURCES = (
    "decode the records in the source, value: {format: avro, …} or {format: protobuf, …}: Spark's functions need a "
    "package, spark.jars.packages in sparkConf"
)
_FIXES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("session window", "output mode"),
        "leave outputMode out: with append, each session comes once, when the watermark has passed its end",
    ),
    (("AVRO_NOT_LOADED",), _DECODED_BY_SOURCES),
    (("PROTOBUF_NOT_LOADED",), _DECODED_BY_SOURCES),
    (("'JavaPackage' object is not callable",), _DECODED_BY_SOURCES),
    (
        ("CANNOT_RESOLVE_STAR_EXPAND",),
        "name the fields, such as r.id; or compute the column in a query inside: SELECT r.* FROM (SELECT … AS r …)",
    ),
    (
        ("MULTIPLE_EVENT_TIME_COLUMNS",),
        (
            "keep one event time before the operator that reads both, such as the first: leave the other one out, or "
            "compute a column from it, such as second + INTERVAL 0 SECONDS AS second"
        ),
    ),
)
"""What Spark's messages say, and what to do in a job."""
PLACE = r"\([^()\n]+:\d+(?:, in [^()\n]+)?\)"
"""The form of the place in the job's code, which `describe` adds to the first line."""
_PATH = re.compile(r"(?:file:)?(/[^\s:'\"()\[\]]+)")


def describe(error: BaseException, near: Path | None = None) -> str:
    """Return a description of an error for people, without stack traces and query plans.

    Its first line names the cause, and where it has come up in Python code of the job: file, line and function.

    Args:
        error: any error.
        near: where the failed code writes; mentioned if the error of a full disk has no path.
    """
    if isinstance(error, StreamJobError):
        return error.what
    full = _full_path(error, near)
    told = header_said(str(error)) or _in_python(str(error)) or _elsewhere(error, with_cause=full is None)
    return told if full is None else f"no space left at {full}; free space there. {told}"


def _in_python(text: str) -> str | None:
    """Return the exception at the end of the last trace of Python in a text, and the trace from the job's code on."""
    trace = _without_noise(text.rpartition(_TRACE)[2]) if _TRACE in text else ""
    frames, raised = list(_FRAME.finditer(trace)), _RAISED.search(trace)
    if not frames or raised is None:
        return None
    files = [frame[1] for frame in frames]
    place = _of_job(files)
    if place is None:
        # The job's code is installed as a package, and Spark calls its function.
        place = next((index for index, file in enumerate(files) if not _is_ours_or_sparks(file)), None)
    at = "" if place is None else f" {_at(*frames[place].groups())}"
    return f"{raised[0]}{at}\n{trace[frames[-1 if place is None else place].start() :]}"[:_LONGEST]


def _elsewhere(error: BaseException, *, with_cause: bool) -> str:
    """Return an error without what Py4J and Spark put around it; its deepest cause in Java too, unless that is said."""
    text = str(error)
    shown = _CALLED.sub("", _without_noise(text))
    cause = shown
    while around := _AROUND.match(cause):
        cause = cause[around.end() :]
    first, _, more = cause.partition("\n")
    if cause != shown:
        more = shown
    named = re.sub(f"^{_CLASS}", r"\1: ", first)
    if named == first:
        named = f"{type(error).__name__}: {first}" if first else type(error).__name__
    deepest = _CAUSED_BY.findall(text)[-1:] if with_cause else []
    because = "".join(f": {name}: {said}" for name, said in deepest if said not in named)
    walked = traceback.walk_tb(error.__traceback__)
    frames = [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in walked]
    place = _of_job([file for file, _, _ in frames])
    at = "" if place is None else f" {_at(*frames[place])}"
    return f"{named}{because}{at}\n{more}".strip()[:_LONGEST]


def _of_job(files: Sequence[str]) -> int | None:
    """Return the index of the last file of a trace that belongs to the job, and to no library; None without one."""
    of_job = [index for index, file in enumerate(files) if not (_OF_LIBRARIES.search(file) or _is_ours_or_sparks(file))]
    return of_job[-1] if of_job else None


def _is_ours_or_sparks(file: str) -> bool:
    return file.startswith(_OURS) or _OF_SPARK.search(file) is not None


def _at(file: str, line: int | str, function: str | None) -> str:
    return f"({file}:{line}, in {function})" if function else f"({file}:{line})"


def _without_noise(text: str) -> str:
    for noise in ("\n\tat ", "\nJVM stacktrace", "\n=== Streaming Query ==="):
        text = text.split(noise, 1)[0]
    return text.strip("\n").rstrip()


def header_said(text: str) -> str | None:
    """Return what Spark's own source of CSV says about a header in the text of an error; None without it."""
    found = _HEADER.search(text)
    return " ".join(found[1].split()) if found else None


def _full_path(error: BaseException, near: Path | None) -> str | None:
    """Return the path that has no space left, if this is the error."""
    for each in causes(error):
        if isinstance(each, OSError) and each.errno in _FULL:
            return str(each.filename or near or "an unknown path")
        for line in str(each).splitlines():
            if any(words in line for words in _NO_SPACE):
                named, elsewhere = _PATH.search(line), _EXECUTOR.search(line)
                if elsewhere:
                    host, executor = elsewhere.groups()
                    return f"{named[1] if named else 'the work directory'} of executor {executor} on {host}"
                return named[1] if named else str(near or "an unknown path")
    return None


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Return an error, and what it was raised from or because of."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def reason(error: Exception) -> str:
    """Return the problem in Spark's message, without the plan and the stack trace."""
    text = str(error)
    if (told := _in_python(text)) is not None:
        return told
    return re.sub(f"^{_CLASS}", "", _CALLED.sub("", _without_noise(text).split(";\n", 1)[0])).strip()


def fix_of(error: Exception) -> str:
    """Return what to do about an error of Spark or PySpark whose message leads to another place; empty if it does not.

    Args:
        error: an error of a query, or of a function that makes one.
    """
    text = str(error)
    return next((fix for said, fix in _FIXES if all(each in text for each in said)), "")
