"""The exactly-once file sink: batches are staged next to the visible files, and committed by renaming."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal, NoReturn
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, JsonValue

from streamjob.errors import StreamJobError, refuse
from streamjob.ids import BatchId, CheckpointId
from streamjob.job.connectors.options import without
from streamjob.sink import SinkContext, Staged
from streamjob.stored.sparks_output import SINK_LOG
from streamjob_runtime.sinks.committables import read_committable, read_record
from streamjob_runtime.sinks.errors import PlaceOfQuery, StagedRowsGone, UnreadableCommittable, UnusableSink
from streamjob_runtime.sinks.files.commit_records import CommitRecords
from streamjob_runtime.sinks.files.empty_part_files import holds_no_row, is_candidate
from streamjob_runtime.sinks.files.file_systems import LocalPlace, Move, PlacedFile, place_full
from streamjob_runtime.sinks.files.newest_files import NewestFiles
from streamjob_runtime.sinks.files.owners import Owner, owner_record, read_owner
from streamjob_runtime.sinks.rows.counting import counted
from streamjob_runtime.sinks.rows.readable_rows import readable_rows, unwritable
from streamjob_runtime.sinks.rows.staged_hashes import changed
from streamjob_runtime.spark.text.text_forms import writer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

OWN = "_streamjob"
OWNER = f"{OWN}/owner.json"
COMMITTED = f"{OWN}/committed"
STAGED = f"{OWN}/staged"
PUBLISHED = f"{OWN}/published"

_WRITER_OPTIONS = {
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Version 2 would save 2 ms per batch, but can leave a failed attempt's files among those of the next.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
}
# From this version of `owner.json` on, a sink records its commits at its place.
_WITH_RECORDS: Literal[2] = 2
# One day of lists, with a checkpoint every ten seconds; for readers that process whole checkpoints. The job itself
# needs none.
_LISTS_KEPT = 10_000
_NO_SPACE = ("No space left on device", "Disk quota exceeded")


class _StagedFile(BaseModel):
    model_config = ConfigDict(frozen=True)

    path: str
    size: int
    sha256: str | None = None
    """Of its content, in hexadecimal; None in what older versions staged."""


class _PublishedFile(BaseModel):
    path: str


class _Published(BaseModel):
    """The list of a checkpoint's files."""

    formatVersion: Literal[1] = 1  # noqa: N815 - as it is stored
    files: tuple[_PublishedFile, ...]


class _StagedBatch(BaseModel):
    """The committable: a staged directory, relative to the sink's path, and the data files below it."""

    model_config = ConfigDict(frozen=True)

    formatVersion: Literal[1] = 1  # noqa: N815 - as it is stored
    directory: str
    id: str
    files: tuple[_StagedFile, ...]


