"""Reads files of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamjob.errors import InvalidInput, InvalidJob
from streamjob.job.loading.yaml_file import MOST_BYTES, YamlError, read_documents
from streamjob.job.model.problem import Problem


def read_text(file: Path, origin: str, fix: str) -> str:
    """Return the text of a file.

    Args:
        file: where it is.
        origin: the file, as its user named it.
        fix: the advice if there is no such file.

    Raises:
        InvalidInput: it is missing, too large, or not UTF-8 text.
    """
    content = read_bytes(file, origin, fix)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = content.count(b"\n", 0, error.start) + 1, error.start - content.rfind(b"\n", 0, error.start)
        reason = f"line {line}, column {column}: the byte {content[error.start]:#04x} is not UTF-8 text"
        raise InvalidInput(f"{origin}: cannot be read: {reason}", "save the file as UTF-8") from None


def read_yaml(file: Path, origin: str, fix: str) -> list[Any]:
    """Return the documents of a YAML file; arguments as for `read_text`.

    Raises:
        InvalidInput: it is missing, too large, or not UTF-8 text.
        InvalidJob: it is not YAML.
    """
    text = read_text(file, origin, fix)
    try:
        return read_documents(text)
    except YamlError as error:
        raise InvalidJob(origin, [Problem("file", f"cannot be read as YAML: {error}", "correct it there")]) from None


def read_bytes(file: Path, origin: str, fix: str) -> bytes:
    """Return the content of a file; arguments as for `read_text`.

    Raises:
        InvalidInput: it is missing, or too large.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise InvalidInput(f"{origin}: there is no such file", fix) from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InvalidInput(f"{origin}: cannot be read: {reason}") from None
    if len(content) > MOST_BYTES:
        advice = "keep data in files of its own, and long queries in Python"
        raise InvalidInput(f"{origin}: cannot be read: it is larger than {MOST_BYTES} bytes", advice)
    return content
