"""Adds staged data files to a table in one atomic commit, based on the table's state as it was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata

from streamjob_runtime.sinks.iceberg.changes import changes_sha256
from streamjob_runtime.sinks.iceberg.datafiles import StagedFile, restore


class StagedBatch(BaseModel):
    """The committable: a batch's data files, with the life and number that identify it in the table.

    Format version 2 has the files of its changes instead, in order. In version 3 these may leave out columns, for
    which an older version would write NULL.
    """

    model_config = ConfigDict(frozen=True)

    formatVersion: Literal[1, 2, 3] = 1  # noqa: N815 - as it is stored
    table: str
    sink: str
    life: str
    number: int
    partitionSpec: int  # noqa: N815
    schemaId: int  # noqa: N815
    files: tuple[StagedFile, ...] = ()
    changes: tuple[str, ...] = ()

    def staged(self) -> tuple[tuple[str, str | None], ...]:
        """Return the locations of its files, with their hashes."""
        changes = ((location, changes_sha256(location)) for location in self.changes)
        return (*((file.path, file.sha256) for file in self.files), *changes)


def append(
    table: Table, batches: Sequence[StagedBatch], summary: Mapping[str, str], properties: Mapping[str, str]
) -> None:
    """Add the files of batches to the table and set properties, in a single commit without retries.

    Raises:
        CommitFailedException: the table has changed since it was read.
    """
    metadata = table.metadata
    transaction = _transaction(table, batches[0].partitionSpec, properties)
    update = transaction.update_snapshot(snapshot_properties=dict(summary))
    merging = metadata.properties.get("commit.manifest-merge.enabled", "false").lower() == "true"
    with update.merge_append() if merging else update.fast_append() as appended:
        for batch in batches:
            for file in _files(metadata, batch):
                appended.append_data_file(file)
    transaction.commit_transaction()


def replace_all(table: Table, batch: StagedBatch, summary: Mapping[str, str], properties: Mapping[str, str]) -> None:
    """Put the files of a batch in the place of all files of the table; otherwise as `append`."""
    snapshot = table.current_snapshot()
    former = [
        entry.data_file
        for manifest in (snapshot.manifests(table.io) if snapshot else ())
        if manifest.content == ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(table.io)
    ]
    overwrite(table, former, _files(table.metadata, batch), batch.partitionSpec, summary, properties)


def overwrite(
    table: Table,
    replaced: Iterable[DataFile],
    added: Iterable[DataFile],
    spec: int,
    summary: Mapping[str, str],
    properties: Mapping[str, str],
) -> None:
    """Replace and add files, and set properties, in a single commit without retries.

    Args:
        spec: the id of the partition specification of the files that are added.

    Raises:
        CommitFailedException: the table has changed since it was read.
    """
    transaction = _transaction(table, spec, properties)
    with transaction.update_snapshot(snapshot_properties=dict(summary)).overwrite() as overwriting:
        # pyiceberg looks for the files in manifests that can have such rows: in all, since partitions may be computed.
        overwriting.delete_by_predicate(AlwaysTrue())
        for file in replaced:
            overwriting.delete_data_file(file)
        for file in added:
            overwriting.append_data_file(file)
    transaction.commit_transaction()


def _files(metadata: TableMetadata, batch: StagedBatch) -> list[DataFile]:
    schema = metadata.schema_by_id(batch.schemaId) or metadata.schema()
    return [restore(file, metadata.specs()[batch.partitionSpec], schema) for file in batch.files]


def _transaction(table: Table, spec: int, properties: Mapping[str, str]) -> Transaction:
    """Return a transaction without retries that sets properties and takes files of one partition specification."""
    # The files belong to the table's partitions at the time of writing. A retry based on a newer state could add files
    # that are in the table already.
    own = {**table.metadata.properties, "commit.retry.num-retries": "0"}
    table.metadata = table.metadata.model_copy(update={"default_spec_id": spec, "properties": own})
    transaction = table.transaction()
    transaction.set_properties(dict(properties))
    return transaction


def files_of(table: Table) -> frozenset[str]:
    """Return all files in any of a table's snapshots."""
    manifests = {
        manifest.manifest_path: manifest
        for snapshot in table.metadata.snapshots
        for manifest in snapshot.manifests(table.io)
    }
    return frozenset(
        entry.data_file.file_path
        for manifest in manifests.values()
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    )
