"""An executor's segments of channels: brought when its Java reads them, kept for checkpoints, and deleted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from streamjob.ids import ChainUid, Key
from streamjob.protocol.segment_places import SegmentFile
from streamjob.snapshot.manifest import FileRef
from streamjob.store.hashing import file_sha256
from streamjob.store.opening import References
from streamjob_runtime.chain.channels.in_flight import segment_folder
from streamjob_runtime.checkpointing.segment_holds import keep_segments
from streamjob_runtime.executors.agent.client import DriverClient
from streamjob_runtime.executors.agent.disk import ExecutorDisk
from streamjob_runtime.executors.messages import (
    Allocated,
    DropSegments,
    HasFiles,
    KeepSegments,
    Lend,
    SegmentAsked,
    SegmentSource,
    ShareSegment,
)

_BRING_SECONDS = 120.0


class SegmentWork:
    """Does what the driver and an executor's Java ask for.

    Args:
        executor: the executor's number in Spark.
        home: the URI of the job's root in its store.
        references: returns the stores of a snapshot, by the URI of its own.
    """

    def __init__(
        self,
        executor: str,
        client: DriverClient,
        disk: ExecutorDisk,
        home: str,
        references: Callable[[str], References],
    ) -> None:
        self._home = home
        self._executor = executor
        self._client = client
        self._disk = disk
        self._references = references

    def bring(self, path: str) -> None:
        """Bring a segment that an executor is to read and does not have, given as a path of `job:/…`."""
        segment = SegmentFile.at(path)
        self._disk.begin(segment.epoch)
        question = SegmentAsked(executor=self._executor, path=path)
        source = self._client.ask("segment", question, SegmentSource, seconds=_BRING_SECONDS)
        held = [
            hold / holder / segment_folder(segment.producer) for hold in self._disk.holds() for holder in source.holders
        ]
        file = source.file.model_copy(update={"path": segment.name})
        target = self._disk.segments(segment.epoch, segment.producer)
        self._disk.bring([file], self._references(source.home).find, target, held)

    def share(self, asked: ShareSegment) -> FileRef:
        """Put a segment into the store, where another executor finds it."""
        segment = SegmentFile.at(asked.path)
        file = self._disk.segments(segment.epoch, segment.producer) / segment.name
        sha256 = file_sha256(file)
        key = Key(self._client.ask("lend", Lend(executor=self._executor, sha256=sha256), Allocated).key)
        store, own = self._references(self._home).find(key)
        store.put(own, file)
        return FileRef(path=segment.name, object=key, length=file.stat().st_size, sha256=sha256)

    def keep(self, asked: KeepSegments) -> None:
        """Hold segments in flight of a cut; bring those that nobody has read yet."""
        directory_of = partial(self._disk.segments, asked.epoch)
        for producer, names in asked.segments.items():
            for name in names:
                if not (directory_of(producer) / name).exists():
                    self.bring(f"/{asked.epoch}/{producer}/stream/{name}")
        keep_segments(asked.segments, directory_of, self._disk.hold(asked.epoch, asked.checkpoint) / asked.chain)

    def drop(self, asked: DropSegments) -> None:
        """Delete segments that nobody needs any more."""
        for producer, names in asked.segments.items():
            for name in names:
                (self._disk.segments(asked.epoch, producer) / name).unlink(missing_ok=True)

    def has(self, asked: HasFiles) -> HasFiles:
        """Return which files of snapshots are held here."""
        holds = self._disk.holds()

        def held(chain: ChainUid, path: str) -> bool:
            return any((hold / chain / path).exists() for hold in holds)

        return HasFiles(
            files={chain: tuple(path for path in paths if held(chain, path)) for chain, paths in asked.files.items()}
        )
