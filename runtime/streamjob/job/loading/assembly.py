"""Puts a job's content together from its file, its overlays and the command line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamjob.job.loading.overlays import merge
from streamjob.job.loading.overrides import apply_overrides, overridden
from streamjob.job.loading.schema_files import with_schema_files
from streamjob.job.loading.sql_files import query_problems, with_query_files
from streamjob.job.model.origins import Origins, Place
from streamjob.job.model.problem import Problem
from streamjob.job.model.suggest import did_you_mean
from streamjob.job.model.variables import parse_variables, replace_variables


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes to a job's file that were named on the command line.

    Args:
        overlays: the contents of further files, by their names.
        overrides: overrides of the form `PATH=VALUE`.
        variables: values of the form `NAME=VALUE`.
    """

    overlays: Mapping[str, Mapping[str, Any]]
    overrides: Sequence[str] = ()
    variables: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Assembled:
    """A job's content, ready to be read.

    Args:
        data: the content.
        problems: the changes that could not be made, and the files that could not be read.
        broken: the parts that these problems are about.
    """

    data: dict[str, Any]
    problems: tuple[Problem, ...]
    broken: frozenset[str]


def assemble(
    data: dict[str, Any],
    changes: Changes,
    directory: Path,
    origins: Origins,
    spark_parser: Callable[[str], str | None] | None,
    *,
    is_resource: bool,
    used: Collection[str] = (),
) -> Assembled:
    """Return the content of a job's file with all changes made.

    Args:
        data: the content of the file.
        changes: overlays, overrides and variables, which apply in this order.
        directory: the file's directory.
        origins: learns which fields come from elsewhere.
        spark_parser: asked about queries that sqlglot does not read.
        is_resource: the file is a StreamJob, which is applied as it is written.
        used: variables that something else refers to.
    """
    problems: list[Problem] = []
    for name, content in changes.overlays.items():
        data, found = merge(data, content, origins, Place(name))
        problems += found
    data, found = apply_overrides(data, changes.overrides)
    problems += found
    if changes.overlays:
        for each in changes.overrides:
            origins.note(overridden(each), Place("--set"))
    variables, found = parse_variables(changes.variables)
    problems += found
    if is_resource:
        if variables:
            fix = "write the values into it, or let kustomize or Helm do it"
            problems.append(Problem("--var", "has no effect on a StreamJob", fix))
        return Assembled(data, tuple(problems), frozenset())
    data, in_fields = replace_variables(data, variables)
    data, in_schemas = with_schema_files(data, directory)
    queries = with_query_files(data, directory)
    data, in_queries = replace_variables(queries.data, variables)
    known = {*in_fields, *in_queries, *used}
    problems += [
        Problem(f"--var {name}", "nothing refers to it", did_you_mean(name, known, "variables"))
        for name in variables
        if name not in known
    ]
    for path, file in queries.files.items():
        origins.note(path, Place(file))
    in_files = [*in_schemas, *queries.problems, *query_problems(data, queries.files, spark_parser)]
    return Assembled(data, (*problems, *in_files), frozenset(each.where for each in in_files))
