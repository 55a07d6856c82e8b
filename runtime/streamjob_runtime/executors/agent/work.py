"""An executor's files: brought when its Java needs them, held and uploaded when the driver says so."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from streamjob.ids import BatchId, Key
from streamjob.protocol.placement import StateStore
from streamjob.snapshot.manifest import FileRef
from streamjob.store.opening import References, open_location
from streamjob_runtime.checkpointing.segment_holds import with_segments
from streamjob_runtime.checkpointing.upload.packing import FileIdentity
from streamjob_runtime.checkpointing.upload.uploader import Progress, Uploader, held_files
from streamjob_runtime.executors.agent.client import DriverClient
from streamjob_runtime.executors.agent.disk import ExecutorDisk
from streamjob_runtime.executors.agent.segment_work import SegmentWork
from streamjob_runtime.executors.messages import (
    Adoption,
    Allocate,
    Allocated,
    Command,
    DropSegments,
    HasFiles,
    HeldCheckpoint,
    Holdings,
    HoldStores,
    KeepSegments,
    Known,
    KnownFiles,
    Nothing,
    ShareSegment,
    Store,
    Stored,
)
from streamjob_runtime.spark.checkpoint_dir.hold import Hold, hold_stores, release

_ADOPT_SECONDS = 120.0

log = logging.getLogger("streamjob")


class ExecutorWork:
    """Does what the driver and an executor's Java ask for.

    Args:
        executor: the executor's number in Spark.
        root: the directory with the files of `job:/…` paths.
        home: the URI of the job's root in its store.
    """

    def __init__(self, executor: str, client: DriverClient, root: Path, home: str) -> None:
        self._executor = executor
        self._client = client
        self._disk = ExecutorDisk(root)
        self._segments = SegmentWork(executor, client, self._disk, home, self._references)
        self._commands: dict[str, tuple[type[BaseModel], Callable[[Any], BaseModel | None]]] = {
            "hold": (HoldStores, self._hold),
            "retain": (HeldCheckpoint, lambda held: self._disk.retain(held.epoch, held.checkpoint)),
            "release": (HeldCheckpoint, lambda held: release(self._disk.hold(held.epoch, held.checkpoint))),
            "holdings": (Nothing, lambda _: Holdings(partitions=holdings(self._disk))),
            "has": (HasFiles, self._segments.has),
            "keep": (KeepSegments, self._segments.keep),
            "share": (ShareSegment, self._segments.share),
            "drop": (DropSegments, self._segments.drop),
        }
        self._home = home
        self._lock = threading.Lock()
        self._stores: dict[str, References] = {}
        self._uploader: Uploader | None = None

    def answer(self, verb: str, path: str) -> None:
        """Do what Java asks for.

        Args:
            verb: `adopt` a state store, `begin` to write segments of a stream, or `bring` a segment to read it.
            path: of the store, the stream, or the segment, as a path of `job:/…`.
        """
        match verb:
            case "adopt":
                self._adopt(path)
            case "begin":
                self._disk.begin(int(path.split("/")[1]))
            case "bring":
                self._segments.bring(path)
            case _:
                raise ValueError(f"{verb} is not known")

    def perform(self, command: Command) -> dict[str, Any]:
        """Do what the driver asks for, and return the answer."""
        if command.kind not in self._commands:
            raise ValueError(f"{command.kind} is not known")
        message, do = self._commands[command.kind]
        done = do(message.model_validate(command.body))
        return {} if done is None else done.model_dump(mode="json")

    def close(self) -> None:
        """Release what it has opened."""
        with self._lock:
            if self._uploader is not None:
                self._uploader.close()
            for references in self._stores.values():
                references.close()

    def _adopt(self, directory: str) -> None:
        """Bring the files of a state store here, as the driver says which they are."""
        opened = StateStore.at(directory)
        self._disk.begin(opened.epoch)
        store = Store(executor=self._executor, directory=directory)
        adoption = self._client.ask("adopt", store, Adoption, seconds=_ADOPT_SECONDS)
        if adoption.files:
            self._bring(adoption, self._disk.checkpoint(opened.epoch, opened.chain))
        self._client.ask("adopted", store, Nothing)

    def _bring(self, adoption: Adoption, target: Path) -> None:
        candidates = [hold / adoption.chain for hold in self._disk.holds()]
        brought = self._disk.bring(adoption.files, self._references(adoption.home).find, target, candidates)
        log.info(
            "%s: %d files, %d bytes of them downloaded",
            os.path.commonpath([ref.path for ref in adoption.files]),
            brought.files,
            brought.downloaded_bytes,
        )

    def _hold(self, asked: HoldStores) -> Stored:
        directory = self._disk.hold(asked.epoch, asked.checkpoint) / asked.chain
        checkpoint = self._disk.checkpoint(asked.epoch, asked.chain)
        state = hold_stores(checkpoint, BatchId(asked.batch), asked.stores, directory) if asked.stores else None
        held = with_segments(state, asked.segments, directory)

        def key_of(sha256: str) -> Key:
            question = Allocate(executor=self._executor, transfer=asked.transfer, sha256=sha256)
            return Key(self._client.ask("allocate", question, Allocated).key)

        progress = Progress()
        with self._uploading(asked.store) as uploader:
            files = uploader.upload(held, self._known(asked.transfer, held), key_of, progress)
        return Stored(files=files, statistics=progress.statistics())

    def _known(self, transfer: str, held: Hold) -> dict[FileIdentity, FileRef]:
        identities = tuple(dict.fromkeys(file.identity for file in held_files(held)))
        question = Known(executor=self._executor, transfer=transfer, identities=identities)
        known = self._client.ask("known", question, KnownFiles)
        return {identities[number]: ref for number, ref in known.files.items()}

    def _references(self, home: str) -> References:
        with self._lock:
            if home not in self._stores:
                self._stores[home] = References(open_location(home).store())
            return self._stores[home]

    @contextmanager
    def _uploading(self, uri: str) -> Iterator[Uploader]:
        """Yield what uploads to a store: the job's own stays open, that of a savepoint does not."""
        if uri == self._home:
            with self._lock:
                if self._uploader is None:
                    self._uploader = Uploader(open_location(uri).store())
            yield self._uploader
            return
        with closing(open_location(uri).store()) as store, closing(Uploader(store)) as uploader:
            yield uploader


def holdings(disk: ExecutorDisk) -> dict[str, tuple[int, ...]]:
    """Return the partitions of which an executor holds files, by chain."""
    found: dict[str, set[int]] = {}
    for hold in disk.holds():
        for chain in hold.iterdir():
            for partition in chain.glob("state/*/*"):
                if partition.name.isdigit():
                    found.setdefault(chain.name, set()).add(int(partition.name))
    return {chain: tuple(sorted(partitions)) for chain, partitions in found.items()}
