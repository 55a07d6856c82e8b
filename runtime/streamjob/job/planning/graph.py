"""The job's graph as JSON: the description of a job in its manifests, which restores are checked against."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from streamjob.job.connectors.options import encodings_of, is_secret
from streamjob.job.connectors.resolving import absolute_options
from streamjob.job.model.spec import JobSpec, SinkSpec, SourceSpec, TableSpec


def graph_of(spec: JobSpec, directory: Path | None = None) -> dict[str, JsonValue]:
    """Return the job's graph: names, uids, formats, options, schemas, watermarks, queries, function names.

    Args:
        directory: the job file's directory; if given, relative paths become absolute, so that sinks can be opened
            from the graph alone.

    Returns:
        JSON values under the job file's field names. References like `${env:NAME}` stay unresolved.
    """
    graph: dict[str, Any] = spec.model_dump(mode="json", by_alias=True, include={"name", "parallelism"})
    graph["maxParallelism"] = spec.max_parallelism
    graph["sources"] = [_part(each, directory) for each in spec.sources]
    if spec.tables:
        graph["tables"] = [_part(each, directory) for each in spec.tables]
    # How state comes to a new form is no property of the job that has it.
    graph["operators"] = [
        each.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"renames"}) for each in spec.operators
    ]
    graph["sinks"] = [_part(each, directory) for each in spec.sinks]
    return graph


def tables_of(graph: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the tables of a graph, in lower case: SQL reads them, and they are no streams."""
    return frozenset(str(each["name"]).lower() for each in graph.get("tables", ()))


def _part(part: SourceSpec | TableSpec | SinkSpec, directory: Path | None) -> dict[str, Any]:
    dumped = part.model_dump(mode="json", by_alias=True, exclude_none=True)
    options = absolute_options(part, directory) if directory else part.options
    # Validation refuses plain-text secrets, but graphs are kept for long and have many readers, so do not rely on it.
    dumped["options"] = _without_secrets(options)
    for name, encoding in encodings_of(part).items():
        if encoding.registry is not None:
            registry = dumped[name]["registry"]
            registry.update(_without_secrets({"url": registry["url"]}), options=_without_secrets(registry["options"]))
    return dumped


def _without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    return {key: "***" if is_secret(key, value) else value for key, value in options.items()}
