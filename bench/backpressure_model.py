"""The measurements under backpressure, in the form of `backpressure.json`."""

from __future__ import annotations

from bench.model import Circumstances, Model


class Sample(Model):
    """One checkpoint while a channel was full.

    Durations in ms: `total` from the trigger to the last acknowledgement, `until_held` of it until the last chain was
    cut and its files were held locally, `upload` of the chain that uploaded longest, `completed` until the log named
    the checkpoint. `in_flight` are the bytes of records in the checkpoint, `uploaded` those it had to write.
    """

    mode: str
    unaligned: bool
    backlog_records: int
    backlog_bytes: int
    total: int
    until_held: int
    upload: int
    completed: int
    start_delay: int
    alignment: int
    held: int
    in_flight: int
    uploaded: int


class Backlog(Model):
    """The checkpoints with one backlog, of `capacity` records that take `record_ms` each in two slots."""

    record_ms: int
    capacity: int
    max_batch_records: int
    load_before: float
    samples: tuple[Sample, ...]

    @property
    def seconds(self) -> float:
        """The work that waits, in seconds."""
        return self.capacity * self.record_ms / 1000 / 2


class Kill(Model):
    """A job killed in the middle and started again; `in_flight` bytes were in the checkpoint that it went on from."""

    mode: str
    records: int
    visible_at_kill: int
    checkpoint: int
    unaligned: bool
    in_flight: int
    missing: int
    repeated: int
    output: int

    @property
    def equal(self) -> bool:
        """Whether the output is what went in."""
        return self.output == self.records and not self.missing and not self.repeated


class Backpressure(Model):
    """All of it; seconds of `switch_after`: the alignedCheckpointTimeout of the mode `switch`.

    The kills may have been measured at another time than the rest.
    """

    circumstances: Circumstances
    kill_circumstances: Circumstances | None = None
    switch_after: float
    record_bytes: int
    backlogs: tuple[Backlog, ...] = ()
    kills: tuple[Kill, ...] = ()
