"""Processes that kill themselves before a given step."""

from __future__ import annotations

from pathlib import Path

_KILLER = """
import importlib, itertools, os, signal

if "KILLED_AT" in os.environ:
    module, path, number = os.environ["KILLED_AT"].split()
    kind, _, name = path.rpartition(".")
    holder = importlib.import_module(module)
    holder = getattr(holder, kind) if kind else holder
    step, calls = getattr(holder, name), itertools.count()

    def call(*args, **kwargs):
        if next(calls) == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        return step(*args, **kwargs)

    setattr(holder, name, call)
"""


def killer(directory: Path) -> dict[str, str]:
    """Return the environment in which a process is killed before the step that the variable KILLED_AT names.

    A step is the module, class and method, and the number of calls of that method before: `module Class.method 2`.
    Or it is a function, which the module calls by this name: `module function 2`.

    Args:
        directory: gets the code that Python runs when it starts.
    """
    (directory / "killer").mkdir()
    (directory / "killer" / "sitecustomize.py").write_text(_KILLER)
    return {"PYTHONPATH": str(directory / "killer")}
