"""Writes the content of a job as a SQL file, to be read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamjob.durations import parse_duration
from streamjob.job.sql_job.statements import FEEDBACK_PREFIX, FIELDS, OPTION_PREFIX


def in_sql(data: Mapping[str, Any]) -> str:
    """Return the content of a job as the statements of a SQL file."""
    functions = data.get("functions", {})
    flat = _flat({key: value for key, value in data.items() if key != "functions"})
    settings = {key.removeprefix("sparkConf.") if ".spark." in key else key: value for key, value in flat}
    lines = [f"SET {_quoted(key)} = {_quoted(value)};" for key, value in settings.items() if isinstance(value, str)]
    for part in data["sources"]:
        mark = part.get("watermark")
        delay = "" if mark is None else f" - INTERVAL {round(parse_duration(mark['delay']) * 1000)} MILLISECONDS"
        column = "" if mark is None else _name(mark["column"])
        inside = [part["schema"]] if "schema" in part else []
        inside += [f"WATERMARK FOR {column} AS {column}{delay}"] if mark else []
        columns = f"({', '.join(inside)}) " if inside else ""
        lines.append(f"CREATE SOURCE {_name(part['name'])} {columns}{_with(part, 'sources')};")
    for part in data.get("tables", ()):
        columns = f"({part['schema']}) " if "schema" in part else ""
        lines.append(f"CREATE TABLE {_name(part['name'])} {columns}{_with(part, 'tables')};")
    for name, reference in functions.items():
        named = reference if "." in reference.partition(":")[2] else reference.replace(":", ".")
        lines.append(f"CREATE FUNCTION {_name(name)} AS {_quoted(named)};")
    for part in data["operators"]:
        edges = [each if isinstance(each, Mapping) else {"from": each} for each in part["inputs"]]
        inputs = {"inputs": ", ".join(each["from"] for each in edges)}
        loops = {FEEDBACK_PREFIX + each["from"]: each["schema"] for each in edges if each.get("feedback")}
        query = f" AS\n{part['sql']}\n" if "sql" in part else ""
        lines.append(f"CREATE VIEW {_name(part['name'])} {_with(part | inputs, 'operators', loops)}{query};")
    for part in data["sinks"]:
        by = ", ".join(map(_name, part.get("partitionBy", ())))
        partitions = f"PARTITIONED BY ({by}) " if by else ""
        lines.append(f"CREATE SINK {_name(part['name'])} {partitions}{_with(part, 'sinks')};")
        lines.append(f"INSERT INTO {_name(part['name'])} SELECT * FROM {_name(part['input'])};")
    return "\n".join(lines)


def _flat(fields: Mapping[str, Any], head: str = "") -> Iterator[tuple[str, Any]]:
    """Yield fields, and those below them, under dotted names."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{head}{name}.")
        else:
            yield head + name, str(value).lower() if isinstance(value, bool | int) else value


def _with(part: Mapping[str, Any], kind: str, more: dict[str, str] | None = None) -> str:
    given = _flat({key: value for key, value in part.items() if key != "options"})
    settings = {key: value for key, value in given if key in FIELDS[kind] or ".options." in key}
    settings |= {key: ", ".join(value) for key, value in settings.items() if isinstance(value, list)}
    settings |= {OPTION_PREFIX + key: value for key, value in part.get("options", {}).items()} | (more or {})
    return f"WITH ({', '.join(f'{_quoted(key)} = {_quoted(value)}' for key, value in settings.items())})"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
