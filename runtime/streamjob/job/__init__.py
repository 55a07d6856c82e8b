"""The job: its model, its file formats, the checks that need no Spark, and its plan."""

from streamjob.job.connectors.resolving import resolve_options
from streamjob.job.loading.load import LoadedJob, load_job
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import (
    ChannelPolicy,
    CheckpointingPolicy,
    Input,
    JobSpec,
    OperatorSpec,
    SinkSpec,
    SourceSpec,
    Watermark,
)
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.plan import ChainPlan, ChannelPlan, Plan, plan
from streamjob.job.python_job.dsl import Job
from streamjob.job.python_job.handles import Feedback, Handle, OperatorHandle, feedback

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
