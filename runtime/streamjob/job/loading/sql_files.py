"""`sqlFile: query.sql`: the query of an operator or a migration, in a file of its own next to the job's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamjob.errors import InvalidInput
from streamjob.job.loading.text_file import read_text
from streamjob.job.model.origins import Path as Origin
from streamjob.job.model.origins import Place
from streamjob.job.model.problem import Problem
from streamjob.job.query.sql import NotAQuery, read_query

_FIELD, _MIGRATE = "sqlFile", "migrate"


@dataclass(frozen=True, slots=True)
class QueryFiles:
    """A job's content with its queries in place of their files.

    Args:
        data: the content.
        files: the file of each query that has one, by its path: `operators`, the operator's name and `sql`, or
            `migrate`, the uid, `sql`, and the table if it is the query for one of several.
        problems: the files that could not be read.
    """

    data: dict[str, Any]
    files: Mapping[Origin, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def with_query_files(data: Mapping[str, Any], directory: Path) -> QueryFiles:
    """Return a job's content with the text of each `sqlFile` as the `sql` of its operator or migration.

    An operator or migration with both a `sqlFile` and other code stays as it is; a later check refuses it.

    Args:
        data: the content of a job file; it stays as it is.
        directory: the job file's directory: the files are relative to it.
    """
    files: dict[Origin, str] = {}
    problems: list[Problem] = []

    def text(file: str, path: Origin) -> str:
        try:
            found = read_text(directory / file, file, "name it relative to the job file")
            files[path] = file
            return found
        except InvalidInput as error:
            problems.append(Problem(_where(path), f"{_FIELD}: {error.what}", error.fix))
            return ""

    def read(holder: Any, of: Origin) -> Any:
        if not isinstance(holder, Mapping) or holder.get("sql") is not None or holder.get("python") is not None:
            return holder
        named, path = holder.get(_FIELD), (*of, "sql")
        rest = {key: value for key, value in holder.items() if key != _FIELD}
        if isinstance(named, str):
            return {**rest, "sql": text(named, path)}
        if of[0] == _MIGRATE and isinstance(named, Mapping):
            texts = [isinstance(each, str) for pair in named.items() for each in pair]
            if all(texts):
                return {**rest, "sql": {table: text(file, (*path, table)) for table, file in named.items()}}
        return holder

    changed = dict(data)
    operators, migrations = data.get("operators"), data.get(_MIGRATE)
    if isinstance(operators, list):
        names = [str(each.get("name")) if isinstance(each, Mapping) else "" for each in operators]
        changed["operators"] = [read(each, ("operators", name)) for each, name in zip(operators, names, strict=True)]
    if isinstance(migrations, Mapping):
        changed[_MIGRATE] = {
            uid: read(each, (_MIGRATE, uid)) if isinstance(uid, str) else each for uid, each in migrations.items()
        }
    return QueryFiles(changed, files, tuple(problems))


def query_problems(
    data: Mapping[str, Any], files: Mapping[Origin, str], spark_parser: Callable[[str], str | None] | None
) -> list[Problem]:
    """Return the queries that do not parse, with lines and columns of their files.

    Args:
        data: the content of a job file, with the queries of `files` and with its variables replaced.
        files: the files by the path of what has them.
        spark_parser: asked about queries that sqlglot does not read.
    """
    problems = []
    for path, file in files.items():
        kind, name, _, *table = path
        holder = data[kind][name] if kind == _MIGRATE else _named(data[kind], name)
        sql: Any = holder.get("sql")
        try:
            read_query(str(sql[table[0]] if table else sql), spark_parser)
        except NotAQuery as error:
            what, place = f"its SQL does not parse: {error.what}", Place(file, error.line, error.column)
            problems.append(Problem(_where(path), what, error.fix, place))
    return problems


def _named(parts: Sequence[Any], name: str) -> Mapping[str, Any]:
    return next(each for each in parts if isinstance(each, Mapping) and str(each.get("name")) == name and "sql" in each)


def _where(path: Origin) -> str:
    kind, name, *_ = path
    return f"operator {name!r}" if kind == "operators" else f"migrate.{name}"
