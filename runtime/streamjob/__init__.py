"""Checkpointed streaming jobs on Apache Spark: the API for job authors, shared by runtime and controller."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamjob.job.dsl import Job
    from streamjob.job.handles import feedback
    from streamjob.job.spec import ChannelPolicy, CheckpointingPolicy, Watermark

__all__ = ["ChannelPolicy", "CheckpointingPolicy", "Job", "Watermark", "feedback"]

_HOMES = {
    "ChannelPolicy": "streamjob.job.spec",
    "CheckpointingPolicy": "streamjob.job.spec",
    "Job": "streamjob.job.dsl",
    "Watermark": "streamjob.job.spec",
    "feedback": "streamjob.job.handles",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: every import below `streamjob` runs this file, even that of `streamjob --help`.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
