"""Keeps a process waiting until a request starts it."""

from __future__ import annotations

import threading
from typing import Literal


class StartGate:
    """Whether a process has been told to start, and whether it is prepared for that. Thread-safe.

    Args:
        is_open: True for a process that starts by itself.
    """

    def __init__(self, *, is_open: bool = True) -> None:
        self._opened = threading.Event()
        self._is_prepared = False
        if is_open:
            self._opened.set()

    @property
    def is_open(self) -> bool:
        """Whether the process has been told to start."""
        return self._opened.is_set()

    @property
    def waiting(self) -> Literal["preparing", "prepared"] | None:
        """How far the preparation is; None once the process was told to start."""
        if self.is_open:
            return None
        return "prepared" if self._is_prepared else "preparing"

    def prepared(self) -> None:
        """Note that the process is prepared."""
        self._is_prepared = True

    def open(self) -> None:
        """Tell the process to start; a repetition has no effect."""
        self._opened.set()

    def wait(self, seconds: float) -> bool:
        """Wait up to a number of seconds; return whether the process has been told to start."""
        return self._opened.wait(seconds)
