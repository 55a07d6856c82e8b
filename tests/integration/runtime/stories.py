"""The lives of one job on one store, each ended in some way: the basis of tests of endings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from tests.integration.runtime.embedded import EmbeddedJob, Life, finish, running
from tests.integration.runtime.graphs import manifests
from tests.integration.runtime.power import Moment, Power
from tests.integration.runtime.shapes import Gates

from streamjob.errors import ExitCode
from streamjob.ids import TriggerId
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.restarts import NEVER as NEVER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Way(StrEnum):
    """How a job is ended."""

    END = "end of input"
    STOP = "stop"
    SAVEPOINT = "stop behind a savepoint"
    KILL = "kill"
    DRAIN = "drain"


class Story:
    """One job, life after life.

    Args:
        spark: the session.
        life: the job; it takes no periodic checkpoints.
        gates: before its last rows.
        power: what kills it.
        endless: whether some of its input does not end.
        finished: chains whose input ends before the gates.
        is_done: whether all its rows are published that come without an end; asked of endless jobs only.
    """

    def __init__(
        self,
        spark: SparkSession,
        life: Life,
        gates: Gates,
        power: Power,
        *,
        endless: bool = False,
        finished: Iterable[str] = (),
        is_done: Callable[[], bool] = lambda: True,
    ) -> None:
        self._spark = spark
        self._life = replace(life, restarts=NEVER)
        self._gates = gates
        self._power = power
        self._endless = endless
        self._finished = frozenset(finished)
        self._is_done = is_done

    @contextlib.contextmanager
    def living(self) -> Iterator[EmbeddedJob]:
        """Run the job once."""
        self._power.comes_back()
        with running(self._spark, self._life) as job:
            try:
                yield job
            finally:
                # A process that is held back could not be stopped.
                self._gates.open()

    def end_at_the_gates(self, way: Way, moment: Moment | None) -> None:
        """End the job while its last rows are held back; the power goes at the moment, if one is given."""
        with self.living() as job:
            job.wait_for(lambda: job.state is JobState.RUNNING, "all chains")
            job.checkpoint()
            job.wait_for(self._gates.reached, "the gates")
            job.wait_for(lambda: finished_chains(job) >= self._finished, "what ends before the gates")
            if moment is not None:
                self._power.goes(moment, job, self._gates.open)
            match way:
                case Way.STOP | Way.SAVEPOINT:
                    self._stop(job, savepoint=way is Way.SAVEPOINT)
                case Way.KILL if moment is None:
                    self._power.cut(job, self._gates.open)
                case Way.KILL:
                    job.control.trigger_checkpoint(TriggerId("last"))
                case _:
                    raise ValueError(way)
            if moment is None and way is not Way.KILL:
                wait_while_running(job, lambda: job.completed >= 2, "the last snapshot")
                self._gates.open()
                assert job.wait() is ExitCode.OK
                assert job.state is JobState.STOPPED
            else:
                self._is_killed(job)

    def go_on_to_the_end(self, moment: Moment | None = None) -> None:
        """Let all rows through, and the job come to its end, or die at the moment, if one is given."""
        self._gates.open()
        with self.living() as job:
            if moment is not None:
                self._power.goes(moment, job, self._gates.open)
            if self._endless:
                job.wait_for(lambda: job.state is JobState.RUNNING, "all chains")
                while not self._is_done():
                    job.checkpoint()
                self._stop(job, savepoint=False)
            if moment is not None:
                self._is_killed(job)
                return
            assert job.wait() is ExitCode.OK
            assert job.state is (JobState.STOPPED if self._endless else JobState.FINISHED)

    def drain(self, rows: int, moment: Moment | None = None) -> None:
        """Let all rows through, and drain the job when its sources have read them; it may die at the moment."""
        self._gates.open()
        with self.living() as job:
            job.wait_for(lambda: job.state is JobState.RUNNING, "all chains")
            if job.control.job().restored_from is None:
                job.wait_for(lambda: records_read(job) >= rows, "all rows")
                job.checkpoint()
            if moment is not None:
                self._power.goes(moment, job, self._gates.open)
            job.control.stop(savepoint=True, location=None, drain=True, trigger_id=TriggerId("drain"))
            if moment is not None:
                self._is_killed(job)
                return
            assert job.wait() is ExitCode.OK
            assert job.state is JobState.STOPPED

    def rest(self) -> None:
        """Start the job, which has nothing left to do but to publish, and stop it."""
        with self.living() as job:
            job.wait_for(lambda: job.state is JobState.RUNNING, "all chains")
            assert job.stop() is ExitCode.OK

    def _stop(self, job: EmbeddedJob, *, savepoint: bool) -> None:
        job.control.stop(savepoint=savepoint, location=None, drain=False, trigger_id=TriggerId("stop"))

    def _is_killed(self, job: EmbeddedJob) -> None:
        job.wait()
        assert self._power.is_off, f"the job ended as {job.state} with its power on"


def wait_while_running(job: EmbeddedJob, condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds or the job has ended."""
    job.wait_for(lambda: condition() or not job.running, what)


def finished_chains(job: EmbeddedJob) -> frozenset[str]:
    """Return the chains of a job that have come to their end."""
    return frozenset(chain.uid for chain in job.control.job().chains if chain.finished)


def records_read(job: EmbeddedJob) -> int:
    """Return how many rows a job has read from its sources in this life."""
    job.control.observe()
    return job.control.job().records_in


def killed_behind_a_checkpoint(spark: SparkSession, life: Life, power: Power) -> None:
    """Cut the power of a job right after a checkpoint of its first batches; the power comes back."""
    with running(spark, life) as job:
        job.wait_for_batches()
        job.checkpoint()
        power.cut(job, lambda: None)
        job.wait()
    power.comes_back()


def killed_and_finished(spark: SparkSession, life: Life, power: Power) -> None:
    """Cut the power of a job after a checkpoint and a further batch, and run it to its end."""
    with running(spark, replace(life, restarts=NEVER)) as first:
        first.wait_for_batches(2)
        first.checkpoint()
        first.wait_for_batches()
        power.cut(first, lambda: None)
        first.wait()
    assert manifests(Path(life.location) / "default" / "job")
    power.comes_back()
    finish(spark, life)
