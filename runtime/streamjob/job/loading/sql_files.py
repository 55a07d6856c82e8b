"""`sqlFile: query.sql`: the query of an operator, in a file of its own next to the job's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamjob.errors import InvalidInput
from streamjob.job.loading.text_file import read_text
from streamjob.job.model.origins import Place
from streamjob.job.model.problem import Problem
from streamjob.job.query.sql import NotAQuery, read_query

_FIELD = "sqlFile"


@dataclass(frozen=True, slots=True)
class QueryFiles:
    """A job's content with its queries in place of their files.

    Args:
        data: the content.
        files: the file of each operator that has one, by the operator's name.
        problems: the files that could not be read.
    """

    data: dict[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def with_query_files(data: Mapping[str, Any], directory: Path) -> QueryFiles:
    """Return a job's content with the text of each `sqlFile` as the operator's `sql`.

    An operator with a `sqlFile` and other code stays as it is: a check refuses it.

    Args:
        data: the content of a job file; it stays as it is.
        directory: the job file's directory: the files are relative to it.
    """
    operators = data.get("operators")
    if not isinstance(operators, list):
        return QueryFiles(dict(data))
    files: dict[str, str] = {}
    problems: list[Problem] = []
    changed = list(operators)
    for index, operator in enumerate(operators):
        if not isinstance(operator, Mapping) or not isinstance(operator.get(_FIELD), str):
            continue
        if operator.get("sql") is not None or operator.get("python") is not None:
            continue
        name, file = str(operator.get("name")), operator[_FIELD]
        rest = {key: value for key, value in operator.items() if key != _FIELD}
        try:
            changed[index] = {**rest, "sql": read_text(directory / file, file, "name it relative to the job file")}
            files[name] = file
        except InvalidInput as error:
            changed[index] = rest
            problems.append(Problem(f"operator {name!r}", f"{_FIELD}: {error.what}", error.fix))
    return QueryFiles({**data, "operators": changed}, files, tuple(problems))


def query_problems(
    data: Mapping[str, Any], files: Mapping[str, str], spark_parser: Callable[[str], str | None] | None
) -> list[Problem]:
    """Return the queries that do not parse, with lines and columns of their files.

    Args:
        data: the content of a job file, with the queries of `files` and with its variables replaced.
        files: the files by operator.
        spark_parser: asked about queries that sqlglot does not read.
    """
    problems = []
    for operator in data.get("operators") or ():
        file = files.get(str(operator.get("name"))) if isinstance(operator, Mapping) else None
        if file is None:
            continue
        try:
            read_query(str(operator.get("sql")), spark_parser)
        except NotAQuery as error:
            what, place = f"its SQL does not parse: {error.what}", Place(file, error.line, error.column)
            problems.append(Problem(f"operator {operator['name']!r}", what, error.fix, place))
    return problems
