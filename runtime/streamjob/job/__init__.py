"""The job: its model, its file formats, the checks that need no Spark, and its plan."""

from streamjob.job.dsl import Job
from streamjob.job.graph import graph_of
from streamjob.job.handles import Feedback, Handle, OperatorHandle, feedback
from streamjob.job.load import LoadedJob, load_job
from streamjob.job.options import resolve_options
from streamjob.job.plan import ChainPlan, ChannelPlan, Plan, plan
from streamjob.job.problem import Problem
from streamjob.job.spec import (
    ChannelPolicy,
    CheckpointingPolicy,
    Input,
    JobSpec,
    OperatorSpec,
    SinkSpec,
    SourceSpec,
    Watermark,
)

__all__ = [
    "ChainPlan",
    "ChannelPlan",
    "ChannelPolicy",
    "CheckpointingPolicy",
    "Feedback",
    "Handle",
    "Input",
    "Job",
    "JobSpec",
    "LoadedJob",
    "OperatorHandle",
    "OperatorSpec",
    "Plan",
    "Problem",
    "SinkSpec",
    "SourceSpec",
    "Watermark",
    "feedback",
    "graph_of",
    "load_job",
    "plan",
    "resolve_options",
]
