"""The exactly-once Iceberg sink.

Each batch is written as data files below the table's data when it is computed; readers do not see them there. When the
checkpoint that covers it has completed, one commit adds the files to the table, or puts them in the place of all of its
files, and records, in a table property, up to which batch the sink has committed. A repeated commit finds the record
and does nothing.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NoReturn, cast

from pydantic import JsonValue
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from streamjob.errors import StreamJobError, refuse
from streamjob.ids import BatchId, CheckpointId
from streamjob.job.connectors.changes import CHANGE_TYPE
from streamjob.job.connectors.iceberg import parse_options
from streamjob.sink import NO_TARGET, SinkContext, Staged
from streamjob_runtime.sinks.committables import read_committable, that_count
from streamjob_runtime.sinks.errors import CommitContended, StagedRowsGone, UnreadableCommittable, UnusableTable
from streamjob_runtime.sinks.iceberg.catalogs import Explainer, open_catalog, open_files
from streamjob_runtime.sinks.iceberg.changes import ChangeFile, read_changes, remove_files, stage_changes
from streamjob_runtime.sinks.iceberg.column_types import aligned, key_mismatches, mismatches, refusals, schema_of
from streamjob_runtime.sinks.iceberg.commits import StagedBatch, append, files_of, replace_all
from streamjob_runtime.sinks.iceberg.committed_batches import (
    PREFIX,
    CommittedBatches,
    property_of,
    read_committed,
)
from streamjob_runtime.sinks.iceberg.datafiles import StagedFile
from streamjob_runtime.sinks.iceberg.merging import commit_merge, merge
from streamjob_runtime.sinks.iceberg.writing import DataFiles, data_path, target_below, write_rows
from streamjob_runtime.sinks.identity import identity_of
from streamjob_runtime.sinks.lakes.lives import Life, LifeDirectories, life_of
from streamjob_runtime.sinks.lakes.optimistic_commits import commit_optimistically, problem_of
from streamjob_runtime.sinks.lakes.staged_changes import LEFT_OUT
from streamjob_runtime.sinks.rows.changes import kind_mismatches, without_kind
from streamjob_runtime.sinks.rows.column_mismatches import Mismatch
from streamjob_runtime.sinks.rows.staged_hashes import changed, sha256_of
from streamjob_runtime.sinks.rows.task_files import write_batch
from streamjob_runtime.sinks.rows.unavailable import with_left_out

if TYPE_CHECKING:
    from io import FileIO

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

log = logging.getLogger("streamjob")


class IcebergSink:
    """Adds each batch's rows to a table, or merges them by key, once the checkpoint that covers them has completed.

    Or it replaces the table's content by the last batch that the checkpoint covers.

    Args:
        wait: sleeps between two attempts to commit; takes seconds.
    """

    def __init__(self, name: str, wait: Callable[[float], None] = time.sleep) -> None:
        self._label = f"sink {name}"
        self._wait = wait

    def open(self, context: SinkContext) -> None:
        """Check the catalog, the table and the rights to its files.

        Raises:
            UnusableOptions: an option is invalid.
            CatalogUnreachable: the catalog or the files' store does not answer.
            CatalogRefuses: one of them refuses the sink's credentials or an operation.
            UnusableTable: the table does not exist, or cannot be written to.
        """
        self._context = context
        self._explainer = Explainer(self._label, context.options)
        self._options = parse_options(context.options, self._label)
        self._identity = identity_of(context.namespace, context.job, context.uid)
        self._life = Life(context.epoch, secrets.token_hex(8))
        self._number = 0
        self._swept: list[str] = []
        self._catalog = open_catalog(context.options, self._options, self._explainer)
        self._opened: Table | None = None
        table = self._find()
        if table is not None:
            self._take(table)
        elif not self._options.create_table:
            raise UnusableTable(
                f"{self._label}: there is no table {self._options.table} in the catalog",
                "make it with the columns of the rows, say createTable: true, or correct the option 'table'; names are "
                "compared exactly",
            )

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Check the catalog, the table and the rows without creating anything. Raises the errors of `open`."""
        self.open(context)
        try:
            if schema is not None and self._opened is not None:
                self.check_schema(schema)
        finally:
            self.close()

    def verify(
        self, context: SinkContext, checkpoint: CheckpointId, committables: Sequence[JsonValue]
    ) -> Iterator[StreamJobError]:
        """Yield an error for the first problem of the table's record of commits, or of the staged files."""

        def check() -> None:
            self.open(context)
            try:
                if batches := [self._parsed(committable) for committable in committables]:
                    committed = self._committed(self._due_table(checkpoint, batches)) or CommittedBatches()
                    due = [
                        batch
                        for batch in that_count(batches, self._options.mode)
                        if not committed.covers(batch.life, batch.number)
                    ]
                    self._check_presence(checkpoint, due)
                    self._check_content(checkpoint, due)
            finally:
                self.close()

        if (error := problem_of(check)) is not None:
            yield error

    def rehearse(self, context: SinkContext, rows: DataFrame) -> None:
        """Check catalog and table, and stage rows as for a batch. Without rows there is no file to write.

        Raises the errors of `open` and `stage`.
        """
        self.preview(context, rows.schema)
        if self._opened is not None:
            self.stage(rows, BatchId(0))

    def check_schema(self, schema: StructType) -> None:
        """Check that rows with a schema fit the table; create the table if so configured.

        Raises:
            UnusableTable: they do not fit; lists all problems.
        """
        found: list[Mismatch] = []
        if self._options.key and CHANGE_TYPE in schema.names:
            found += kind_mismatches(schema)
            schema = without_kind(schema)
        if self._opened is None:
            self._take(self._create(schema))
        found += mismatches(schema, self._table.schema())
        found += key_mismatches(self._options.key, schema.names, self._table.schema())
        refuse(UnusableTable, self._table_label, found)

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Write the batch as data files, in one Spark action.

        Raises:
            CatalogUnreachable, CatalogRefuses: see `open`.
        """
        metadata, number = self._table.metadata, self._number + 1
        directory = self._directories.of_batch(self._life, number)
        target = target_below(self._label, metadata, self._files.properties, directory)
        files: list[StagedFile] = []
        changes: list[ChangeFile] = []
        left_out: tuple[str, ...] = ()
        if self._options.key:
            batch, left_out = with_left_out(batch, self._label, self._options.key, LEFT_OUT)
            changes = stage_changes(batch, target, directory, self._options.key, self._label)
        else:
            rows = aligned(batch, target.table().schema())
            files = write_batch(rows, partial(DataFiles, target), DataFiles(target))
        if not files and not changes and not self._replaces:
            return Staged(None, 0)
        self._number = number
        staged = StagedBatch(
            formatVersion=3 if left_out else 2 if changes else 1,
            table=str(metadata.table_uuid),
            sink=self._identity,
            life=str(self._life),
            number=number,
            partitionSpec=metadata.default_spec_id,
            schemaId=metadata.current_schema_id,
            files=tuple(files),
            changes=tuple(file.path for file in changes),
        )
        written = sum(file.rows for file in files) + sum(file.rows for file in changes)
        return Staged(staged.model_dump(mode="json", exclude_defaults=True), written)

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Add the files of the checkpoint's batches to the table, and record this in it, in one commit.

        Raises:
            UnreadableCommittable: a committable does not belong to this sink.
            UnreadableRecord: the table's record of the sink's commits is damaged.
            StagedRowsGone: files neither exist nor are recorded as committed, or are damaged.
            RowsRefused: a change leaves out columns of a row that the table does not have.
            CommitContended: other writers kept changing the table meanwhile.
            CatalogUnreachable, CatalogRefuses: see `open`.
        """
        batches = [self._parsed(committable) for committable in committables]
        counting = that_count(batches, self._options.mode)
        # A manifest holds files of a single partition specification; the table's may have changed between two epochs.
        for _, group in groupby(counting, key=lambda batch: (batch.partitionSpec, batch.schemaId)):
            self._commit(checkpoint, list(group))
        if self._replaces:
            # Files of batches that do not count any more are in no snapshot.
            remove_files((location for batch in batches[:-1] for location, _ in batch.staged()), self._files)

    @property
    def keeps_unavailable(self) -> bool:
        """Whether rows may leave out columns: if they replace others."""
        return bool(self._options.key)

    def target_id(self) -> str:
        """Return the table's id."""
        return NO_TARGET if self._opened is None else str(self._opened.metadata.table_uuid)

    def newest_published(self) -> CheckpointId | None:
        """Return the checkpoint of the sink's newest snapshot of the table; None once that has expired."""
        snapshots = () if self._opened is None else self._opened.metadata.snapshots
        own = (each.summary.additional_properties for each in snapshots if each.summary)
        found = [each.get(f"{PREFIX}checkpoint", "") for each in own if each.get(f"{PREFIX}sink-id") == self._identity]
        return CheckpointId(int(found[-1])) if found and found[-1].isdigit() else None

    def abort(self) -> None:
        """Remove uncommitted files of lower epochs.

        Leave those of higher epochs alone: a superseded process that wakes up must not harm its successor.
        """
        table = self._find()
        if table is None:
            return
        with self._explainer.explaining("files that were never published cannot be removed"):
            committed = self._committed(table)
            known = committed or CommittedBatches()
            below = [life for life in self._directories.lives() if life.epoch < self._context.epoch]
            left = {
                life: [
                    file
                    for file in self._directories.files_of(life)
                    if self._options.key or not known.covers(str(life), file.number)
                ]
                for life in below
                if str(life) not in known.swept
            }
            if (committed is None or self._options.key) and any(left.values()):
                # Without the property, or with files that are not named by batches, only the table's own file list
                # shows which files are part of it.
                part = files_of(table)
                left = {life: [file for file in files if file.location not in part] for life, files in left.items()}
            for life, files in left.items():
                self._directories.remove(life, files)
            self._swept = [str(life) for life in left]

    def close(self) -> None:
        """Release the catalog's connections."""
        if engine := getattr(self._catalog, "engine", None):
            engine.dispose()
        elif close := getattr(self._catalog, "close", None):
            with suppress(Exception):
                close()

    @property
    def _replaces(self) -> bool:
        return self._options.mode == "replace"

    @property
    def _table_label(self) -> str:
        return f"{self._label}: table {self._options.table}"

    @property
    def _table(self) -> Table:
        assert self._opened is not None, "the table is made before the first batch"
        return self._opened

    def _find(self) -> Table | None:
        with self._explainer.explaining(f"table {self._options.table} cannot be read"):
            try:
                return self._catalog.load_table(self._options.table)
            except NoSuchTableError:
                return None

    def _take(self, table: Table) -> None:
        partitions = [field.source_id for field in table.spec().fields]
        refuse(UnusableTable, self._table_label, refusals(table.schema(), partitions, table.format_version))
        self._opened = table
        with self._explainer.explaining(f"files of table {self._options.table} cannot be written"):
            self._committed(table)
            self._files = open_files(table.io.properties)
            root = f"{data_path(table.metadata)}/streamjob/{self._identity}"
            scheme, host, path = PyArrowFileIO.parse_location(root, self._files.properties)
            self._directories = LifeDirectories(self._files.fs_by_scheme(scheme, host), path, root)
            self._directories.try_to_write(self._life)

    def _create(self, rows: StructType) -> Table:
        schema = schema_of(rows)
        if schema is None:
            raise UnusableTable(
                f"{self._table_label} cannot be made: the rows have types that Iceberg has not",
                f"cast them in the job; the rows are {rows.simpleString()}",
            )
        with self._explainer.explaining(f"table {self._options.table} cannot be made"):
            namespace = self._options.table.rpartition(".")[0]
            self._catalog.create_namespace_if_not_exists(namespace)
            return self._catalog.create_table_if_not_exists(self._options.table, schema)

    def _committed(self, table: Table) -> CommittedBatches | None:
        summaries = [
            snapshot.summary.additional_properties for snapshot in table.metadata.snapshots if snapshot.summary
        ]
        return read_committed(self._identity, table.properties, summaries, self._table_label)

    def _commit(self, checkpoint: CheckpointId, batches: Sequence[StagedBatch]) -> None:
        """Commit until the table records that the batches are committed."""

        def attempt(number: int) -> None:
            table = self._due_table(checkpoint, batches)
            committed = self._committed(table) or CommittedBatches()
            due = [batch for batch in batches if not committed.covers(batch.life, batch.number)]
            if not due:
                return
            self._check_presence(checkpoint, due)
            if not number:
                self._check_content(checkpoint, due)
            note = committed.with_batches((batch.life, batch.number) for batch in due).with_swept(self._swept)
            properties = {property_of(self._identity): note.to_property()}
            if self._options.key:
                self._merge(table, due, self._summary(checkpoint, due), properties)
            elif self._replaces:
                (whole,) = due
                replace_all(table, whole, self._summary(checkpoint, due), properties)
            else:
                append(table, due, self._summary(checkpoint, due), properties)

        def noted(error: Exception) -> None:
            if not isinstance(error, CommitFailedException):
                # It may have succeeded, or may succeed later.
                log.warning("%s", self._explainer.explained(error, "the outcome of a commit is unknown").what)

        failure = commit_optimistically(attempt, noted, self._wait)
        if isinstance(failure, CommitFailedException):
            raise CommitContended(
                f"{self._label}: others changed table {self._options.table} each time before checkpoint {checkpoint} "
                "was committed",
                "let fewer writers commit at once, or commit less often",
            ) from failure
        if failure is not None:
            raise self._explainer.explained(failure, f"checkpoint {checkpoint} cannot be committed") from None

    def _merge(
        self, table: Table, due: Sequence[StagedBatch], summary: Mapping[str, str], properties: Mapping[str, str]
    ) -> None:
        # No batch has this number, and a sweep takes it for committed: the files belong to several batches, and lives.
        directory = self._directories.of_batch(self._life, 0)
        target = target_below(self._label, table.metadata, self._files.properties, directory)
        rows = read_changes((batch.changes for batch in due), self._files)
        merged = merge(table, rows, self._options.key, lambda kept: write_rows(kept, target), self._table_label)
        commit_merge(table, merged, summary, properties)
        remove_files((location for batch in due for location in batch.changes), self._files)

    def _due_table(self, checkpoint: CheckpointId, batches: Sequence[StagedBatch]) -> Table:
        table = self._find()
        if table is None or {batch.table for batch in batches} != {str(table.metadata.table_uuid)}:
            gone = "is gone" if table is None else "is another one than it was"
            raise StagedRowsGone(
                f"{self._table_label} {gone}, and rows of checkpoint {checkpoint} are due there",
                "bring the table back; or give these rows up, and start from that checkpoint (--from) at another "
                "--location",
            )
        # Renew the temporary access that the catalog grants.
        self._files = open_files(table.io.properties)
        return table

    def _check_presence(self, checkpoint: CheckpointId, due: Sequence[StagedBatch]) -> None:
        """Refuse missing files; files written by this opening are not checked."""
        with self._explainer.explaining("data files cannot be looked at"):
            for batch in due:
                if batch.life == str(self._life):
                    continue
                for location, _ in batch.staged():
                    if not self._files.new_input(location).exists():
                        self._rows_gone(checkpoint, location)

    def _check_content(self, checkpoint: CheckpointId, due: Sequence[StagedBatch]) -> None:
        """Refuse damaged files."""
        staged = [each for batch in due for each in batch.staged()]
        with self._explainer.explaining("data files cannot be looked at"):
            for location, how in changed(staged, self._sha256):
                self._rows_gone(checkpoint, f"{location}, {how}")

    def _sha256(self, location: str) -> str | None:
        """Return the SHA-256 of a file; None if there is none."""
        try:
            with self._files.new_input(location).open() as stream:
                return sha256_of(cast("FileIO", stream))
        except FileNotFoundError:
            return None

    def _rows_gone(self, checkpoint: CheckpointId, where: str) -> NoReturn:
        raise StagedRowsGone(
            f"{self._label}: rows of checkpoint {checkpoint} are neither part of table {self._options.table} nor in "
            f"{where}",
            "bring the table's files back to where they were when the checkpoint completed; or give these rows up, and "
            "start from that checkpoint (--from) at another --location",
        )

    def _summary(self, checkpoint: CheckpointId, due: Sequence[StagedBatch]) -> dict[str, str]:
        context = self._context
        last = due[-1]
        own = {
            "namespace": context.namespace,
            "job": context.job,
            "sink": context.uid,
            "sink-id": self._identity,
            "epoch": str(context.epoch),
            "checkpoint": str(checkpoint),
            "batch": f"{last.life}/{last.number}",
        }
        return {f"{PREFIX}{name}": value for name, value in own.items()}

    def _parsed(self, committable: JsonValue) -> StagedBatch:
        batch = read_committable(StagedBatch, committable, self._label)
        if batch.sink != self._identity or life_of(batch.life) is None:
            raise UnreadableCommittable(f"{self._label}: a committable is not this sink's")
        return batch
