"""Where the command line prints tables."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

_WIDEST = 1_000_000


def console_for(file: TextIO | None = None) -> Console:
    """Return a console in which lines wrap on a terminal only: the reader of a pipe or a file wants whole lines.

    Args:
        file: the output; None for standard output.
    """
    from rich.console import Console

    target = sys.stdout if file is None else file
    return Console(file=target, highlight=False, width=None if target.isatty() else _WIDEST)
