"""Waits for executors' answers: of all of them, or as long as a checkpoint wants them."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from typing import Any

from streamjob_runtime.checkpointing.upload.uploader import Progress, UploadCancelled
from streamjob_runtime.executors.driver.fleet import Fleet

_LOOK_SECONDS = 0.2

log = logging.getLogger("streamjob")


def ask_all(fleet: Fleet, kind: str, body: Mapping[str, Any], seconds: float) -> dict[str, dict[str, Any]]:
    """Give a command to the agents of all live executors; return the answers of those that give one in time."""
    asked = [(each.id, fleet.tell(each.id, kind, body)) for each in fleet.live()]
    deadline = time.monotonic() + seconds
    answers = {}
    for executor, answer in asked:
        try:
            answers[executor] = answer.result(max(0.0, deadline - time.monotonic()))
        except Exception as error:
            log.warning("Executor %s does not answer %r: %s", executor, kind, error or type(error).__name__)
    return answers


def result_of(answer: Future[dict[str, Any]], progress: Progress) -> dict[str, Any]:
    """Wait for the answer to a command that a checkpoint needs.

    Raises:
        UploadCancelled: the checkpoint was aborted.
        CommandFailed: the agent could not do it.
        ExecutorLost: the executor is lost.
    """
    while True:
        try:
            return answer.result(_LOOK_SECONDS)
        except NotInTime:
            if progress.cancelled:
                raise UploadCancelled("The checkpoint was aborted while executors uploaded their files") from None
