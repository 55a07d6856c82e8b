"""`schemaFile: order.avsc`: the schema of keys or values of records, in a file of its own next to the job's.

A descriptor set of Protobuf is no text, and becomes one in base64.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamjob.errors import InvalidInput
from streamjob.job.loading.text_file import read_bytes, read_text
from streamjob.job.model.encoding_spec import PROTOBUF
from streamjob.job.model.problem import Problem

FIELD = "schemaFile"
_KINDS = {"sources": "source", "sinks": "sink"}
_CONTROL = re.compile(rb"[^\t-\r -\xff]")
"""Bytes that no text has; the number of a field in a descriptor set is one."""


def with_schema_files(data: Mapping[str, Any], directory: Path) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """Return a job's content with the text of each `schemaFile` as `schema`, and the files that could not be read.

    An encoding with a `schemaFile` and a `schema` stays as it is: a check refuses it.

    Args:
        data: the content of a job file; it stays as it is.
        directory: the job file's directory: the files are relative to it.
    """
    changed = dict(data)
    problems: list[Problem] = []
    for kind, word in _KINDS.items():
        parts = data.get(kind)
        if not isinstance(parts, list):
            continue
        changed[kind] = [
            _with_schemas(each, word, directory, problems) if isinstance(each, Mapping) else each for each in parts
        ]
    return changed, tuple(problems)


def _with_schemas(part: Mapping[str, Any], word: str, directory: Path, problems: list[Problem]) -> dict[str, Any]:
    changed = dict(part)
    for name in ("key", "value"):
        encoding = part.get(name)
        if not isinstance(encoding, Mapping) or not isinstance(encoding.get(FIELD), str):
            continue
        if encoding.get("schema") is not None:
            continue
        file = encoding[FIELD]
        rest = {key: value for key, value in encoding.items() if key != FIELD}
        try:
            read = _protobuf if encoding.get("format") == PROTOBUF else read_text
            text = read(directory / file, file, "name it relative to the job file")
            changed[name] = {**rest, "schema": text}
        except InvalidInput as error:
            changed[name] = rest
            problems.append(Problem(f"{word} {part.get('name')!r}", f"{name}.{FIELD}: {error.what}", error.fix))
    return changed


def _protobuf(file: Path, origin: str, fix: str) -> str:
    content = read_bytes(file, origin, fix)
    return base64.b64encode(content).decode() if _CONTROL.search(content) else read_text(file, origin, fix)