class FileSink:
    """Writes each batch as files that become visible when the checkpoint that covers the batch has completed.

    Args:
        file_format: Spark's name of the format, such as parquet.
        place: the place for the files.
        partition_by: columns that become directories.
    """

    def __init__(self, file_format: str, place: LocalPlace, partition_by: Sequence[str] = ()) -> None:
        self._format = file_format
        self._place = place
        self._partition_by = tuple(partition_by)
        self._context: SinkContext | None = None
        self._records = CommitRecords(place, COMMITTED)
        self._lists = NewestFiles(place, PUBLISHED, _LISTS_KEPT)
        self._older = False

    @property
    def label(self) -> str:
        """The sink's name in messages: its path."""
        return self._place.label

    def staged(self) -> tuple[str, ...]:
        """Return the directories of staged batches, relative to the place.

        Raises:
            OSError: the place cannot be read.
        """
        epochs = (f"{STAGED}/{name}" for name in self._place.directories(STAGED))
        return tuple(f"{epoch}/{name}" for epoch in epochs for name in self._place.directories(epoch))

    def open(self, context: SinkContext) -> None:
        """Check the place and claim it for this job's sink.

        Raises:
            PlaceTaken: another job or sink writes there.
            PlaceOfQuery: a plain query has written there.
            UnusablePlace: it is not a directory, or not writable.
            PlaceFull: no space is left.
        """
        self._check_place(context)
        self._place.prepare()
        self._take(context)
        self._context = context

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Check the place without changing it. Raises the errors of `open`."""
        self._check_place(context)
        self._place.check()
        if schema is not None:
            self.check_schema(schema)

    def verify(
        self, context: SinkContext, checkpoint: CheckpointId, committables: Sequence[JsonValue]
    ) -> Iterator[StreamJobError]:
        """Yield an error for each problem of the owner, the records of commits, and the staged files."""
        try:
            older = self._is_older(self._check_owner(context))
            if batches := [self._parsed(committable) for committable in committables]:
                self._begun(checkpoint, batches, _moves(checkpoint, batches), older=older)
        except StreamJobError as error:
            yield error
        yield from self._records.problems()

    def rehearse(self, context: SinkContext, rows: DataFrame) -> None:
        """Check the place, and write rows as for a batch, but into a directory of this process.

        Raises the errors of `open` and `stage`.
        """
        self.preview(context, rows.schema)
        elsewhere = FileSink(self._format, LocalPlace(context.staging.scratch / "files"), self._partition_by)
        elsewhere.open(context)
        elsewhere.stage(rows, BatchId(0))

    def check_schema(self, schema: StructType) -> None:
        """Check that the rows have the partition columns, and that the format holds the others.

        Raises:
            UnusableSink: a partition column is missing, or readers of the format would not find a column as it was.
        """
        missing = [each for each in self._partition_by if each.lower() not in map(str.lower, schema.names)]
        if missing:
            raise UnusableSink(
                f"sink path {self._place.label}: the rows have no column {missing[0]!r} to partition by",
                f"name columns of theirs: {', '.join(schema.names)}",
            )
        refuse(UnusableSink, f"sink path {self._place.label}:", unwritable(self._format, schema.fields))

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Write the batch below `_streamjob/staged/<epoch>/`, in one Spark action.

        Raises:
            PlaceFull: no space is left.
        """
        identity = str(uuid4())
        directory = f"{STAGED}/{self._opened.epoch}/{batch_id}-{identity}"
        rows = self._write(batch, directory)
        files = [file for file in self._place.secure(directory) if not self._is_empty(file)]
        if not files:
            self._place.discard(directory)
            return Staged(None, 0)
        staged = _StagedBatch(
            directory=directory,
            id=identity,
            files=tuple(
                _StagedFile(path=file.name.removeprefix(directory + "/"), size=file.size, sha256=file.sha256)
                for file in files
            ),
        )
        return Staged(staged.model_dump(mode="json"), rows)

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Make the files of the checkpoint's batches visible, and list them in `published/<checkpoint>.json`.

        Raises:
            UnreadableCommittable: a committable does not belong to this sink.
            UnreadableRecord: the record of the commit is damaged.
            StagedRowsGone: a file is neither staged nor committed, or is damaged; nothing is committed then.
            PlaceFull: no space is left.
        """
        batches = [self._parsed(committable) for committable in committables]
        if not batches:
            return
        staged = _moves(checkpoint, batches)
        there = any(self._place.exists(batch.directory) for batch in batches)
        if not self._begun(checkpoint, batches, staged, older=self._older):
            self._older = False
            self._records.add(checkpoint, [batch.id for batch in batches])
        # Remove directories last: if one is missing, its files are visible and listed, or a consumer has taken them.
        if not there:
            return
        self._place.move([move for move, _ in staged])
        listed = [{"path": move.visible, "size": file.size} for move, file in staged]
        content = {"formatVersion": 1, "checkpoint": checkpoint, "files": listed}
        self._lists.write(f"{checkpoint}.json", json.dumps(content, indent=1).encode())
        for batch in batches:
            self._place.discard(batch.directory)

    def newest_published(self) -> CheckpointId | None:
        """Return the checkpoint of the newest record of a commit. Raises UnreadableRecord."""
        return self._records.newest()

    def abort(self) -> None:
        """Discard batches that lower epochs staged.

        Leave those of higher epochs alone: a superseded process that wakes up must not harm its successor.
        """
        for name in self._place.directories(STAGED):
            if name.isdecimal() and int(name) < self._opened.epoch:
                self._place.discard(f"{STAGED}/{name}")

    def close(self) -> None:
        """Do nothing: the place still belongs to this sink."""
        self._context = None

    @property
    def _opened(self) -> SinkContext:
        if self._context is None:
            raise RuntimeError(f"the file sink of {self._place.label} is not open")
        return self._context

    def _check_place(self, context: SinkContext) -> None:
        self._check_owner(context)
        if self._place.exists(SINK_LOG):
            raise PlaceOfQuery.at(f"sink {context.uid}", self._place.label)

    def _take(self, context: SinkContext) -> None:
        if self._place.create(OWNER, owner_record(context, _WITH_RECORDS)):
            return
        self._older = self._is_older(self._check_owner(context))

    def _is_older(self, owner: Owner | None) -> bool:
        """Return whether an older version wrote last: it recorded no commits, so missing files count as committed."""
        return owner is not None and owner.formatVersion < _WITH_RECORDS and not self._place.exists(COMMITTED)

    def _check_owner(self, context: SinkContext) -> Owner | None:
        stored = self._place.read(OWNER)
        return None if stored is None else read_owner(stored, context, name=OWNER, place=self._place.label)

    def _begun(
        self,
        checkpoint: CheckpointId,
        batches: Sequence[_StagedBatch],
        staged: Sequence[tuple[Move, _StagedFile]],
        *,
        older: bool,
    ) -> bool:
        """Return whether the commit of a checkpoint is recorded; raise the errors of `commit` if it is not possible."""
        self._check_content(checkpoint, staged)
        # In this order: a commit, which may be another process's, records that it has begun before it moves a file.
        lacking = any(self._place.size(move.staged) is None for move, _ in staged)
        begun = self._records.covers(checkpoint, [batch.id for batch in batches])
        if lacking and not begun and not older:
            self._check_presence(checkpoint, staged)
        return begun

    def _check_content(self, checkpoint: CheckpointId, staged: Sequence[tuple[Move, _StagedFile]]) -> None:
        """Refuse to commit a checkpoint with a damaged file, also if its commit has begun before."""
        for move, file in staged:
            if self._place.size(move.staged) not in (None, file.size):
                self._refuse(checkpoint, f"{move.staged}, which has another size than it was staged with")
        for name, how in changed([(move.staged, file.sha256) for move, file in staged], self._place.sha256):
            self._refuse(checkpoint, f"{name}, {how}")

    def _check_presence(self, checkpoint: CheckpointId, staged: Sequence[tuple[Move, _StagedFile]]) -> None:
        """Refuse to commit a checkpoint with a lost file."""
        listed: frozenset[str] | None = None
        for move, _ in staged:
            if self._place.size(move.staged) is not None:
                continue
            listed = self._listed(checkpoint) if listed is None else listed
            if move.visible not in listed and not self._place.exists(move.visible):
                self._refuse(checkpoint, move.staged)

    def _refuse(self, checkpoint: CheckpointId, where: str) -> NoReturn:
        raise StagedRowsGone(
            f"sink path {self._place.label}: rows of checkpoint {checkpoint} are neither published nor whole in "
            f"{where}",
            "bring that file back; or give these rows up, and start from that checkpoint (--from) at another "
            "--location",
        )

    def _listed(self, checkpoint: CheckpointId) -> frozenset[str]:
        """Return the files listed as committed with a checkpoint."""
        name = f"{PUBLISHED}/{checkpoint}.json"
        if (stored := self._place.read(name)) is None:
            return frozenset()
        fix = "restore it from a backup; or delete it if all files of the checkpoint are still there"
        published = read_record(_Published, stored, name=name, sink=f"sink path {self._place.label}", fix=fix)
        return frozenset(file.path for file in published.files)

    def _write(self, batch: DataFrame, directory: str) -> int | None:
        given = without(self._opened.options, "path")
        who = f"sink path {self._place.label}"
        batch = readable_rows(batch, who, self._format, options=given, partition_by=self._partition_by)
        batch, rows = counted(batch)
        writer = batch.write.format(self._format).options(**writer_options(self._format, given))
        for key, value in {**_WRITER_OPTIONS, **self._place.writer_options(batch.sparkSession)}.items():
            writer = writer.option(key, value)
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        try:
            writer.save(self._place.uri(directory))
        except Exception as error:
            if any(words in str(error) for words in _NO_SPACE):
                self._place.discard(directory)
                raise place_full(self._place.label) from error
            raise
        return rows()

    def _is_empty(self, file: PlacedFile) -> bool:
        if not is_candidate(file):
            return False
        return holds_no_row(file.name, self._place.read(file.name) or b"", self._opened.options)

    def _parsed(self, committable: JsonValue) -> _StagedBatch:
        batch = read_committable(_StagedBatch, committable, f"sink path {self._place.label}")
        names = [batch.directory, *(file.path for file in batch.files)]
        outside = any(".." in PurePosixPath(name).parts or name.startswith("/") for name in names)
        if outside or "/" in batch.id:
            raise UnreadableCommittable(f"sink path {self._place.label}: a committable names files outside of the path")
        return batch


def _moves(checkpoint: CheckpointId, batches: Sequence[_StagedBatch]) -> list[tuple[Move, _StagedFile]]:
    """Return where each staged file of a checkpoint's batches becomes visible."""
    files = [(batch, file) for batch in batches for file in batch.files]
    return [
        (Move(f"{batch.directory}/{file.path}", _visible_name(checkpoint, number, batch.id, file.path)), file)
        for number, (batch, file) in enumerate(files)
    ]


def _visible_name(checkpoint: CheckpointId, number: int, identity: str, staged: str) -> str:
    """Return the visible name of a file: the same partition directory and suffixes."""
    path = PurePosixPath(staged)
    # Spark adds the number of a partition directory's file after a dot; it is not a suffix.
    suffixes = "".join(suffix for suffix in path.suffixes if not re.fullmatch(r"\.c\d+", suffix))
    return (path.parent / f"part-{checkpoint}-{number}-{identity}{suffixes}").as_posix()
