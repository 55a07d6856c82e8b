"""The spec as automatic scaling has it run: with its number of task slots, and processors for them.

The controller never writes the spec. The number is in the status, and revisions are made from both.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from streamjob_operator.resources.parts import ScalingMode
from streamjob_operator.resources.status import StreamJobStatus
from streamjob_operator.resources.streamjob import StreamJobSpec


def slots_of(spec: StreamJobSpec) -> int:
    """Return the task slots that a spec asks for."""
    own = None if spec.job is None else spec.job.get("parallelism")
    given = spec.parallelism if spec.parallelism is not None else own
    return given if isinstance(given, int) and given > 0 else 1


def effective(spec: StreamJobSpec, status: StreamJobStatus) -> StreamJobSpec:
    """Return the spec that is to run; the same one unless automatic scaling acts and has decided."""
    scaling = status.autoscaling
    if spec.autoscaling.mode is not ScalingMode.ACT or scaling is None or scaling.parallelism is None:
        return spec
    return with_slots(spec, scaling.parallelism)


def with_slots(spec: StreamJobSpec, slots: int) -> StreamJobSpec:
    """Return a spec with a number of task slots, and the processors for them if each has a request of its own."""
    changes: dict[str, Any] = {} if slots == slots_of(spec) else {"parallelism": slots}
    if spec.autoscaling.cpu_per_slot is not None:
        cpu = format_cpu(cores_of(spec.autoscaling.cpu_per_slot) * slots)
        limit = {} if spec.driver.core_limit is None else {"core_limit": cpu}
        changes["driver"] = spec.driver.model_copy(update={"core_request": cpu, **limit})
    return spec.model_copy(update=changes) if changes else spec


def cores_of(cpu: str) -> float:
    """Return an amount of processors as a number: 0.5 for `500m`."""
    return int(cpu[:-1]) / 1000 if cpu.endswith("m") else float(cpu)


def format_cpu(cores: float) -> str:
    """Return an amount of processors as Kubernetes writes it: `2`, or `1500m`."""
    thousandths = max(1, ceil(cores * 1000 - 1e-6))
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"
