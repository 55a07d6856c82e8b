"""Imports packages that an optional extra provides, and names the extra if they are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streamjob.errors import InvalidInput

_OURS = frozenset({"streamjob", "streamjob_runtime", "streamjob_operator"})


class MissingExtra(InvalidInput):
    """A command or sink needs packages that are not installed."""

    def __init__(self, whom: str, extra: str, why: str) -> None:
        super().__init__(f"{whom} needs the extra {extra!r}: {why}", f"pip install 'streamjob[{extra}]'")


@contextmanager
def from_extra(whom: str, extra: str) -> Iterator[None]:
    """Import packages of an extra inside this context.

    Args:
        whom: the part that needs the extra; the message begins with it.
        extra: the extra's name.

    Raises:
        MissingExtra: a module that is not ours is missing or cannot be loaded.
    """
    try:
        yield
    except ImportError as error:
        module = (error.name or "").partition(".")[0]
        if module in _OURS:
            raise
        missing = isinstance(error, ModuleNotFoundError)
        raise MissingExtra(whom, extra, f"there is no module {module!r}" if missing else str(error)) from None
