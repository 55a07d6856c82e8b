"""Draws a job for people: the panel of `streamjob run`, and `streamjob status`."""

from streamjob.client.terminal.drawing import draw, draw_status
from streamjob.client.terminal.tables import Canvas

__all__ = ["Canvas", "draw", "draw_status"]
