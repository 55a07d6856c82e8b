"""Describes an error for people."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from pathlib import Path

from streamjob.errors import StreamJobError

_LONGEST = 4000
_FRAMES = re.compile(r"Traceback \(most recent call last\):\n(?:  .*\n)*?(?=(?:  File .*\n)(?:    .*\n)*\S)")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_SPACE = ("No space left on device", "Disk quota exceeded")
_EXECUTOR = re.compile(r"\((\S+) executor (?!driver\))(\S+)\)")
"""Spark's name of the place where a task failed; in a job on one machine the executor is the driver."""
_CALLED = re.compile(r"^An error occurred while calling \S+\n: (?:[\w.$]+: )?")
"""What Py4J writes before the message of a Java exception."""
_PATH = re.compile(r"(?:file:)?(/[^\s:'\"()\[\]]+)")


def describe(error: BaseException, near: Path | None = None) -> str:
    """Return a description of an error for people: its cause, without stack traces and query plans.

    Args:
        error: any error.
        near: where the failed code writes; mentioned if the error of a full disk has no path.
    """
    if isinstance(error, StreamJobError):
        return error.what
    text = str(error)
    full = _full_path(error, near)
    for noise in ("\n\tat ", "\nJVM stacktrace", "\n=== Streaming Query ==="):
        text = text.split(noise, 1)[0]
    text = _FRAMES.sub("", text).strip()[:_LONGEST]
    told = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return told if full is None else f"no space left at {full}; free space there. {told}"


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
    text = _CALLED.sub("", str(error))
    for noise in ("\n\nJVM stacktrace", "\n\tat ", ";\n"):
        text = text.split(noise, 1)[0]
    return text.strip()
