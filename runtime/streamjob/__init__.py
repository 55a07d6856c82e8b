"""Checkpointed streaming jobs on Apache Spark: the API for job authors, shared by runtime and controller."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamjob.job.model.spec import ChannelPolicy, CheckpointingPolicy, Watermark
    from streamjob.job.python_job.dsl import Job
    from streamjob.job.python_job.handles import feedback

__all__ = ["ChannelPolicy", "CheckpointingPolicy", "Job", "Watermark", "feedback"]

_HOMES = {
    "ChannelPolicy": "streamjob.job.model.spec",
    "CheckpointingPolicy": "streamjob.job.model.spec",
    "Job": "streamjob.job.python_job.dsl",
    "Watermark": "streamjob.job.model.spec",
    "feedback": "streamjob.job.python_job.handles",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: every import below `streamjob` runs this file, even that of `streamjob --help`.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
