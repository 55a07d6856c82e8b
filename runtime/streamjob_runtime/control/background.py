"""Runs a job on a thread of this process."""

from __future__ import annotations

import threading

from streamjob.errors import ExitCode
from streamjob.store.base import Store
from streamjob_runtime.control.running_job import RunningJob
from streamjob_runtime.job.epoch import Job
from streamjob_runtime.job.runner import Runner, RunOptions


class BackgroundJob:
    """A job from its start to its end; it runs from the beginning.

    Args:
        store: the store at the job's root.

    `code` is its exit code, and `error` the exception that ended it; both are None until then.
    """

    def __init__(self, job: Job, store: Store, options: RunOptions) -> None:
        self.runner = Runner(job, store, options)
        self.control = RunningJob(self.runner)
        self.code: ExitCode | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"job-{job.name}", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def join(self, seconds: float | None) -> bool:
        """Wait for its end; return whether it has ended.

        Args:
            seconds: the longest time to wait; None for any time.
        """
        self._thread.join(seconds)
        return not self.is_alive

    def _run(self) -> None:
        try:
            self.code = self.runner.run()
        except BaseException as error:
            self.error = error
