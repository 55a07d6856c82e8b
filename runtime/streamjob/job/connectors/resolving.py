"""Resolves the options of a part for its connector: makes paths absolute, and replaces `${env:NAME}`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from streamjob.job.connectors.options import absolute_path, substitute
from streamjob.job.connectors.registry import CONNECTORS
from streamjob.job.model.spec import SinkSpec, SourceSpec, TableSpec


def resolve_options(
    part: SourceSpec | TableSpec | SinkSpec, directory: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the resolved options for the connector of a source, table or sink.

    Args:
        part: the source, table or sink.
        directory: the job file's directory; a relative `path` or `archiveTo` is below it.
        environ: the environment for `${env:NAME}`.

    Raises:
        MissingVariable: a variable is not set.
    """
    resolved = {}
    for key, value in part.options.items():
        plain = substitute(value, environ)
        resolved[key] = absolute_path(plain, directory) if _is_place(part, key) else plain
    return resolved


def absolute_options(part: SourceSpec | TableSpec | SinkSpec, directory: Path) -> dict[str, str]:
    """Return the options for the manifest: paths are absolute, references to the environment stay unresolved."""
    return {
        key: absolute_path(value, directory) if _is_place(part, key) and not value.startswith("${env:") else value
        for key, value in part.options.items()
    }


def _is_place(part: SourceSpec | TableSpec | SinkSpec, key: str) -> bool:
    connector = CONNECTORS.get(part.format)
    return key.lower() in ("path", "archiveto") and (connector is None or connector.path != "name")
