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

_FIELD = "sqlFile"


@dataclass(frozen=True, slots=True)
class QueryFiles:
    """A job's content with its queries in place of their files.

    Args:
        data: the content.
        files: the file of each operator or migration that has one, by its path: `operators` and the operator's name,
            or `migrate` and its uid.
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

    def read(holder: Any, path: Origin) -> Any:
        if not isinstance(holder, Mapping) or not isinstance(holder.get(_FIELD), str):
            return holder
        if holder.get("sql") is not None or holder.get("python") is not None:
            return holder
        file = holder[_FIELD]
        rest = {key: value for key, value in holder.items() if key != _FIELD}
        try:
            rest["sql"] = read_text(directory / file, file, "name it relative to the job file")
            files[path] = file
        except InvalidInput as error:
            problems.append(Problem(_where(path), f"{_FIELD}: {error.what}", error.fix))
        return rest

    changed = dict(data)
    operators, migrations = data.get("operators"), data.get("migrate")
    if isinstance(operators, list):
        names = [str(each.get("name")) if isinstance(each, Mapping) else "" for each in operators]
        changed["operators"] = [read(each, ("operators", name)) for each, name in zip(operators, names, strict=True)]
    if isinstance(migrations, Mapping):
        changed["migrate"] = {
            uid: read(each, ("migrate", uid)) if isinstance(uid, str) else each for uid, each in migrations.items()
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
        kind, name = path
        parts = data[kind]
        holder = parts[name] if kind == "migrate" else _named(parts, name)
        try:
            read_query(str(holder.get("sql")), spark_parser)
        except NotAQuery as error:
            what, place = f"its SQL does not parse: {error.what}", Place(file, error.line, error.column)
            problems.append(Problem(_where(path), what, error.fix, place))
    return problems


def _named(parts: Sequence[Any], name: str) -> Mapping[str, Any]:
    return next(each for each in parts if isinstance(each, Mapping) and str(each.get("name")) == name and "sql" in each)


def _where(path: Origin) -> str:
    kind, name = path
    return f"operator {name!r}" if kind == "operators" else f"migrate.{name}"
