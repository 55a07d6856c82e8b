"""The Delta sink, with deltalake: Delta's own jars do not exist for each version of Spark.

Each batch is written as data files below the table's directory when it is computed; readers do not see them there. When
the checkpoint that covers it has completed, one commit adds the files to the table, or puts them in the place of all of
its files, and records, by an application transaction, up to which batch the sink has committed. A repeated commit finds
the record and does nothing.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError
from pyarrow import fs
from pydantic import JsonValue

from streamjob.errors import CannotRestore, StreamJobError, refuse
from streamjob.ids import BatchId, CheckpointId
from streamjob.job.connectors.changes import CHANGE_TYPE
from streamjob.job.connectors.delta import parse_options
from streamjob.journal import JournalRecord, published_batch
from streamjob.sink import NO_TARGET, Measured, SinkContext, Staged
from streamjob_runtime.sinks.committables import read_committable, that_count
from streamjob_runtime.sinks.delta.changes import is_change_file, read_changes, stage_changes
from streamjob_runtime.sinks.delta.column_types import aligned, bare, key_mismatches, mismatches, untyped
from streamjob_runtime.sinks.delta.commits import (
    StagedBatch,
    add,
    commit_properties,
    is_committed,
    newest_checkpoint,
    of_checkpoint,
    parts_of,
)
from streamjob_runtime.sinks.delta.datafiles import (
    DataFiles,
    StagedFile,
    Target,
    recorded_sha256,
    remove_files,
    sha256_at,
)
from streamjob_runtime.sinks.delta.journal import NOTHING, Journal, Note
from streamjob_runtime.sinks.delta.merging import merge
from streamjob_runtime.sinks.delta.refusals import refusals, traits_of
from streamjob_runtime.sinks.delta.rescuing import write_rows
from streamjob_runtime.sinks.delta.storage import Storage
from streamjob_runtime.sinks.delta.sweeps import Sweeps
from streamjob_runtime.sinks.errors import CommitContended, StagedRowsGone, UnreadableCommittable, UnusableTable
from streamjob_runtime.sinks.identity import identity_of
from streamjob_runtime.sinks.lakes.lives import Life, LifeDirectories, life_of
from streamjob_runtime.sinks.lakes.optimistic_commits import commit_optimistically, problem_of
from streamjob_runtime.sinks.lakes.staged_changes import LEFT_OUT
from streamjob_runtime.sinks.rows.changes import kind_mismatches, without_kind
from streamjob_runtime.sinks.rows.column_mismatches import Mismatch
from streamjob_runtime.sinks.rows.measuring import measure, observed
from streamjob_runtime.sinks.rows.staged_hashes import changed
from streamjob_runtime.sinks.rows.task_files import write_batch
from streamjob_runtime.sinks.rows.unavailable import with_left_out, without_marks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

log = logging.getLogger("streamjob")


class DeltaSink:
    """Adds each batch's rows to a table, or merges them by key, once the checkpoint that covers them has completed.

    Or it replaces the table's content by the last batch that the checkpoint covers.

    Args:
        partition_by: columns that partition the table, if the sink creates it.
        at_once: commit each batch when it is computed; after a failure, those since the last checkpoint come again.
        publishes_batches: whether its batches are published at once, so that it depends on its journal.
        wait: sleeps between two attempts to commit; takes seconds.
    """

    def __init__(
        self,
        name: str,
        partition_by: Sequence[str] = (),
        *,
        at_once: bool = False,
        publishes_batches: bool = False,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._label = f"sink {name}"
        self._partition_by = tuple(partition_by)
        self._at_once = at_once
        self._publishes_batches = publishes_batches
        self._wait = wait
        self._number = 0

    def open(self, context: SinkContext) -> None:
        """Read the table, if it exists, and check the rights to its files.

        Raises:
            UnusableOptions: an option is invalid.
            DeltaUnreachable: its files cannot be read or written.
            UnusableTable: the sink does not support this kind of table.
        """
        self._read(context)
        if self._opened is not None:
            self._try_to_write()

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Check the table and the rows without creating anything. Raises the errors of `open`."""
        self._read(context)
        if schema is not None:
            self._check(schema)

    def verify(
        self, context: SinkContext, checkpoint: CheckpointId, committables: Sequence[JsonValue]
    ) -> Iterator[StreamJobError]:
        """Yield an error for the first problem of the table, or of the staged files."""

        def check() -> None:
            self._read(context)
            if batches := self._staged_in(committables):
                what = f"checkpoint {checkpoint}"
                table = self._due_table(what, batches)
                due = self._due(table, batches)
                self._check_columns(table, what, due)
                self._check_presence(what, due)
                self._check_content(what, due)

        if (error := problem_of(check)) is not None:
            yield error

    def rehearse(self, context: SinkContext, rows: DataFrame) -> None:
        """Check the table, and stage rows as for a batch. Without rows there is no file to write.

        Raises the errors of `open` and `stage`.
        """
        self.preview(context, rows.schema)
        if self._opened is not None:
            self.stage(rows, BatchId(0))

    def check_schema(self, schema: StructType) -> None:
        """Check that rows fit the table; create it if necessary.

        Raises:
            UnusableTable: they do not fit; lists all problems.
        """
        self._check(schema)
        if self._opened is None:
            columns = json.loads(self._rows_of(schema).json())
            for field in columns["fields"]:
                field["nullable"] = True
            with self._storage.explaining("cannot be made"):
                new = Schema.from_json(json.dumps(columns))
            self._take(self._storage.create(new, self._partition_by))
            if self._publishes_batches:
                self.take_journal()
            self._try_to_write()
            self._check(schema)

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Write the batch as data files, in one Spark action.

        Raises:
            RowsRefused: the table or its readers cannot hold a value.
            DeltaUnreachable, UnusableTable: see `open`.
        """
        staged, rows = self._staged(batch)
        if staged is None:
            return Staged(None, 0)
        if self._at_once:
            self._commit([staged], f"batch {batch_id}", {"batch-id": str(batch_id)}, None)
            return Staged(None, rows)
        return Staged(staged.model_dump(mode="json", exclude_defaults=True), rows)

    def _staged(self, batch: DataFrame) -> tuple[StagedBatch | None, int]:
        """Write a batch as data files; return None if it changes nothing, and the number of rows."""
        number = self._number + 1
        target = self._target(self._directories.of_batch(self._life, number))
        names = [name for name in self._columns if name in batch.columns]
        files: list[StagedFile] = []
        changes: list[StagedFile] = []
        left_out: tuple[str, ...] = ()
        if self._options.key:
            batch, left_out = with_left_out(batch, self._label, self._options.key, LEFT_OUT)
            changes = stage_changes(batch, self._columns, target, self._label)
        else:
            files = write_batch(aligned(batch, self._columns), partial(DataFiles, target), DataFiles(target))
        if not files and not changes and not self._replaces:
            return None, 0
        self._number = number
        staged = StagedBatch(
            formatVersion=2 if left_out else 1,
            table=self._table_id,
            sink=self._identity,
            life=str(self._life),
            number=number,
            partitionBy=target.partition_by,
            columns={name: bare(self._columns[name]["type"]) for name in names},
            files=tuple(files),
            changes=tuple(file.path for file in changes),
        )
        return staged, sum(file.rows for file in files + changes)

    def take_journal(self) -> None:
        """Let no other process publish from here on. Raises CommitContended, DeltaUnreachable, UnusableTable."""
        self._write("the journal", lambda table: self._note(table, self._journal.taking(table)))
        self._journal.taken()

    def journal(self) -> Sequence[JournalRecord]:
        """Return the records of batches that no checkpoint covers.

        Raises:
            UnreadableRecord: a record is damaged, or of an unknown form.
            JournalCut: versions of the table that may have records are gone.
            DeltaUnreachable, UnusableTable: see `open`.
        """
        table = self._due_table("the journal", ())
        with self._storage.explaining("has a log that cannot be read"):
            return self._journal.records(table)

    def journal_id(self) -> str | None:
        """Return the table's id, if its log is a journal, or is to be one."""
        if self._opened is None or not (self._publishes_batches or self._journal.is_in(self._opened)):
            return None
        return self._table_id

    def drop_journal(self) -> int:
        """Let no record count any more; return their number, or if they cannot be read the most that there may be.

        Raises OthersPublish, and the errors of `commit`.
        """
        try:
            dropped = len(self.journal())
        except CannotRestore:
            dropped = self._journal.most(self._due_table("the journal", ()))

        def write(table: DeltaTable) -> None:
            self._journal.check_owner(table)
            self._note(table, self._journal.emptying())

        self._write("the journal", write)
        return dropped

    def _note(self, table: DeltaTable, note: Note) -> None:
        """Make a version of the table that has no rows."""
        add(table, (), commit_properties((), note.numbers, {**self._notes(), **note.texts}))

    def measure(self, batch: DataFrame) -> Measured:
        """Compute a batch, in one Spark action; return the number of its rows and their hash."""
        return measure(batch)

    def publish(
        self, batch: DataFrame, record: Callable[[Measured], JournalRecord], *, always: bool = False
    ) -> JournalRecord | None:
        """Write a batch as data files, in one Spark action, and add them and its record to the table in one version.

        Raises:
            OthersPublish: another process publishes for the sink.
            RowsRefused, CommitContended, DeltaUnreachable, UnusableTable: see `commit`.
        """
        batch, measured = observed(batch)
        staged, _ = self._staged(batch)
        if staged is None and not always:
            return None
        made = record(measured())
        batches = [] if staged is None else [staged]
        self._commit(batches, f"batch {made.batch}", {"batch-id": str(made.batch)}, None, self._journal.recording(made))
        return made

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Add the files of the checkpoint's batches to the table, and record this in it, in one commit.

        Raises:
            UnreadableCommittable: a committable does not belong to this sink.
            StagedRowsGone: files neither exist nor are recorded as committed.
            RowsRefused: a change leaves out columns of a row that the table does not have.
            CommitContended: other writers kept changing the table meanwhile.
            DeltaUnreachable, UnusableTable: see `open`.
        """
        if committables:
            published = [batch for each in committables if (batch := published_batch(each)) is not None]
            batches, forgetting = self._staged_in(committables), self._journal.forgetting(published)
            notes = {"checkpoint": str(checkpoint)}
            self._commit(batches, f"checkpoint {checkpoint}", notes, checkpoint, forgetting)

    def rescue(self, checkpoint: CheckpointId, committables: Sequence[JsonValue], target: Path) -> int:
        """Write staged rows to a file, each as one JSON object.

        Raises:
            StagedRowsGone: files neither exist nor are recorded as committed, or are damaged.
            DeltaUnreachable: see `open`.
        """
        what = f"checkpoint {checkpoint}"
        batches = self._staged_in(committables)
        if not batches:
            return 0
        due = self._due(self._due_table(what, batches), batches)
        self._check_presence(what, due)
        self._check_content(what, due)
        with self._storage.explaining("has data files that cannot be read"), target.open("a", encoding="utf-8") as file:
            return sum(write_rows(batch, self._files(), file) for batch in due)

    def abort(self) -> None:
        """Remove uncommitted files of lower epochs.

        Leave those of higher epochs alone: a superseded process that wakes up must not harm its successor.
        """
        table = self._storage.find()
        if table is None:
            return
        with self._storage.explaining("has files that were never published, and they cannot be removed"):
            sweeps = Sweeps(self._files(), self._identity)
            swept = sweeps.done()
            for life in self._directories.lives():
                if life.epoch >= self._context.epoch or str(life) in swept:
                    continue
                left = [
                    file
                    for file in self._directories.files_of(life)
                    if is_change_file(file.location) or not is_committed(table, self._identity, str(life), file.number)
                ]
                # Whoever registers all files of a directory as a new table makes these part of it.
                part = parts_of(table, (file.location for file in left))
                self._directories.remove(life, [file for file in left if file.location not in part])
                sweeps.note(life)

    @property
    def keeps_unavailable(self) -> bool:
        """Whether rows may leave out columns: if they replace others."""
        return bool(self._options.key)

    def target_id(self) -> str:
        """Return the table's id."""
        return NO_TARGET if self._opened is None else self._table_id

    def newest_published(self) -> CheckpointId | None:
        """Return the checkpoint that the table's log, as of `open`, records as the newest one."""
        return None if self._opened is None else newest_checkpoint(self._opened, self._identity)

    def close(self) -> None:
        """Do nothing: deltalake holds no connections."""

    def _read(self, context: SinkContext) -> None:
        """Set the state of an opening, as far as the table is there."""
        self._context = context
        self._options = parse_options(context.options, self._label)
        self._identity = identity_of(context.namespace, context.job, context.uid)
        self._journal = Journal(self._label, self._identity)
        self._life = Life(context.epoch, secrets.token_hex(8))
        self._number = 0
        self._storage = Storage(self._label, context.options)
        self._opened: DeltaTable | None = None
        table = self._storage.find()
        if table is not None:
            self._take(table)

    def _take(self, table: DeltaTable) -> None:
        self._refuse(table)
        self._opened = table
        self._table_id = str(table.metadata().id)
        self._columns: Mapping[str, Mapping[str, Any]] = {
            field["name"]: field for field in json.loads(table.schema().to_json())["fields"]
        }
        self._files: Callable[[], fs.FileSystem] = self._storage.files_of(table)
        root = f"streamjob/{self._identity}"
        self._directories: LifeDirectories = LifeDirectories(self._files(), root, root)

    def _refuse(self, table: DeltaTable) -> None:
        traits = traits_of(table.protocol(), table.metadata(), table.schema().to_json())
        refuse(UnusableTable, f"{self._label}: the table", refusals(traits, replaces=self._options.mode != "append"))

    def _try_to_write(self) -> None:
        with self._storage.explaining("cannot be written"):
            self._directories.try_to_write(self._life)

    def _rows_of(self, schema: StructType) -> StructType:
        rows = without_kind(schema) if self._options.key and CHANGE_TYPE in schema.names else schema
        return without_marks(rows)

    def _check(self, schema: StructType) -> None:
        found: list[Mismatch] = []
        if self._options.key and CHANGE_TYPE in schema.names:
            found += kind_mismatches(schema)
        rows = self._rows_of(schema)
        if self._opened is None:
            columns: Mapping[str, Mapping[str, Any]] = {each.name: each.jsonValue() for each in rows.fields}
            found += untyped(rows)
        else:
            columns = self._columns
        found += mismatches(rows, columns)
        found += key_mismatches(self._options.key, rows.names, columns)
        refuse(UnusableTable, f"{self._label}: the table", found)

    def _target(self, directory: str) -> Target:
        assert self._opened is not None, "the table is made before the first batch"
        return Target(
            self._label,
            self._files,
            pa.schema(self._opened.schema().to_arrow()),
            tuple(self._opened.metadata().partition_columns),
            directory,
            self._options.key,
        )

    def _commit(
        self,
        batches: Sequence[StagedBatch],
        what: str,
        notes: Mapping[str, str],
        checkpoint: CheckpointId | None,
        note: Note = NOTHING,
    ) -> None:
        """Commit until the table's log records that the batches are committed.

        Args:
            batches: the batches; without any, only the notes are committed.
            what: their name in messages.
            notes: describe the commit in the table's history.
            checkpoint: the checkpoint that covers the batches; None if none does.
            note: what the journal is told in the same version.
        """
        # Without a checkpoint, they were written a moment ago.
        checked = checkpoint is None

        def write(table: DeltaTable) -> None:
            nonlocal checked
            due = self._due(table, batches)
            if batches and not due:
                return
            self._journal.check_owner(table)
            self._check_columns(table, what, due)
            self._check_presence(what, due)
            if not checked:
                self._check_content(what, due)
            checked = True
            numbers = {} if checkpoint is None else of_checkpoint(self._identity, checkpoint)
            properties = commit_properties(due, {**numbers, **note.numbers}, {**self._notes(), **notes, **note.texts})
            if self._options.key and due:
                changes = read_changes((batch.changes for batch in due), self._files())
                merge(table, changes, self._options.key, properties, f"{self._label}: table {table.table_uri}")
            else:
                add(table, due, properties, replaces=self._replaces and bool(due))

        self._write(what, write, batches)
        # Files of batches that do not count any more are in no version of the table.
        unused = (batch.paths() for batch in batches[:-1]) if self._replaces else (batch.changes for batch in batches)
        remove_files(chain.from_iterable(unused), self._files())

    def _write(self, what: str, write: Callable[[DeltaTable], None], batches: Sequence[StagedBatch] = ()) -> None:
        """Let `write` make a version of the table, until it has, or finds it made.

        Args:
            what: what is committed, in messages.
            batches: the batches that need the table as it was.
        """

        def attempt(_: int) -> None:
            write(self._due_table(what, batches))

        def noted(error: Exception) -> None:
            if not isinstance(error, CommitFailedError):
                # It may have succeeded, or may succeed later.
                log.warning("%s", self._storage.explained(error, "has a commit whose outcome is unknown").what)

        failure = commit_optimistically(attempt, noted, self._wait)
        if isinstance(failure, CommitFailedError):
            raise CommitContended(
                f"{self._label}: others changed the table each time before {what} was committed",
                "let fewer writers commit at once, or commit less often",
            ) from failure
        if failure is not None:
            raise self._storage.explained(failure, f"cannot be changed: {what} is not committed") from None

    def _due_table(self, what: str, batches: Sequence[StagedBatch]) -> DeltaTable:
        table = self._storage.find()
        if table is None or {batch.table for batch in batches} - {str(table.metadata().id)}:
            gone = "is gone" if table is None else "is another one than it was"
            raise StagedRowsGone(
                f"{self._label}: the table {gone}, and rows of {what} are due there",
                "bring the table back; or give these rows up, and start from that checkpoint (--from) at another "
                "--location",
            )
        return table

    @property
    def _replaces(self) -> bool:
        return self._options.mode == "replace"

    def _due(self, table: DeltaTable, batches: Sequence[StagedBatch]) -> list[StagedBatch]:
        counting = that_count(batches, self._options.mode)
        return [batch for batch in counting if not is_committed(table, self._identity, batch.life, batch.number)]

    def _check_columns(self, table: DeltaTable, what: str, due: Sequence[StagedBatch]) -> None:
        """Refuse a table that has changed so that the files do not fit any more."""
        self._refuse(table)
        kinds = {field["name"]: bare(field["type"]) for field in json.loads(table.schema().to_json())["fields"]}
        partition_by = tuple(table.metadata().partition_columns)
        for batch in due:
            changed = sorted(name for name, kind in batch.columns.items() if kinds.get(name) != kind)
            if batch.partitionBy != partition_by:
                changed.append("its partitions")
            if changed:
                raise UnusableTable(
                    f"{self._label}: the table has changed since rows of {what} were staged: {', '.join(changed)}",
                    "restore the table to the version before (RESTORE), and change it again once the job has committed",
                )

    def _check_presence(self, what: str, due: Sequence[StagedBatch]) -> None:
        """Refuse missing files; files written by this opening are not checked."""
        for batch in due:
            if batch.life == str(self._life):
                continue
            with self._storage.explaining("has data files that cannot be looked at"):
                found = self._files().get_file_info(list(batch.paths()))
            for path in (each.path for each in found if each.type != fs.FileType.File):
                self._rows_gone(what, path)

    def _check_content(self, what: str, due: Sequence[StagedBatch]) -> None:
        """Refuse damaged files."""
        staged = [(path, recorded_sha256(path)) for batch in due for path in batch.paths()]
        with self._storage.explaining("has data files that cannot be looked at"):
            for path, how in changed(staged, partial(sha256_at, self._files())):
                self._rows_gone(what, f"{path}, {how}")

    def _rows_gone(self, what: str, where: str) -> NoReturn:
        raise StagedRowsGone(
            f"{self._label}: rows of {what} are neither part of the table nor in {where}",
            "bring the table's files back to where they were when the checkpoint completed; or give these rows up, and "
            "start from that checkpoint (--from) at another --location",
        )

    def _notes(self) -> dict[str, str]:
        context = self._context
        return {
            "namespace": context.namespace,
            "job": context.job,
            "sink": context.uid,
            "epoch": str(context.epoch),
        }

    def _staged_in(self, committables: Sequence[JsonValue]) -> list[StagedBatch]:
        return [self._parsed(each) for each in committables if published_batch(each) is None]

    def _parsed(self, committable: JsonValue) -> StagedBatch:
        batch = read_committable(StagedBatch, committable, self._label)
        if batch.sink != self._identity or life_of(batch.life) is None:
            raise UnreadableCommittable(f"{self._label}: a committable is not this sink's")
        return batch
