"""The spec as automatic scaling has it run: with its number of task slots, and processors for them.

The controller never writes the spec. The number is in the status, and revisions are made from both.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from streamjob.autoscaling import Means
from streamjob_operator.resources.parts import ScalingMode
from streamjob_operator.resources.status import StreamJobStatus
from streamjob_operator.resources.streamjob import StreamJobSpec

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def slots_of(spec: StreamJobSpec) -> int:
    """Return the task slots that a spec asks for."""
    if spec.executor is not None:
        return spec.instances * spec.executor.cores
    own = None if spec.job is None else spec.job.get("parallelism")
    given = spec.parallelism if spec.parallelism is not None else own
    return given if isinstance(given, int) and given > 0 else 1


def effective(spec: StreamJobSpec, status: StreamJobStatus) -> StreamJobSpec:
    """Return the spec that is to run; the same one unless automatic scaling acts and has decided."""
    scaling = status.autoscaling
    if spec.autoscaling.mode is not ScalingMode.ACT or scaling is None or scaling.parallelism is None:
        return spec
    memory = scaling.driver_memory
    if memory is not None and memory < spec.driver.memory and scaling.spec_memory != spec.driver.memory:
        # The spec has got more memory since.
        return with_slots(spec, scaling.parallelism)
    return with_slots(with_memory(spec, memory, scaling.driver_memory_overhead), scaling.parallelism)


def width_of(spec: StreamJobSpec) -> int | None:
    """Return the tasks that a driver can run at once if its processors are changed in place; None if they are not.

    Its processors are the limit then, and not its slots: a process cannot change these.
    """
    scaling = spec.autoscaling
    if scaling.mode is not ScalingMode.ACT or Means.IN_PLACE not in scaling.means or scaling.cpu_per_slot is None:
        return None
    if spec.executor is not None:
        return None
    own = None if spec.job is None else spec.job.get("maxParallelism")
    partitions = spec.max_parallelism if spec.max_parallelism is not None else own
    return min(scaling.max, partitions) if isinstance(partitions, int) and partitions > 0 else scaling.max


def slots_in(revision: StreamJobSpec, spec: StreamJobSpec | None) -> int:
    """Return the task slots of a revision's driver, which are its processors if they are changed in place.

    Args:
        revision: the spec of the revision.
        spec: the spec of the StreamJob, with its automatic scaling.
    """
    width = None if spec is None else width_of(spec)
    cpu = revision.driver.core_request
    if spec is None or width is None or cpu is None or cpu != revision.driver.core_limit:
        return slots_of(revision)
    each = spec.autoscaling.cpu_per_slot
    return slots_of(revision) if each is None else max(1, round(cores_of(cpu) / cores_of(each)))


def with_slots(spec: StreamJobSpec, slots: int) -> StreamJobSpec:
    """Return a spec with a number of task slots, and the processors for them if each has a request of its own."""
    width = width_of(spec)
    parallelism = slots if width is None else max(slots, width)
    changes: dict[str, Any] = {} if parallelism == slots_of(spec) else {"parallelism": parallelism}
    if spec.autoscaling.cpu_per_slot is not None and spec.executor is None:
        cpu = format_cpu(cores_of(spec.autoscaling.cpu_per_slot) * slots)
        limit = {"core_limit": cpu} if width is not None or spec.driver.core_limit is not None else {}
        changes["driver"] = spec.driver.model_copy(update={"core_request": cpu, **limit})
    if width is not None:
        changes["spark_conf"] = {**spec.spark_conf, _JAVA_OPTIONS: _java_options(spec, width)}
    return spec.model_copy(update=changes) if changes else spec


def with_memory(spec: StreamJobSpec, memory: int | None, besides: int | None = None) -> StreamJobSpec:
    """Return a spec whose driver has some memory.

    Args:
        memory: of Java's heap, in bytes; None for that of the spec.
        besides: of the container besides the heap, in bytes; None to let it grow with the heap.
    """
    driver = spec.driver
    if memory is None or (memory, besides or driver.memory_overhead) == (driver.memory, driver.memory_overhead):
        return spec
    if besides is None and driver.memory_overhead is not None:
        besides = driver.memory_overhead * memory // driver.memory
    changed = {"memory": memory} | ({} if besides is None else {"memory_overhead": besides})
    return spec.model_copy(update={"driver": driver.model_copy(update=changed)})


def _java_options(spec: StreamJobSpec, width: int) -> str:
    """Return Java's options with threads of the garbage collector for half the width.

    By itself Java takes as many as the processors that it starts with.
    """
    own = (spec.job or {}).get("sparkConf")
    given = {**(own if isinstance(own, dict) else {}), **spec.spark_conf}.get(_JAVA_OPTIONS, "-XX:+UseParallelGC")
    threads = max(1, ceil(width * cores_of(spec.autoscaling.cpu_per_slot or "1") / 2))
    return str(given) if "ParallelGCThreads" in str(given) else f"{given} -XX:ParallelGCThreads={threads}"


def cores_of(cpu: str) -> float:
    """Return an amount of processors as a number: 0.5 for `500m`."""
    return int(cpu[:-1]) / 1000 if cpu.endswith("m") else float(cpu)


def format_cpu(cores: float) -> str:
    """Return an amount of processors as Kubernetes writes it: `2`, or `1500m`."""
    thousandths = max(1, ceil(cores * 1000 - 1e-6))
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"
