"""Checkpointed streaming jobs on Apache Spark: what a job's author imports, and what runtime and controller share."""

from streamjob.job.dsl import Job, feedback
from streamjob.job.spec import CheckpointingPolicy, Watermark

__all__ = ["CheckpointingPolicy", "Job", "Watermark", "feedback"]
