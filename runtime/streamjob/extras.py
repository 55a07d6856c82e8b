"""What an extra of the distribution brings, and what is said where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streamjob.errors import InvalidInput

_OURS = frozenset({"streamjob", "streamjob_runtime", "streamjob_operator"})


class MissingExtra(InvalidInput):
    """A command or a sink needs packages that are not installed."""

    def __init__(self, whom: str, extra: str, why: str) -> None:
        super().__init__(f"{whom} needs the extra {extra!r}: {why}", f"pip install 'streamjob[{extra}]'")


@contextmanager
def from_extra(whom: str, extra: str) -> Iterator[None]:
    """Import in this context what an extra brings.

    Args:
        whom: what needs it, as the message begins.
        extra: the extra's name.

    Raises:
        MissingExtra: a module is missing, or cannot be loaded, that is not one of ours.
    """
    try:
        yield
    except ImportError as error:
        module = (error.name or "").partition(".")[0]
        if module in _OURS:
            raise
        missing = isinstance(error, ModuleNotFoundError)
        raise MissingExtra(whom, extra, f"there is no module {module!r}" if missing else str(error)) from None
