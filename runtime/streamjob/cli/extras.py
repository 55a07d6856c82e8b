"""What an extra of the distribution brings, and what is said where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streamjob.errors import InvalidInput

_OURS = frozenset({"streamjob", "streamjob_runtime", "streamjob_operator"})


class MissingExtra(InvalidInput):
    """A command needs packages that are not installed."""

    def __init__(self, command: str, extra: str, module: str) -> None:
        super().__init__(
            f"`streamjob {command}` needs the extra {extra!r}: there is no module {module!r}",
            f"pip install 'streamjob[{extra}]'",
        )


@contextmanager
def from_extra(command: str, extra: str) -> Iterator[None]:
    """Import in this context what an extra brings.

    Args:
        command: the command that needs it.
        extra: the extra's name.

    Raises:
        MissingExtra: a module is missing that is not one of ours.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module in _OURS:
            raise
        raise MissingExtra(command, extra, module) from None
