"""A life of a job under test: from its start, through the steps of its test, to its end or to a kill."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as PoolTimeout
from operator import ge
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.clock import steady_clock
from streamjob.errors import ExitCode
from streamjob.ids import Attempt, ChainUid, TriggerId
from streamjob.job.loading.load import LoadedJob
from streamjob.job.planning.plan import plan
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.triggers import TriggerState
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.restarts import NEVER
from streamjob.store.opening import open_location
from streamjob_runtime.chain.chain import Chain
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.control.background import BackgroundJob
from streamjob_runtime.job.epoch import Job as RunnableJob
from streamjob_runtime.job.runner import RunOptions
from streamjob_runtime.spark.job_files import JobFiles
from streamjob_runtime.testing.errors import JobUnderTestFailed, NotWithin
from streamjob_runtime.testing.feeds import Feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_SECONDS = 0.005


class Life:
    """A job from its start to its end or to its death.

    Args:
        files: gives the directories of the job the names by which Spark knows them.
        within: the longest time that a step may take, in seconds.
    """

    def __init__(
        self, loaded: LoadedJob, spark: SparkSession, files: JobFiles, workdir: Path, location: str, within: float
    ) -> None:
        # Python workers import the job's modules from its directory, as they do behind `streamjob run`.
        paths = [str(loaded.directory), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        spark.sparkContext.environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))

        def session(partitions: int) -> SparkSession:
            spark.conf.set("spark.sql.shuffle.partitions", partitions)
            return spark

        name = loaded.spec.name
        self._store = open_location(location).job("default", name).store()
        job = RunnableJob(
            loaded=loaded,
            plan=plan(loaded.spec),
            namespace="default",
            name=name,
            workdir=workdir,
            files=files,
            clock=steady_clock(),
            spark=session,
        )
        options = RunOptions(RestoreFrom(), Attempt(0), NEVER)
        self._name = name
        self._within = within
        self._requests = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"test-{name}")
        self._job = BackgroundJob(job, self._store, options)
        self._runner, self._control = self._job.runner, self._job.control

    @property
    def chains(self) -> Mapping[ChainUid, Chain]:
        """The running chains."""
        epoch = self._runner.epoch
        return epoch.chains if epoch is not None else {}

    def settle(self) -> None:
        """Wait until the job has processed everything that it can read."""
        coordination = self._runner.coordination
        self.wait_for(lambda: coordination.lifecycle.state is JobState.RUNNING, "the job to run")
        deadline = time.monotonic() + self._within
        while True:
            self._wait_for_files()
            before = self._positions()
            for chain in self.chains.values():
                query = chain.queries[-1]
                waiting = self._pool.submit(query.processAllAvailable)
                try:
                    waiting.result(max(0.0, deadline - time.monotonic()))
                except PoolTimeout:
                    raise self._late("the job to process its rows") from None
                except Exception:
                    # Its query has failed, or has been stopped by the failure of another one.
                    self._job.join(self._within)
                    self._check_running()
                    raise
            self._check_running()
            if self._positions() == before:
                return

    @contextlib.contextmanager
    def between_batches(self, fed: Mapping[str, object], feeds: Mapping[str, Feed]) -> Iterator[None]:
        """Prevent a batch of a chain from seeing only some of its sources' new rows.

        Spark asks the sources of a query one after the other. So a batch without rows begins first, and waits until all
        rows are there.

        Args:
            fed: the sources that get rows in this context, by name.
        """
        shared = []
        for planned in self._runner.job.plan.chains:
            names = [source.name for source in planned.sources if source.name in fed]
            if len(names) > 1:
                shared.append((self.chains[planned.uid], names[0]))
        if not shared:
            yield
            return
        epoch = self._runner.epoch
        assert epoch is not None
        assert epoch.emission is not None
        with epoch.emission.lock:
            for chain, name in shared:
                begun = chain.checkpoint / "offsets" / str(chain.last_emitted + 1)
                feeds[name].add(())
                self.wait_for(begun.exists, "a batch to begin")
            yield
            self._wait_for_files()

    def _wait_for_files(self) -> None:
        """Wait until the sources have found the files that are there: the second check from now begins after it."""
        before = {uid: [each + 2 for each in chain.discoveries.checks] for uid, chain in self.chains.items()}

        def found() -> bool:
            return all(all(map(ge, self.chains[uid].discoveries.checks, wanted)) for uid, wanted in before.items())

        self.wait_for(found, "the job to find its rows")

    def checkpoint(self) -> None:
        """Take a checkpoint."""
        self._requests += 1
        trigger = TriggerId(f"test-{self._requests}")
        self._control.trigger_checkpoint(trigger)

        def done() -> bool:
            view = self._control.trigger(trigger)
            if view is None or view.state is not TriggerState.FAILED:
                return view is not None and view.state is TriggerState.COMPLETED
            raise JobUnderTestFailed(f"job {self._name!r} could not take a checkpoint: {view.failure}")

        self.wait_for(done, "a checkpoint")

    def reload(self, table: str) -> None:
        """Show the present rows of a table to the batches that begin from now on."""
        epoch = self._runner.epoch
        assert epoch is not None
        assert epoch.tables is not None
        epoch.tables.reload(table)

    def drain(self) -> None:
        """End its input, and wait for its end."""
        self._control.stop(savepoint=False, location=None, drain=True, trigger_id=TriggerId("test-finish"))
        self._end("the job to finish")

    def stop(self) -> None:
        """Stop it with a checkpoint."""
        self._control.stop(savepoint=False, location=None, drain=False, trigger_id=TriggerId("test-stop"))
        self._end("the job to stop")

    def kill(self) -> None:
        """End it at once."""
        chain = self._runner.job.plan.chains[0].uid
        self._runner.coordination.post(
            m.ChainStateChanged(
                now=self._runner.job.clock(), chain=chain, status=m.ChainStatus.FAILED, message="killed by its test"
            )
        )
        self._job.join(self._within)
        self._close()

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition holds. Raises JobUnderTestFailed, NotWithin."""
        deadline = time.monotonic() + self._within
        while not condition():
            self._check_running()
            if time.monotonic() > deadline:
                raise self._late(what)
            time.sleep(_LOOK_SECONDS)

    def _end(self, what: str) -> None:
        if not self._job.join(self._within):
            raise self._late(what)
        self._close()
        if self._job.error is not None:
            raise self._job.error
        if self._job.code is not ExitCode.OK:
            raise self._failed()

    def _close(self) -> None:
        self._pool.shutdown(wait=False)
        self._store.close()

    def _late(self, what: str) -> NotWithin:
        state = self._runner.coordination.lifecycle.state
        return NotWithin(f"job {self._name!r}: waited {self._within:g} s for {what}; it is {state}")

    def _check_running(self) -> None:
        if self._job.is_alive:
            return
        if self._job.error is not None:
            raise self._job.error
        raise self._failed()

    def _failed(self) -> JobUnderTestFailed:
        return JobUnderTestFailed(f"job {self._name!r} failed: {self._runner.coordination.status().failure}")

    def _positions(self) -> list[int]:
        return [chain.last_emitted for chain in self.chains.values()]
