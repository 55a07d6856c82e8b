"""An executor's files of state: brought when its Java opens a store, held and uploaded when the driver says so."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from streamjob.ids import BatchId, Key
from streamjob.protocol.placement import StateStore
from streamjob.snapshot.manifest import FileRef
from streamjob.store.opening import References, open_location
from streamjob_runtime.checkpointing.upload.packing import Identity
from streamjob_runtime.checkpointing.upload.uploader import Progress, Uploader, held_files
from streamjob_runtime.executors.client import DriverClient
from streamjob_runtime.executors.messages import (
    Adoption,
    Allocate,
    Allocated,
    Command,
    HeldCheckpoint,
    Holdings,
    HoldStores,
    Known,
    KnownFiles,
    Nothing,
    Store,
    Stored,
)
from streamjob_runtime.restoring.download import download
from streamjob_runtime.spark.checkpoint_dir.files import StoreVersion
from streamjob_runtime.spark.checkpoint_dir.hold import Hold, hold_stores, release

HOLDS = "holds"
_BRINGING = "bringing"
_ADOPT_SECONDS = 120.0

log = logging.getLogger("streamjob")


class ExecutorWork:
    """Does what the driver and an executor's Java ask for.

    Args:
        executor: the executor's number in Spark.
        client: asks the driver.
        root: the directory with the files of `job:/…` paths.
        home: the URI of the job's root in its store.
    """

    def __init__(self, executor: str, client: DriverClient, root: Path, home: str) -> None:
        self._executor = executor
        self._client = client
        self._root = root
        self._home = home
        self._lock = threading.Lock()
        self._begun: set[int] = set()
        self._stores: dict[str, References] = {}
        self._uploader: Uploader | None = None
        shutil.rmtree(root / _BRINGING, ignore_errors=True)

    def answer(self, verb: str, path: str) -> None:
        """Do what Java asks for.

        Args:
            verb: `adopt`.
            path: the directory of a state store, as a path of `job:/…`.
        """
        if verb != "adopt":
            raise ValueError(f"{verb} is not known")
        self._adopt(path)

    def perform(self, command: Command) -> dict[str, Any]:
        """Do what the driver asks for, and return the answer."""
        match command.kind:
            case "hold":
                return self._hold(HoldStores.model_validate(command.body)).model_dump(mode="json")
            case "retain":
                self._retain(HeldCheckpoint.model_validate(command.body))
                return {}
            case "release":
                held = HeldCheckpoint.model_validate(command.body)
                release(self._root / str(held.epoch) / HOLDS / str(held.checkpoint))
                return {}
            case "holdings":
                return Holdings(partitions=holdings(self._root)).model_dump(mode="json")
            case _:
                raise ValueError(f"{command.kind} is not known")

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
        self._begin(opened.epoch)
        store = Store(executor=self._executor, directory=directory)
        adoption = self._client.ask("adopt", store, Adoption, seconds=_ADOPT_SECONDS)
        if adoption.files:
            self._bring(adoption, self._root / str(opened.epoch) / opened.chain / "checkpoint")
        self._client.ask("adopted", store, Nothing)

    def _begin(self, epoch: int) -> None:
        """Begin an epoch in an empty directory: another log of the job may have had an epoch with this number."""
        with self._lock:
            if epoch not in self._begun:
                shutil.rmtree(self._root / str(epoch), ignore_errors=True)
                self._begun.add(epoch)

    def _bring(self, adoption: Adoption, target: Path) -> None:
        candidates = [hold / adoption.chain for hold in _holds(self._root)]
        # Beside at first, and moved in whole: a hold that runs meanwhile must not see half a file.
        beside = self._root / _BRINGING / uuid.uuid4().hex
        try:
            brought = download(adoption.files, self._references(adoption.home).find, beside, candidates)
            for path in dict.fromkeys(ref.path for ref in adoption.files):
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (beside / path).replace(target / path)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        log.info(
            "%s: %d files, %d bytes of them downloaded",
            os.path.commonpath([ref.path for ref in adoption.files]),
            brought.files,
            brought.downloaded_bytes,
        )

    def _hold(self, asked: HoldStores) -> Stored:
        directory = self._root / str(asked.epoch) / HOLDS / str(asked.checkpoint) / asked.chain
        checkpoint = self._root / str(asked.epoch) / asked.chain / "checkpoint"
        stores = [StoreVersion(path, ids) for path, ids in asked.stores]
        held = hold_stores(checkpoint, BatchId(asked.batch), stores, directory)

        def key_of(sha256: str) -> Key:
            question = Allocate(executor=self._executor, transfer=asked.transfer, sha256=sha256)
            return Key(self._client.ask("allocate", question, Allocated).key)

        progress = Progress()
        with self._uploading(asked.store) as uploader:
            files = uploader.upload(held, self._known(asked.transfer, held), key_of, progress)
        return Stored(files=files, statistics=asdict(progress.statistics()))

    def _known(self, transfer: str, held: Hold) -> dict[Identity, FileRef]:
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

    def _retain(self, completed: HeldCheckpoint) -> None:
        for hold in _holds(self._root):
            if (int(hold.parts[-3]), int(hold.name)) < (completed.epoch, completed.checkpoint):
                release(hold)
        for epoch in _numbered(self._root):
            if int(epoch.name) < completed.epoch:
                shutil.rmtree(epoch, ignore_errors=True)


def holdings(root: Path) -> dict[str, tuple[int, ...]]:
    """Return the partitions of which a directory has held files, by chain.

    Args:
        root: the directory with the files of `job:/…` paths.
    """
    found: dict[str, set[int]] = {}
    for hold in _holds(root):
        for chain in hold.iterdir():
            for partition in chain.glob("state/*/*"):
                if partition.name.isdigit():
                    found.setdefault(chain.name, set()).add(int(partition.name))
    return {chain: tuple(sorted(partitions)) for chain, partitions in found.items()}


def _holds(root: Path) -> list[Path]:
    """Return the directories of held checkpoints, newest first."""
    found = [hold for epoch in _numbered(root) for hold in _numbered(epoch / HOLDS)]
    return sorted(found, key=lambda hold: (int(hold.parts[-3]), int(hold.name)), reverse=True)


def _numbered(directory: Path) -> Iterator[Path]:
    if directory.is_dir():
        yield from (each for each in directory.iterdir() if each.name.isdigit())
