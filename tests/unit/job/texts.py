"""Texts of small jobs, and what is said of them."""

from __future__ import annotations

from pathlib import Path

from streamjob.errors import InvalidJob
from streamjob.job.loading.load import load_job

SOURCE = "{name: a, format: csv, schema: 'x INT, t TIMESTAMP', options: {path: in}}"
MARKED = "{name: a, format: csv, schema: 'x INT, t TIMESTAMP', options: {path: in}, watermark: {column: t, delay: 1h}}"
SINK = "{name: out, input: a, format: parquet, options: {path: out}}"


def job(
    *, sources: str = SOURCE, operators: str = "", sinks: str = SINK, more: str = "", name: str = "name: test"
) -> str:
    return f"{name}\nsources: [{sources}]\noperators: [{operators}]\nsinks: [{sinks}]\n{more}\n"


def sql(query: str, *, inputs: str = "a", sources: str = SOURCE, more: str = "") -> str:
    code = query.replace("'", "''")
    operator = f"{{name: b, inputs: [{inputs}], sql: '{code}'{more}}}"
    return job(sources=sources, operators=operator, sinks=SINK.replace("input: a", "input: b"))


def computed(columns: str, column: str, more: str = "") -> str:
    """Return a source with columns and a watermark on one of them."""
    return MARKED.replace("options", f"columns: [{columns}], options").replace("column: t", f"column: {column}")[
        :-1
    ] + (f"{more}}}")


def topic(more: str) -> str:
    """Return a Kafka source with further fields."""
    return f"{{name: a, format: kafka, options: {{kafka.bootstrap.servers: 'b:1', subscribe: t}}, {more}}}"


def looped(operators: str, *, sources: str = SOURCE) -> str:
    return job(sources=sources, operators=operators, sinks=SINK.replace("input: a", "input: b"))


def messages(directory: Path, text: str) -> list[str]:
    file = directory / "job.yaml"
    file.write_text(text, encoding="utf-8")
    try:
        load_job(file)
    except InvalidJob as error:
        return [str(each) for each in error.problems]
    return []


def jdbc(options: str = "url: 'jdbc:db2://host/db', dbtable: t", more: str = "") -> str:
    """Return a sink to a database of any kind."""
    return f"{{name: out, input: a, format: jdbc, options: {{{options}}}{more}}}"


def postgresql(options: str = "url: 'postgresql://host/db', table: t", more: str = "") -> str:
    """Return a sink to PostgreSQL."""
    return f"{{name: out, input: a, format: postgresql, options: {{{options}}}{more}}}"
