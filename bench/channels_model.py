"""The measured costs of channels, in the form of `channels.json`."""

from __future__ import annotations

from bench.model import Circumstances, Model


class CostRun(Model):
    """One run of one side to the end of its input: CPU seconds of the process tree, wall seconds, rows written."""

    side: str
    round: int
    records: int
    cpu: float
    wall: float
    rows: int
    load_before: float


class LatencyRun(Model):
    """Seconds from a small file's appearance to that of its output in the sink, one after the other."""

    side: str
    records: int
    seconds: tuple[float, ...]
    load_before: float


class Channels(Model):
    """All of it."""

    circumstances: Circumstances
    keys: int
    costs: tuple[CostRun, ...] = ()
    latencies: tuple[LatencyRun, ...] = ()
