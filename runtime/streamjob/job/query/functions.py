"""Finds the Python function of an operator by `module:function`; modules next to the job file come first."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from streamjob.job.model.problem import Refused
from streamjob.job.model.suggest import did_you_mean


class NotFound(Refused):
    """A function cannot be loaded."""


def make_importable(directory: Path) -> None:
    """Put `directory` at the front of Python's import path."""
    entry = str(directory.absolute())
    if sys.path[:1] != [entry]:
        sys.path.insert(0, entry)


def module_file(directory: Path, module: str) -> Path | None:
    """Return the file of `module` next to the job file, or None if it is not there."""
    base = directory.absolute().joinpath(*module.split("."))
    for candidate in (base.with_name(base.name + ".py"), base / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def find_function(reference: str, directory: Path) -> Any:
    """Import the function named by `module:function`.

    Args:
        reference: module and function, separated by a colon.
        directory: the job file's directory.

    Raises:
        NotFound: the module cannot be imported or has no such function.
    """
    module_name, _, attribute = reference.partition(":")
    module = _import(module_name, directory)
    found: Any = module
    for step in attribute.split("."):
        if not hasattr(found, step):
            functions = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
            raise NotFound(
                f"{module_name} has no function {attribute!r}", did_you_mean(attribute, functions, "functions")
            )
        found = getattr(found, step)
    # A function that the DSL turned into an operator can still be used as a function.
    found = getattr(found, "__wrapped__", found) if type(found).__name__ == "OperatorHandle" else found
    if not callable(found):
        raise NotFound(f"{reference} is not a function", "name a function that takes DataFrames and returns one")
    return found


def _import(name: str, directory: Path) -> ModuleType:
    make_importable(directory)
    importlib.invalidate_caches()
    beside = module_file(directory, name.split(".")[0])
    loaded = sys.modules.get(name.split(".")[0])
    if beside is not None and loaded is not None and not _is_file_of(loaded, beside):
        if name.split(".")[0] in sys.stdlib_module_names:
            raise NotFound(f"{beside.name} has the name of a Python module", "give the file another name")
        for each in [key for key in sys.modules if key.split(".")[0] == name.split(".")[0]]:
            del sys.modules[each]
    try:
        return importlib.import_module(name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and name.startswith(error.name):
            raise NotFound(
                f"there is no module {error.name!r}", f"put {error.name}.py next to the job file, or install it"
            ) from None
        raise NotFound(
            f"importing {name} failed: {describe(error, beside)}", "the function is imported when the job starts"
        ) from error


def _is_file_of(module: ModuleType, file: Path) -> bool:
    return bool(module.__file__) and Path(str(module.__file__)).resolve() == file.resolve()


def describe(error: BaseException, file: Path | None) -> str:
    """Return an exception as `line 3: NameError: …`, with the last line in `file`."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    if line is None and file is not None:
        trace = error.__traceback__
        while trace is not None:
            if Path(trace.tb_frame.f_code.co_filename) == file:
                line = trace.tb_lineno
            trace = trace.tb_next
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{f'line {line}: ' if line else ''}{type(error).__name__}: {text}".rstrip(": ")
