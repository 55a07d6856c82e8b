"""Interrupts code right before one of its effects on the outside world, like a crash or another process."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest import mock

Intercepted = tuple[object, str]
"""A module, class or object, and the name of its function."""

FILE_SYSTEM_CALLS: Sequence[Intercepted] = tuple(
    (os, name) for name in ("link", "mkdir", "remove", "rename", "replace", "rmdir", "unlink")
)
"""The functions that change a local file system; `pathlib` and `shutil` call them, too."""


class Crash(BaseException):
    """The simulated death of the process. `except Exception` does not catch it, and no effect follows."""


class Interception:
    """A context that runs an action right before a chosen call of the intercepted functions by this thread.

    Once the action has raised `Crash`, every later call raises it, too: a dead process has no more effects.

    Args:
        functions: the functions to intercept.
        call: the call before which the action runs, counted from 0.
        action: called once; its own calls are not intercepted.
    """

    def __init__(self, functions: Sequence[Intercepted], call: int, action: Callable[[], None]) -> None:
        self._functions = functions
        self._remaining = call
        self._action = action
        self._thread = threading.get_ident()
        self._undo = ExitStack()
        self._dead = False
        self.fired = False

    def __enter__(self) -> Interception:
        for owner, name in self._functions:
            wrapped = self._wrapped(getattr(owner, name))
            # Static and class methods receive no instance.
            unbound = isinstance(inspect.getattr_static(owner, name), staticmethod | classmethod)
            self._undo.enter_context(mock.patch.object(owner, name, staticmethod(wrapped) if unbound else wrapped))
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def _wrapped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == self._thread:
                self._before()
            return original(*args, **kwargs)

        return call

    def _before(self) -> None:
        if self._dead:
            raise Crash
        if self.fired:
            return
        if self._remaining:
            self._remaining -= 1
            return
        self.fired = True
        try:
            self._action()
        except Crash:
            self._dead = True
            raise
