"""The fields of a StreamJob's spec that override fields of its job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OVERRIDING = ("parallelism", "maxParallelism")
"""Fields whose value replaces that of the job."""
OVERRIDING_BY_KEY = ("checkpointing", "sparkConf")
"""Fields with fields of their own, each of which replaces that of the job."""


def task_slots(spec: Mapping[str, Any]) -> int | None:
    """Return the task slots of the executors that a StreamJob's spec asks for, instances × cores; None if it gives no
    number of instances."""
    executor = spec.get("executor")
    if not isinstance(executor, Mapping):
        return None
    instances, cores = executor.get("instances"), executor.get("cores", 1)
    return instances * cores if isinstance(instances, int) and isinstance(cores, int) else None


def effective_job(job: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a job with the overriding fields of its StreamJob's spec; null overrides nothing.

    A field of the job that should be a mapping but is not stays as it is; the checks of the job report it.

    Args:
        job: content of a job file.
        spec: content of the StreamJob's spec, by the names in the resource.
    """
    merged = dict(job)
    for name in OVERRIDING:
        if spec.get(name) is not None:
            merged[name] = spec[name]
    if (slots := task_slots(spec)) is not None:
        merged["parallelism"] = slots
    for name in OVERRIDING_BY_KEY:
        over, own = spec.get(name), job.get(name)
        if isinstance(over, Mapping) and (own is None or isinstance(own, Mapping)):
            merged[name] = {**(own or {}), **{key: value for key, value in over.items() if value is not None}}
    return merged
