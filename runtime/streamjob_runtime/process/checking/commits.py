"""Commits the newest completion of a job that does not run, and gives up what a sink cannot commit."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from streamjob.errors import CannotRestore, InvalidInput, StreamJobError
from streamjob.ids import Attempt, CheckpointId, OperatorUid, Owner
from streamjob.job.loading.load import LoadedJob
from streamjob.protocol.log.ownership import Identity
from streamjob.protocol.log.records import JOBS_OWN, JobId, read
from streamjob.sink import Rescues, Sink
from streamjob.snapshot.manifest import ChannelEntry, FileRef, Manifest, SinkState
from streamjob.store.base import Store
from streamjob.store.effects import drive
from streamjob.store.files import sync_directory
from streamjob.store.staging import StoreStaging
from streamjob_runtime.chain.emissions.outputs import commit_transaction, transactions
from streamjob_runtime.checkpointing.ledger import Ledger, RestoreFrom
from streamjob_runtime.process.checking.asking import spark_to_ask
from streamjob_runtime.sinks.factory import SinkSurroundings, build_sink_from_graph

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_File = TypeVar("_File", bound=FileRef)

_ALL = 1 << 30
"""Retains all checkpoints: the job itself deletes them."""


class CannotGiveUp(InvalidInput):
    """There is nothing to give up, or the sink cannot write its rows to a file; nothing was changed."""


class OthersFail(CannotRestore):
    """Another sink fails as well, so nothing was given up."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a sink's output of the newest completion; `failure` is None if it is published."""

    sink: OperatorUid
    checkpoint: CheckpointId
    batches: int
    failure: StreamJobError | None


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A commit that was given up: its rows are in a file, and the log names checkpoint `successor`."""

    outcome: Outcome
    rows: int
    successor: CheckpointId


class Commits:
    """The output of a job's newest completion, whose log this process has claimed. Created by `opened_commits`.

    Args:
        sinks: its sinks with something to commit, opened.
        unopened: those that cannot be opened.
    """

    def __init__(
        self,
        ledger: Ledger,
        newest: Manifest,
        sinks: Sequence[tuple[SinkState, Sink]],
        unopened: Sequence[Outcome] = (),
    ) -> None:
        self._ledger = ledger
        self._newest = newest
        self._sinks = tuple(sinks)
        self._unopened = tuple(unopened)

    def retry(self) -> list[Outcome]:
        """Commit all output that can be committed, as a start would, and return what became of each sink's."""
        return [*self._commit(self._sinks), *self._unopened]

    def give_up(self, uid: OperatorUid, target: Path) -> GivenUp:
        """Write a sink's rows to a file, and complete a checkpoint after which they are no longer due.

        First all sinks commit as at a start, then the others without this one, then this one alone: only rows that
        nothing can publish are given up. Until the log names the new checkpoint, nothing is given up: repeat the call.

        Args:
            target: a file for JSON lines that passes `check_rows_file`.

        Raises:
            CannotGiveUp: the sink has nothing to commit, or cannot write to a file.
            OthersFail: another sink cannot commit.
            StagedRowsGone: rows are neither committed nor staged.
            StreamJobError: the sink cannot be opened.
        """
        for each in self._unopened:
            if each.sink == uid and each.failure is not None:
                raise each.failure
        mine = [each for each in self._sinks if each[0].uid == uid]
        rescuing = [sink for _, sink in mine if isinstance(sink, Rescues)]
        if not rescuing:
            checkpoint = self._newest.id
            problem = "writes no such file" if mine else f"has nothing to commit in checkpoint {checkpoint}"
            raise CannotGiveUp(f"sink {uid} {problem}", "`streamjob commits --fence` shows which sinks fail")
        outcome = self._failing(uid, mine)
        with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}-") as rescued:
            rows = rescuing[0].rescue(self._newest.id, mine[0][0].committables, Path(rescued.name))
            # The rows are durable before the log no longer needs them.
            os.fsync(rescued.fileno())
            target.hardlink_to(rescued.name)
            sync_directory(target.parent)
        return GivenUp(outcome, rows, self._complete(outcome, rows, target))

    def _failing(self, uid: OperatorUid, mine: Sequence[tuple[SinkState, Sink]]) -> Outcome:
        """Publish all that can be published, with a sink and without it; return its failure. Raises as `give_up`."""
        failing = {each.sink for each in self.retry() if each.failure is not None}
        if uid in failing:
            others = [each for each in self._sinks if each[0].uid in failing - {uid}]
            for other in (*self._commit(others), *self._unopened):
                if other.failure is not None:
                    raise OthersFail(f"sink {other.sink} fails, too: {other.failure.what}", other.failure.fix)
            (outcome,) = self._commit(mine)
            if outcome.failure is not None:
                return outcome
        raise CannotGiveUp(f"sink {uid} has published its rows of checkpoint {self._newest.id}: nothing is to be done")

    def _commit(self, sinks: Sequence[tuple[SinkState, Sink]]) -> list[Outcome]:
        found = []
        for together in transactions(sinks):
            failure: StreamJobError | None = None
            try:
                commit_transaction(self._newest.id, together)
            except StreamJobError as error:
                failure = error
            found += [Outcome(state.uid, self._newest.id, len(state.committables), failure) for state, _ in together]
        return found

    def _complete(self, outcome: Outcome, rows: int, target: Path) -> CheckpointId:
        """Complete a checkpoint with the same state and no output."""
        ledger, newest, now = self._ledger, self._newest, time.time()
        ledger.log.claim.committed(newest.id)
        number = CheckpointId(ledger.log.last_id + 1)
        ledger.log.begin(number)

        def kept(file: _File) -> _File:
            """Return the file's location, which the new checkpoint keeps from deletion."""
            found = ledger.log.reuse(number, file)
            if found is None:
                raise CannotGiveUp(f"{file.object} is not the job's own", "start the job under a new name with --from")
            return file.model_copy(update={"object": found.object, "offset": found.offset})

        def in_flight(entry: ChannelEntry) -> ChannelEntry:
            return entry.model_copy(update={"segments": tuple(map(kept, entry.segments))})

        chains = [each.model_copy(update={"files": tuple(map(kept, each.files))}) for each in newest.chains]
        channels = [
            each.model_copy(update={"entries": tuple(map(in_flight, each.entries))}) for each in newest.channels
        ]
        assert outcome.failure is not None
        note: dict[str, Any] = {
            "sink": outcome.sink,
            "checkpoint": outcome.checkpoint,
            "rows": rows,
            "file": str(target.resolve()),
            "reason": outcome.failure.what,
        }
        manifest = newest.model_copy(
            update={
                "id": number,
                "epoch": ledger.epoch,
                "triggered": now,
                "completed": now,
                "graph": {**newest.graph, "givenUp": [*newest.graph.get("givenUp", []), note]},
                "chains": tuple(chains),
                "channels": tuple(channels),
                "sinks": tuple(each.model_copy(update={"committables": ()}) for each in newest.sinks),
            }
        )
        ledger.complete(manifest)
        ledger.log.claim.committed(number)
        return number


