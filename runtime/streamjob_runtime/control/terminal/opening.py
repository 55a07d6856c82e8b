"""Chooses the view that fits the output."""

from __future__ import annotations

import logging
import sys
from typing import Protocol, TextIO

from rich.console import Console

from streamjob.client.models import CheckpointsView, JobView
from streamjob.telemetry.logs import LogFormat, log_format


class View(Protocol):
    """Shows a running job. Methods may be called from any thread, and never fail because of the content."""

    def update(self, job: JobView, checkpoints: CheckpointsView) -> None:
        """Show the current state; call it about once a second, and once more at the end."""
        ...

    def message(self, text: str) -> None:
        """Show a message that is not part of the views."""
        ...

    def close(self) -> None:
        """Leave the last state on the screen, and restore the terminal. May be called twice."""
        ...


class StandardErrorHandler(logging.StreamHandler[TextIO]):
    """Logs to the current standard error: above the live panel if there is one on the same terminal."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """The current target of records."""
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
    """Return the view for standard output: live on a terminal that can move its cursor, otherwise plain lines.

    If the log of this process is JSON, the events are records of the log, and standard output stays empty.

    Log through StandardErrorHandler, so that records appear above the live panel. Send the output of other processes to
    a file, since it would garble the panel.

    Args:
        quiet: show nothing.
        console: the output; None for standard output. It honours NO_COLOR and TERM.
    """
    if quiet:
        return Quiet()
    if log_format() is LogFormat.JSON:
        from streamjob_runtime.control.terminal.logged import LoggedView

        return LoggedView()
    # Imported here, so that `run --help` and quiet runs stay fast.
    from streamjob_runtime.control.terminal.live import LiveView
    from streamjob_runtime.control.terminal.plain import PlainView

    target = console or Console(file=sys.stdout, highlight=False)
    if target.is_terminal and not target.is_dumb_terminal:
        return LiveView(target)
    return PlainView(target.file)
