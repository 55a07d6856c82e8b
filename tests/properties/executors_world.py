"""A job without Spark, whose state and channel are on executors that are killed at any of their steps.

Driver and executors are the product's own, with their files on real disks; only the requests between them are calls.
Spark is replaced by batches that write a version of each state store where it has been placed.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import uuid
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from tests.properties.executor_channels import ChannelOnMachines
from tests.properties.incremental import JOB, NO_SINKS, manifest_of
from tests.unit.runtime.test_spark_checkpoint_files import changelog

from streamjob.ids import Attempt, BatchId, ChainUid, CheckpointId, Owner
from streamjob.protocol.log.ownership import Identity
from streamjob.snapshot.manifest import ChainState
from streamjob.store.opening import open_location
from streamjob_runtime.chain.channels.in_flight import is_segment
from streamjob_runtime.checkpointing.ledger import Ledger, RestoreFrom
from streamjob_runtime.checkpointing.upload.uploader import Progress, Target, Uploader
from streamjob_runtime.executors.agent.work import ExecutorWork
from streamjob_runtime.executors.driver.fleet import ExecutorLost, Fleet, UnknownExecutor
from streamjob_runtime.executors.driver.lost_and_joined import BetweenEpochs, EpochOnExecutors
from streamjob_runtime.executors.driver.segments import SegmentsOnExecutors
from streamjob_runtime.executors.driver.state import RestoredState, StateOnExecutors
from streamjob_runtime.executors.messages import LEAVE, Registration, Welcome
from streamjob_runtime.spark.checkpoint_dir.files import StoreVersion
from streamjob_runtime.spark.checkpoint_dir.lineage import store_files

CHAIN = ChainUid("counts")
PARTITIONS = 4
EXECUTORS = 3
STORES = ("", "/left")
"""Each partition has two state stores."""
NUM_RETAINED = 2
OFFER = Registration(address="here", cores=1, build={})
INVITATION = Welcome(executor="", driver_url="", application="", java_options=(), store="")

Version = tuple[int, str]
Result = TypeVar("Result")


class Killed(Exception):
    """An executor is gone, in the middle of what it did."""


class EpochOver(Exception):
    """The driver ends the epoch."""


class Machine:
    """An executor, its agent and its disk.

    Args:
        world: the world.
        name: its name.
        disk: its disk, which may outlive it.
    """

    def __init__(self, world: World, name: str, disk: Path) -> None:
        self._world = world
        self.name, self.disk = name, disk
        self.instance = uuid.uuid4().hex
        self.number = world.fleet.register(name, self.instance, OFFER).executor
        world.fleet.registered_in_spark(self.number, "here")
        self.work = ExecutorWork(self.number, self, disk, world.home)  # type: ignore[arg-type]
        self._opened: set[str] = set()
        self.steps_left: int | None = None
        self.released = False

    def step(self) -> None:
        """Do something at which it may be killed."""
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise Killed(self.name)

    def ask(self, path: str, message: Any, kind: Any, seconds: float = 0.0) -> Any:
        """Ask the driver; it may be killed before the driver hears it, and before it hears the answer."""
        self.step()
        answer = self._world.state.handlers()[path](self.name, self.instance, message.model_dump_json().encode())
        self.step()
        return kind.model_validate_json(answer.model_dump_json())

    def run_commands(self) -> None:
        """Do what the driver has asked for."""
        fleet = self._world.fleet
        for command in asyncio.run(fleet.poll(self.number, self.instance, registered=False)).commands:
            if command.kind == LEAVE:
                self.released = True
                continue
            try:
                error, body = None, self.work.perform(command)
            except Killed:
                raise
            except Exception as failed:
                error, body = str(failed), {}
            self.step()
            fleet.done(self.number, self.instance, command.id, error, body)

    def run_task(self, epoch: int, store: str, before: Version | None, version: int) -> Version:
        """Open a state store, check what is in it, and write its next version."""
        checkpoint = self.disk / str(epoch) / CHAIN / "checkpoint"
        if store not in self._opened:
            self.work.answer("adopt", f"/{epoch}/{CHAIN}/checkpoint/{store}")
            self._opened.add(store)
        if before is not None:
            for file in store_files(checkpoint / store, *before):
                assert (checkpoint / store / file).read_bytes() == self._world.written[f"{store}/{file}"]
        self.step()
        now = (version, uuid.uuid4().hex)
        self._write(checkpoint, store, before, now)
        self.step()
        return now

    def write_segment(self, epoch: int, producer: str, name: str, content: bytes) -> bool:
        """Write a segment of a channel."""
        directory = f"/{epoch}/{producer}/stream"
        if directory not in self._opened:
            self.work.answer("begin", directory)
            self._opened.add(directory)
        self.step()
        file = self.disk / str(epoch) / producer / "stream" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        self.step()
        return True

    def read_segment(self, epoch: int, producer: str, name: str, expected: bytes) -> bool:
        """Read a segment of a channel, and check what is in it."""
        file = self.disk / str(epoch) / producer / "stream" / name
        if not file.exists():
            self.work.answer("bring", f"/{epoch}/{producer}/stream/{name}")
        self.step()
        assert file.read_bytes() == expected
        return True

    def _write(self, checkpoint: Path, store: str, before: Version | None, now: Version) -> None:
        lineage = [now, *([] if before is None else self._lineage(checkpoint / store, before))]
        items = [{"version": version, "checkpointUniqueId": unique} for version, unique in lineage]
        self._create(checkpoint, f"{store}/{now[0]}_{now[1]}.changelog", changelog(json.dumps(items).encode()))
        if self._world.random.random() < 0.4:
            sst = f"{uuid.uuid4().hex}.sst"
            self._create(checkpoint, f"{store}/SSTs/{sst}", uuid.uuid4().bytes * self._world.random.choice([1, 20000]))
            listing = {"sstFiles": [{"dfsSstFileName": sst}], "logFiles": []}
            file = checkpoint / store / f"{now[0]}_{now[1]}.zip"
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("metadata", f"v1\n{json.dumps(listing)}")
            self._world.written[f"{store}/{file.name}"] = file.read_bytes()

    def _lineage(self, folder: Path, before: Version) -> list[Version]:
        names = [file for file in store_files(folder, *before) if file.endswith(".changelog")]
        stems = [file.removesuffix(".changelog").split("_") for file in names]
        return [(int(version), unique) for version, unique in stems] or [before]

    def _create(self, checkpoint: Path, path: str, content: bytes) -> None:
        file = checkpoint / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        self._world.written[path] = content


class World:
    """The job, from driver to driver.

    Args:
        directory: holds the snapshots and the disks.
        random: decides everything that the test does not.
    """

    def __init__(self, directory: Path, random: Random) -> None:
        self.random = random
        self.written: dict[str, bytes] = {}
        self._directory = directory
        self._store = open_location(str(directory / "snapshots")).store()
        self._uploader = Uploader(self._store, threads=1)
        self.home = self._store.uri
        self.machines: dict[str, Machine] = {}
        self.completed: dict[str, Version] = {}
        self.restarts: list[str] = []
        """Why the running epoch is to end behind a checkpoint."""
        self.channel = ChannelOnMachines(self, CHAIN)
        self._drivers = 0
        self.epochs = 0
        self.start_driver()

    def start_driver(self) -> None:
        """Start a driver in place of one that is gone; executors register with it."""
        self._drivers += 1
        self._identity = Identity(job=JOB, owner=Owner(f"driver-{self._drivers}"), attempt=Attempt(0))
        self.fleet = Fleet(EXECUTORS, {}, lambda: 0.0)
        self.fleet.open(INVITATION)
        self.state = StateOnExecutors(self.fleet, SegmentsOnExecutors(self.fleet, self.home, lambda: 0.0))
        self._again = False
        for machine in self.machines.values():
            machine.work.close()
        self.machines = {}
        self.begin()

    def join(self, name: str) -> None:
        """Let an executor come, whose disk may have files of its former life."""
        disk = self._directory / name
        if self.random.random() < 0.3:
            shutil.rmtree(disk, ignore_errors=True)
        self.machines[name] = Machine(self, name, disk)

    def begin(self, *, replace: bool = True) -> None:
        """Begin an epoch from the last completed checkpoint, on the executors that are there and on new ones."""
        self.epochs += 1
        for number in range(EXECUTORS):
            if replace and f"executor-{number}" not in self.machines:
                self.join(f"executor-{number}")
        self._ledger = Ledger.claim(self._store, self._identity, lambda: 1.0, NUM_RETAINED, again=self._again)
        self._again = True
        resolution = self._ledger.resolve(RestoreFrom())
        self._ledger.recover(NO_SINKS, {}, fork=False)
        self.id = self._ledger.log.last_id
        for machine in self.machines.values():
            machine._opened.clear()
        restored = {}
        if resolution.manifest is not None:
            (chain,) = resolution.manifest.chains
            restored = {CHAIN: RestoredState(CHAIN, self._ledger.home(resolution), chain.files)}
        in_flight = self.channel.restored(resolution.manifest)
        home = self._ledger.home(resolution)
        self._answering(lambda: self.state.segments.begin(self._ledger.epoch, home, in_flight, self._ledger.log.lend))
        self._answering(lambda: self.state.begin(self._ledger.epoch, restored))
        self.restarts = []
        self.fleet.listen(
            EpochOnExecutors(self.fleet, self.state, lambda chain, why: None, self.restarts.append, 3600.0)
        )
        self.now = dict(self.completed)
        self.batch = max((version for version, _ in self.now.values()), default=0) - 1

    @property
    def epoch(self) -> int:
        """The number of the epoch."""
        return self._ledger.epoch

    def run_batch(self) -> None:
        """Run a batch of each chain where its files are. Raises EpochOver if an executor with files is lost."""
        self.channel.write()
        self.channel.read(self.random.randint(0, 2))
        placed = self.state.choose(CHAIN, {0: PARTITIONS})[0]
        done: dict[str, Version] = {}
        for partition in self.random.sample(range(PARTITIONS), PARTITIONS):
            machine = self._machine(placed[partition].name, placed[partition].id)
            for suffix in STORES:
                store = f"state/0/{partition}{suffix}"
                before = self.now.get(store)
                version = self.on(machine, machine.run_task, self.epoch, store, before, self.batch + 2)
                if version is not None:
                    done[store] = version
        self.now.update(done)
        self.batch += 1

    def checkpoint(self) -> None:
        """Take a checkpoint of the last batch. Raises EpochOver if an executor with state is lost."""
        self.id = CheckpointId(self.id + 1)
        self._ledger.log.begin(self.id)
        known = self._ledger.log.reusable_files(self.id, CHAIN)
        target = Target(self._uploader, known, partial(self._ledger.log.allocate, self.id))
        # Spark's log has the ids of a partition without the names of their stores.
        ids = {
            partition: tuple(self.now[f"state/0/{partition}{suffix}"][1] for suffix in STORES)
            for partition in range(PARTITIONS)
        }
        stores = [StoreVersion(f"state/0/{p}{suffix}", ids[p]) for p in range(PARTITIONS) for suffix in STORES]
        try:
            cut, kept = self.channel.keep(self.id)
            # Its reader goes on, and forgets what is held.
            self.channel.read(1)
            wait = self.state.store(self.id, CHAIN, BatchId(self.batch), stores, kept, target, Progress())
            self.run_commands()
            files = wait()
        except ExecutorLost:
            self._ledger.log.aborted(self.id)
            self.state.abort(self.id)
            raise EpochOver from None
        state = tuple(file for file in files if not is_segment(file.path))
        chain = ChainState(uid=CHAIN, operators=(), batch=BatchId(self.batch), files=state)
        channels = self.channel.states(cut, files)
        self._ledger.complete(manifest_of(self._ledger, self.id, chain).model_copy(update={"channels": channels}))
        self.completed = dict(self.now)
        self._ledger.log.claim.committed(self.id)
        self._ledger.collect()
        self.state.complete(self.id)
        self.run_commands()

    def on(self, machine: Machine, task: Callable[..., Result], *arguments: Any) -> Result | None:
        """Run a task on an executor; return None if it was killed. Raises EpochOver if it had files."""
        try:
            return task(*arguments)
        except (Killed, UnknownExecutor):
            if self.machines.get(machine.name) is machine:
                self.lose(machine.name)
            return None

    def ends_epoch(self, call: Callable[..., Result], *arguments: Any) -> Result:
        """Make a call of the driver. Raises EpochOver if it misses an executor."""
        try:
            return call(*arguments)
        except ExecutorLost:
            raise EpochOver from None

    def restart(self) -> None:
        """End the epoch behind a checkpoint, and begin the next one without the executors that are to end.

        Raises EpochOver if an executor with state is lost before.
        """
        self.checkpoint()
        self.fleet.listen(BetweenEpochs(self.fleet))
        self.fleet.release_all()
        self.run_commands()
        for name in [name for name, machine in self.machines.items() if machine.released]:
            self.fleet.lose(self.machines[name].number, "told to end")
            self.machines.pop(name).work.close()
        self.begin(replace=False)

    def lose(self, name: str) -> None:
        """Lose an executor. Raises EpochOver if it has state, as the driver decides."""
        machine = self.machines.pop(name)
        needed = self.state.lost_with(machine.number)
        self.fleet.lose(machine.number, "killed")
        machine.work.close()
        if needed:
            raise EpochOver

    def close(self) -> None:
        """Release everything."""
        for machine in self.machines.values():
            machine.work.close()
        self._uploader.close()

    def run_commands(self) -> None:
        """Let the executors do what the driver has asked for. Raises EpochOver if one with files is killed."""
        lost = []
        for machine in list(self.machines.values()):
            try:
                machine.run_commands()
            except Killed:
                lost.append(machine.name)
        over = False
        for name in lost:
            try:
                self.lose(name)
            except EpochOver:
                over = True
        if over:
            raise EpochOver

    def _answering(self, call: Any) -> Any:
        """Make a call of the driver that waits for answers of the executors."""
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(call)
            while not waiting.done():
                for machine in list(self.machines.values()):
                    steps, machine.steps_left = machine.steps_left, None
                    machine.run_commands()
                    machine.steps_left = steps
            return waiting.result()

    def _machine(self, name: str, number: str) -> Machine:
        machine = self.machines.get(name)
        if machine is None or machine.number != number:
            raise EpochOver
        return machine
