"""Automatic scaling: a model of a job's load and capacity, and one pure decision; knows neither Spark nor Kubernetes.

`decide` takes the policy, the memory of the last decision, a report of the job and the time. It returns the number of
slots and the memory for the next decision. The memory is all of the state: a caller that records it decides the same
after a restart.
"""

from streamjob.autoscaling.advising import advise, take_back
from streamjob.autoscaling.deciding import Decision, Rule, State, decide, undo
from streamjob.autoscaling.load import ChainLoad, LoadReport, SourceLoad, read_load, write_load
from streamjob.autoscaling.memory import Memory, Move, pack_memory, unpack_memory
from streamjob.autoscaling.policy import Means, Period, Policy
from streamjob.autoscaling.reasons import sentence

__all__ = [
    "ChainLoad",
    "Decision",
    "LoadReport",
    "Means",
    "Memory",
    "Move",
    "Period",
    "Policy",
    "Rule",
    "SourceLoad",
    "State",
    "advise",
    "decide",
    "pack_memory",
    "read_load",
    "sentence",
    "take_back",
    "undo",
    "unpack_memory",
    "write_load",
]
