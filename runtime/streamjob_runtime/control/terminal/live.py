"""The view on a terminal: a panel that is redrawn in place, with important events above it."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections import deque
from collections.abc import Callable

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from streamjob.client import formatting
from streamjob.client.models import CheckpointsView, JobView
from streamjob.client.terminal import Canvas, draw
from streamjob_runtime.control.terminal.events import Look, events

_REDRAWS_PER_SECOND = 4
_RATES_KEPT = 30
_RATE_EVERY = 1.0
_STYLES = {"routine": "dim", "notable": "", "bad": "red"}


class LiveView:
    """Draws the job's panel at the bottom of the terminal, from the first update until `close`.

    Args:
        clock: seconds since 1970.
        animate: also redraw between updates, so that ages advance; off in tests.
    """

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.time, animate: bool = True) -> None:
        self._console = console
        self._clock = clock
        self._look: Look | None = None
        self._rates: deque[float] = deque(maxlen=_RATES_KEPT)
        self._rate_at = float("-inf")
        self._live = Live(
            console=console,
            get_renderable=self._draw,
            auto_refresh=animate,
            refresh_per_second=_REDRAWS_PER_SECOND,
            redirect_stdout=True,
            # Output to files must not be diverted to the terminal.
            redirect_stderr=_same_terminal(console),
            vertical_overflow="crop",
        )
        self._closed = False

    def update(self, job: JobView, checkpoints: CheckpointsView) -> None:
        """Show the current state of the job."""
        look, before = Look(job, checkpoints), self._look
        now = self._clock()
        if job.chains and now - self._rate_at >= _RATE_EVERY:
            self._rate_at = now
            self._rates.append(job.records_in_per_second)
        self._look = look
        self._begin()
        for event in events(before, look):
            # The panel itself continues to show why the job failed for good.
            if event.weight != "routine" and not (event.is_end and event.weight == "bad"):
                self._above(event.text, _STYLES[event.weight])
        if not self._live.auto_refresh and not self._closed:
            self._live.refresh()

    def message(self, text: str) -> None:
        """Write a line above the panel."""
        self._above(text, "")

    def close(self) -> None:
        """Leave the last panel on the screen."""
        self._closed = True
        atexit.unregister(self.close)
        self._live.stop()

    def _begin(self) -> None:
        # Start only when there is something to draw: earlier failures are printed on a terminal that is not redrawn.
        if self._closed or self._live.is_started:
            return
        atexit.register(self.close)
        self._live.start()

    def _above(self, text: str, style: str) -> None:
        line = Text.assemble((formatting.clock_time(self._clock()), "dim"), "  ", (text, style))
        self._console.print(line)

    def _draw(self) -> RenderableType:
        look = self._look
        if look is None:
            return Text("")
        canvas = Canvas(self._console.width, self._console.height)
        return draw(look.job, look.checkpoints, now=self._clock(), rates=tuple(self._rates), canvas=canvas)


def _same_terminal(console: Console) -> bool:
    try:
        return os.ttyname(sys.stderr.fileno()) == os.ttyname(console.file.fileno())
    except (OSError, ValueError, AttributeError):
        return False
