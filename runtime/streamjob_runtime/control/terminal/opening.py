"""The view that fits where the output goes."""

from __future__ import annotations

import logging
import sys
from typing import Protocol, TextIO

from rich.console import Console

from streamjob.client.models import CheckpointsView, JobView


class View(Protocol):
    """Shows a running job; methods may be called from any thread, and never fail because of what they are shown."""

    def update(self, job: JobView, checkpoints: CheckpointsView) -> None:
        """Show the job as it stands now; call it about once a second, and once more at the end."""
        ...

    def message(self, text: str) -> None:
        """Tell something that the views do not."""
        ...

    def close(self) -> None:
        """Leave the last state on the screen, and the terminal as it was. May be called twice."""
        ...


class StandardErrorHandler(logging.StreamHandler[TextIO]):
    """Logs to what standard error is at the time: above the live panel while there is one on the same terminal."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """Where records go now."""
        return sys.stderr


class Quiet:
    """Shows nothing."""

    def update(self, job: JobView, checkpoints: CheckpointsView) -> None:
        """Show nothing."""

    def message(self, text: str) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Do nothing."""


def open_view(*, quiet: bool = False, console: Console | None = None) -> View:
    """Return the view for standard output: live on a terminal that can move its cursor, else plain lines.

    Log through StandardErrorHandler, so that records go above the live panel; what other processes write to the
    terminal would tear it, so send that to a file.

    Args:
        quiet: show nothing.
        console: where to show; standard output by default. It honours NO_COLOR and TERM.
    """
    if quiet:
        return Quiet()
    # Imported here so that `run --help` and quiet runs do not pay for what they do not draw.
    from streamjob_runtime.control.terminal.live import LiveView
    from streamjob_runtime.control.terminal.plain import PlainView

    target = console or Console(file=sys.stdout, highlight=False)
    if target.is_terminal and not target.is_dumb_terminal:
        return LiveView(target)
    return PlainView(target.file)
