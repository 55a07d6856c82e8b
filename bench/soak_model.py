"""The figures of a job that ran for hours, in the form of `soak.json`."""

from __future__ import annotations

from bench.model import Circumstances, Model


class Look(Model):
    """One look at the job.

    Args:
        at: seconds since the first look that counts; below 0 while the job warms up.
        load: the machine's load average of the last minute.
        figures: by the name of a `Figure`; one that could not be had is left out.
    """

    at: float
    load: float
    figures: dict[str, float]


class Soak(Model):
    """All looks of one run.

    Args:
        minutes: how long it was looked at, the time to warm up apart.
        warm_up_minutes: how long it ran before.
        cpu_share: processors that the job used on average, 0.3 for a third of one.
        rows_in: rows that were given to the job.
        rows_out: rows counted by what readers saw.
        restarts: of the job; there should be none.
        checkpoints: completed ones.
        failed_checkpoints: those that failed.
        notes: sentences on the causes of what was seen, added by hand.
    """

    circumstances: Circumstances
    minutes: float
    warm_up_minutes: float
    cpu_share: float
    rows_in: int
    rows_out: int
    restarts: int
    checkpoints: int
    failed_checkpoints: int
    notes: tuple[str, ...] = ()
    looks: tuple[Look, ...] = ()
