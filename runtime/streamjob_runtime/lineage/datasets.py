"""The names of what a job reads and writes, by OpenLineage's naming conventions.

Only addresses and names go into a name: no user, no password, no other option.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from streamjob.job.connectors.datasets import Dataset, file_dataset
from streamjob.job.connectors.options import MissingVariable, absolute_path, option, substitute
from streamjob.job.connectors.registry import CONNECTORS
from streamjob.job.model.spec import SinkSpec, SourceSpec, TableSpec

Part = SourceSpec | TableSpec | SinkSpec


def datasets_of(part: Part, job: str, directory: Path, environ: Mapping[str, str]) -> tuple[Dataset, ...]:
    """Return what a source or table reads, or a sink writes; a source may read several topics.

    Args:
        part: the source, table or sink.
        job: the job's namespace and name, for data that nobody else can reach.
        directory: the job file's directory.
        environ: the environment for `${env:NAME}`.
    """

    def value(name: str) -> str | None:
        found = option(part.options, name)
        if found is None:
            return None
        try:
            return substitute(found, environ)
        except MissingVariable:
            return found

    connector = CONNECTORS.get(part.format)
    found: tuple[Dataset, ...] = ()
    if connector is not None and connector.datasets is not None:
        found = tuple(connector.datasets(value))
    elif (path := value("path")) is not None:
        found = (file_dataset(absolute_path(path, directory)),)
    return tuple(dict.fromkeys(found)) or (Dataset("inmemory://", f"{job}.{part.name}"),)
