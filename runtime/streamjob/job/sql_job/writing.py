"""Writes a job as a SQL file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from streamjob.durations import parse_duration
from streamjob.errors import InvalidInput
from streamjob.job.origins import LISTS, Origins
from streamjob.job.reading import read_spec
from streamjob.job.spec import JobSpec
from streamjob.job.sql_job.reading import read_sql
from streamjob.job.sql_job.statements import ENCODING_OPTIONS, FEEDBACK_PREFIX, FIELDS, OPTION_PREFIX
from streamjob.job.sql_job.tokens import NotSql, Token, statements

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}
_UNITS = (("DAY", 86_400_000), ("HOUR", 3_600_000), ("MINUTE", 60_000), ("SECOND", 1000), ("MILLISECOND", 1))


class NotExpressible(InvalidInput):
    """A job has something that no SQL file can say."""


def write_sql(spec: JobSpec) -> str:
    """Return a job as a SQL file; reading the file gives the same job.

    Raises:
        NotExpressible: it names the parts for which that is not so.
    """
    text = _text_of(spec, frozenset())
    different = _differences(spec, text)
    if different:
        # A view whose query does not show its inputs, or their order, names them.
        text = _text_of(spec, frozenset(name for kind, name in different if kind == "operators"))
        different = _differences(spec, text)
    if different:
        parts = ", ".join(f"{LISTS[kind]} {name!r}" if kind in LISTS else kind for kind, name in different)
        raise NotExpressible(f"the job {spec.name!r} cannot be written as SQL because of {parts}", "write it as YAML")
    return text


def _text_of(spec: JobSpec, explicit: frozenset[str]) -> str:
    data = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    blocks = ["\n".join(_settings(data))]
    blocks += [_source(each) for each in data.get("sources", ())]
    blocks += [_table(each) for each in data.get("tables", ())]
    blocks += [_view(each, explicit=each["name"] in explicit) for each in data.get("operators", ())]
    blocks += [_sink(each) for each in data.get("sinks", ())]
    return "\n\n".join(blocks) + "\n"


def normal_schema(schema: str) -> str:
    """Return a schema as a SQL file keeps it: a line break or comment between two of its tokens becomes a space."""
    try:
        (tokens,) = statements(schema)
    except (NotSql, ValueError):
        return schema
    parts = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        gap = schema[before.end : token.start] if before is not None else ""
        parts += [gap if not gap.strip(" ") else " ", schema[token.start : token.end]]
    return "".join(parts)


def _settings(data: Mapping[str, Any]) -> Iterator[str]:
    for name in ("name", "parallelism", "maxParallelism", "batchDuration"):
        if name in data:
            yield f"SET {_text(name)} = {_value(str(data[name]))};"
    for section in ("checkpointing", "channels"):
        for name, value in (data.get(section) or {}).items():
            if value is not None:
                yield f"SET {_text(f'{section}.{name}')} = {_value(_plain(value))};"
    for key, value in (data.get("sparkConf") or {}).items():
        yield f"SET {_text(key if key.startswith('spark.') else f'sparkConf.{key}')} = {_value(value)};"


def _source(part: Mapping[str, Any]) -> str:
    elements = _schema_elements(part)
    computed = _computed(part.get("columns"))
    elements += computed or ()
    if part.get("watermark") is not None:
        elements.append(_watermark(part["watermark"]))
    inside = f" (\n{_indented(elements)}\n)" if elements else ""
    shown = {key: value for key, value in part.items() if key != "columns" or computed is None}
    return f"CREATE SOURCE {_name(part['name'])}{inside} WITH (\n{_indented(_with(shown, 'sources'))}\n);"


def _table(part: Mapping[str, Any]) -> str:
    columns = _schema_elements(part)
    inside = f" (\n{_indented(columns)}\n)" if columns else ""
    return f"CREATE TABLE {_name(part['name'])}{inside} WITH (\n{_indented(_with(part, 'tables'))}\n);"


def _schema_elements(part: Mapping[str, Any]) -> list[str]:
    schema = part.get("schema")
    if schema is None:
        return []
    columns = _columns(schema)
    return columns if ", ".join(columns) == schema else [schema]


def _computed(columns: Sequence[str] | None) -> list[str] | None:
    """Return columns as the elements `name AS expression`; None if they are not `*` and then such columns."""
    if columns is None or len(columns) < 2 or columns[0] != "*":
        return None
    elements = []
    for each in columns[1:]:
        try:
            (tokens,) = statements(each)
        except (NotSql, ValueError):
            return None
        if len(tokens) < 3 or not tokens[-2].is_word("AS") or tokens[-1].kind not in ("word", "name"):
            return None
        elements.append(f"{each[tokens[-1].start : tokens[-1].end]} AS {each[: tokens[-3].end]}")
    return elements


def _view(part: Mapping[str, Any], *, explicit: bool) -> str:
    settings = list(_with(part, "operators"))
    edges = [each if isinstance(each, Mapping) else {"from": each} for each in part["inputs"]]
    if explicit or part.get("sql") is None:
        settings.append(f"'inputs' = {_text(', '.join(each['from'] for each in edges))}")
    settings += [
        f"{_text(FEEDBACK_PREFIX + each['from'])} = {_text(each.get('schema') or '')}"
        for each in edges
        if each.get("feedback")
    ]
    options = f" WITH (\n{_indented(settings)}\n)" if settings else ""
    query = "" if part.get("sql") is None else f" AS\n{part['sql']}"
    # A comment at the end would reach over the semicolon.
    ends_in_comment = "--" in query.rpartition("\n")[2]
    query, end = (query, "\n;") if ends_in_comment else (query.rstrip("; \n\t"), ";")
    return f"CREATE VIEW {_name(part['name'])}{options}{query}{end}"


def _sink(part: Mapping[str, Any]) -> str:
    partitions = ", ".join(_name(each) for each in part.get("partitionBy") or ())
    by = f" PARTITIONED BY ({partitions})" if partitions else ""
    name = _name(part["name"])
    create = f"CREATE SINK {name}{by} WITH (\n{_indented(_with(part, 'sinks'))}\n);"
    return f"{create}\nINSERT INTO {name} SELECT * FROM {_name(part['input'])};"


def _with(part: Mapping[str, Any], kind: str) -> Iterator[str]:
    for head in ("watermark", "lookup", "temporalJoin"):
        for name, value in (part.get(head) or {}).items():
            if f"{head}.{name}" in FIELDS[kind] and value is not None:
                text = ", ".join(value) if isinstance(value, list) else _plain(value)
                yield f"{_text(f'{head}.{name}')} = {_value(text)}"
    for head in ("key", "value"):
        yield from _nested(head, part.get(head) or {})
    for name in FIELDS[kind]:
        if name != "inputs" and part.get(name) is not None:
            value = ", ".join(part[name]) if name in ("columns", "tables") else _plain(part[name])
            yield f"{_text(name)} = {_value(value)}"
    reserved = {each.lower() for each in FIELDS[kind]}
    for name, value in (part.get("options") or {}).items():
        escaped = name.lower() in reserved or name.startswith((OPTION_PREFIX, *ENCODING_OPTIONS))
        yield f"{_text(OPTION_PREFIX + name if escaped else name)} = {_value(value)}"


def _nested(head: str, fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of an encoding, and those below them, under dotted names."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _nested(f"{head}.{name}", value)
        elif value is not None:
            yield f"{_text(f'{head}.{name}')} = {_value(_plain(value))}"


def _columns(schema: str) -> list[str]:
    """Return the columns of a schema."""
    try:
        tokens: Sequence[Token] = [token for each in statements(schema) for token in each]
    except NotSql:
        return [schema]
    columns, start, depth = [], 0, 0
    for token in tokens:
        if token.kind != "sign":
            continue
        if token.value == "," and not depth:
            columns.append(schema[start : token.start].strip())
            start = token.end
        depth += sum(token.value.count(each) for each in "(<") - sum(token.value.count(each) for each in ")>")
    return [*columns, schema[start:].strip()]


def _watermark(watermark: Mapping[str, Any]) -> str:
    column = _name(watermark["column"])
    milliseconds = round(parse_duration(watermark["delay"]) * 1000)
    unit, size = next((unit, size) for unit, size in _UNITS if milliseconds % size == 0)
    count = milliseconds // size
    delay = f" - INTERVAL {count} {unit}{'S' * (count != 1)}" if count else ""
    return f"WATERMARK FOR {column} AS {column}{delay}"


def _differences(spec: JobSpec, text: str) -> list[tuple[str, str]]:
    """Return the parts of a job that a file describes differently, as lists and names, or names of fields."""
    read = read_sql(text, Origins())
    other = read_spec(read.data).spec
    problems = {each.where.partition(" ")[2].strip("'") for each in read.problems}
    if other is None:
        return [("the job", "")]
    different: list[tuple[str, str]] = []
    for kind in LISTS:
        before, after = ({each.name: each for each in getattr(job, kind)} for job in (spec, other))
        names = [name for name, part in before.items() if name in problems or not _same(part, after.get(name))]
        different += [(kind, name) for name in names]
    fields = ("name", "parallelism", "max_parallelism", "checkpointing", "channels", "batch_duration", "spark_conf")
    for name in fields:
        if getattr(spec, name) != getattr(other, name):
            different.append((name, ""))
    counts = [len(each.nodes()) + len(each.tables) for each in (spec, other)]
    if not different and (read.problems or counts[0] != counts[1]):
        different.append(("its names", ""))
    return different


def _same(before: Any, after: Any) -> bool:
    if after is None or before == after:
        return after is not None
    changed: dict[str, Any] = {}
    if getattr(before, "schema_ddl", None):
        changed["schema_ddl"] = normal_schema(before.schema_ddl)
    if getattr(before, "columns", None):
        changed["columns"] = tuple(normal_schema(each) for each in before.columns)
    if getattr(before, "sql", None):
        changed["sql"] = before.sql.rstrip("; \n\t")
    return bool(before.model_copy(update=changed) == after)


def _plain(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _value(value: str) -> str:
    return value if value in ("true", "false") or _NUMBER.fullmatch(value) else _text(value)


def _text(value: str) -> str:
    return "'" + "".join(_ESCAPES.get(each, each) for each in value) + "'"


def _name(name: str) -> str:
    return name if _WORD.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _indented(lines: Any) -> str:
    return ",\n".join(f"  {line}" for line in lines)
