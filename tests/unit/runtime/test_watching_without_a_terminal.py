"""A job whose terminal has gone away."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any, cast

from streamjob_runtime.process.watching import Watcher


class HungUp:
    def __init__(self) -> None:
        self.updates = 0

    def update(self, *_: Any) -> None:
        self.updates += 1
        raise OSError(errno.EIO, "Input/output error")

    def close(self) -> None:
        raise OSError(errno.EIO, "Input/output error")


def test_the_end_of_the_job_is_not_hidden_by_a_terminal_that_is_gone() -> None:
    control = SimpleNamespace(
        observe=lambda metrics: None, job=lambda: None, checkpoints=lambda: None, record=lambda *_: None
    )
    view = HungUp()
    watcher = Watcher(cast("Any", control), cast("Any", view), cast("Any", None))
    watcher.start()

    watcher.stop()

    assert view.updates == 1