def check_rows_file(target: Path) -> None:
    """Check that rows can be written to a new file. Raises CannotGiveUp."""
    if target.exists():
        raise CannotGiveUp(f"{target} exists", "name a new file")
    if not (target.parent.is_dir() and os.access(target.parent, os.W_OK | os.X_OK)):
        raise CannotGiveUp(f"{target.parent} is not a directory that may be written", "name a file in another one")


@contextmanager
def opened_commits(loaded: LoadedJob, store: Store, job: JobId) -> Iterator[Commits]:
    """Claim a job's log, and yield the output of its newest completion; a process that runs the job is superseded.

    Args:
        store: the store at the job's root.

    Raises:
        CannotGiveUp: the job has completed nothing, or its newest completion is a savepoint.
        CannotRestore: the newest completion cannot be read.
    """
    view = drive(store, read(job))
    if view.newest is None or view.newest.kind not in JOBS_OWN:
        what = "has completed nothing" if view.newest is None else "has completed a savepoint last"
        raise CannotGiveUp(f"job {job} {what} at {store.uri}", "start the job: it commits what is due")
    identity = Identity(job=job, owner=Owner(uuid.uuid4().hex), attempt=view.attempt or Attempt(0))
    ledger = Ledger.claim(store, identity, time.time, _ALL)
    newest = ledger.resolve(RestoreFrom()).manifest
    assert newest is not None
    described = {each["uid"]: each for each in newest.graph.get("sinks", [])}
    due = [state for state in newest.sinks if state.committables and state.uid in described]
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory(prefix="streamjob-commits-")))

        @cache
        def spark() -> SparkSession:
            partitions = newest.graph.get("maxParallelism", loaded.spec.max_parallelism)
            return stack.enter_context(spark_to_ask("commits", loaded, partitions))[0]

        surroundings = SinkSurroundings(
            job.name,
            job.namespace,
            ledger.epoch,
            loaded.directory,
            staging=lambda sink: StoreStaging(store, sink, ledger.epoch, scratch / sink),
            spark=spark,
        )
        sinks: list[tuple[SinkState, Sink]] = []
        unopened: list[Outcome] = []
        for state in due:
            try:
                sink = build_sink_from_graph(described[state.uid], surroundings)
            except StreamJobError as error:
                unopened.append(Outcome(state.uid, newest.id, len(state.committables), error))
                continue
            stack.callback(sink.close)
            sinks.append((state, sink))
        yield Commits(ledger, newest, sinks, unopened)
