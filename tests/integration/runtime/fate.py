"""A job on servers that crash: processes are killed, and servers stop and return meanwhile."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import Any

from tests.integration.runtime.processes import POLL, WITHIN, JobProcess, JobRuns
from tests.servers.process import ServerProcess

from streamjob.snapshot.manifest import SourceState


class Fate:
    """Lets a life go on for a while, and kills it.

    Args:
        chance: draws the moments.
        runs: the job's processes.
    """

    def __init__(self, chance: random.Random, runs: JobRuns) -> None:
        self._chance = chance
        self._runs = runs

    def take(self, process: JobProcess, victims: Iterable[ServerProcess]) -> bool:
        """Let servers crash and come back while a life goes on, then kill it; return False if it ended before."""
        if not self._goes_on(process):
            return False
        for victim in victims:
            self._pause()
            victim.kill()
            self._pause()
            victim.start()
            # The process goes on by itself.
            if not self._goes_on(process):
                return False
        self._pause()
        process.kill()
        return True

    def _goes_on(self, process: JobProcess) -> bool:
        """Wait until a checkpoint covers more records; return False if the job comes to its end instead."""
        before, deadline = self._records_read(), time.monotonic() + WITHIN
        while self._records_read() <= before:
            if process.exit_code is not None:
                assert process.exit_code == 0, f"ended with {process.exit_code}:\n{process.output()}"
                return False
            assert time.monotonic() < deadline, f"no progress within {WITHIN} s:\n{process.output()}"
            time.sleep(POLL)
        return True

    def _records_read(self) -> int:
        """Return how many records of the topics any retained checkpoint covers."""
        manifests = filter(None, map(self._runs.manifest, self._runs.completions()))
        return max((sum(map(_offsets, manifest.sources)) for manifest in manifests), default=0)

    def _pause(self) -> None:
        # Any moment of what goes on.
        time.sleep(self._chance.uniform(0, 0.7))


def _offsets(source: SourceState) -> int:
    position: Any = source.position or {}
    return sum(sum(offsets.values()) for offsets in position.values())
