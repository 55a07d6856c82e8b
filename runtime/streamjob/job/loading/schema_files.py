"""`schemaFile: order.avsc`: the schema of keys, values or columns, in a file of its own next to the job's.

Columns are in it as `name TYPE, …`, or as JSON: Spark's (`StructType.json`), or a schema of Avro. A descriptor set of
Protobuf is no text, and becomes one in base64.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamjob.errors import InvalidInput
from streamjob.job.loading.text_file import read_bytes, read_text
from streamjob.job.model.encoding_spec import PROTOBUF
from streamjob.job.model.problem import Problem

FIELD = "schemaFile"
_KINDS = {"sources": "source", "tables": "table", "sinks": "sink"}
_NAMES = {"bytes": "binary", "fixed": "binary", "enum": "string"}
_LOGICAL = {
    f"{local}timestamp-{unit}": kind
    for local, kind in (("", "timestamp"), ("local-", "timestamp_ntz"))
    for unit in ("millis", "micros")
} | {"date": "date"}
_CONTROL = re.compile(rb"[^\t-\r -\xff]")
"""Bytes that no text has; the number of a field in a descriptor set is one."""


def with_schema_files(data: Mapping[str, Any], directory: Path) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """Return a job's content with the text of each `schemaFile` as `schema`, and the files that could not be read.

    A part with a `schemaFile` and a `schema` stays as it is: a check refuses it.

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
    for name in ("key", "value", *(() if word == "sink" else ("",))):
        holder = part.get(name) if name else changed
        if not isinstance(holder, Mapping) or not isinstance(holder.get(FIELD), str):
            continue
        if holder.get("schema") is not None:
            continue
        file = holder[FIELD]
        rest = {key: value for key, value in holder.items() if key != FIELD}
        try:
            read = _protobuf if name and holder.get("format") == PROTOBUF else read_text
            text = read(directory / file, file, "name it relative to the job file")
            rest["schema"] = text if name else _columns_in(text, file)
        except InvalidInput as error:
            field = f"{name}.{FIELD}".lstrip(".")
            problems.append(Problem(f"{word} {part.get('name')!r}", f"{field}: {error.what}", error.fix))
        changed = {**changed, name: rest} if name else rest
    return changed


def _columns_in(text: str, file: str) -> str:
    if not text.lstrip().startswith("{"):
        return text.strip()
    try:
        return _columns(json.loads(text)["fields"], " ")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        fix = "write `name TYPE, …`, or the JSON of Spark's schema, or an Avro record without unions but with null"
        raise InvalidInput(f"{file}: is no schema of columns: {error!r:.200}", fix) from None


def _columns(fields: Any, sign: str) -> str:
    named = ((each["name"].replace("`", "``"), each["type"]) for each in fields)
    return ", ".join(f"`{name}`{sign}{_type(kind)}" for name, kind in named)


def _type(of: Any) -> str:
    """Return a type of Spark's JSON or of Avro as it is in DDL."""
    if isinstance(of, str):
        return _NAMES.get(of, of)
    if isinstance(of, list):
        (one,) = (each for each in of if each != "null")
        return _type(one)
    kind, logical = of["type"], of.get("logicalType")
    if logical == "decimal":
        return f"decimal({of['precision']}, {of.get('scale', 0)})"
    if kind in ("struct", "record"):
        return f"struct<{_columns(of['fields'], ': ')}>"
    if kind == "array":
        return f"array<{_type(of['items' if 'items' in of else 'elementType'])}>"
    if kind == "map":
        values = of["values" if "values" in of else "valueType"]
        return f"map<{_type(of.get('keyType', 'string'))}, {_type(values)}>"
    return _LOGICAL.get(logical) or _type(kind)


def _protobuf(file: Path, origin: str, fix: str) -> str:
    content = read_bytes(file, origin, fix)
    return base64.b64encode(content).decode() if _CONTROL.search(content) else read_text(file, origin, fix)
