"""The memory of a driver as automatic scaling has it: raised when it is short, reduced with a restart for slots."""

from __future__ import annotations

from streamjob.autoscaling.sizing import Bounds, MemoryUse, Peaks, Sizes, less_memory, more_memory
from streamjob_operator.decisions.values.actions import Emit
from streamjob_operator.decisions.values.situation import Situation
from streamjob_operator.resources.base import format_memory, time_of
from streamjob_operator.resources.parts import Autoscaling
from streamjob_operator.resources.pods import HEAP_SHARE, LEAST_MEMORY
from streamjob_operator.resources.status import AutoscalingStatus, MemoryUseStatus

KILLED = "OOMKilled"
_MIB = 1024**2
_PAUSE = 3600.0


def after_a_kill(s: Situation, policy: Autoscaling, status: AutoscalingStatus) -> tuple[AutoscalingStatus, Emit] | None:
    """Return the status once a driver was killed that exceeded its memory; None if it gets no more."""
    pod, most, deployed = s.pod, policy.max_memory, s.deployed
    if pod is None or not pod.ended or pod.reason != KILLED or most is None or deployed is None:
        return None
    had = deployed.spec().driver.memory
    more = min(most, had * 3 // 2 // _MIB * _MIB)
    if more <= had or status.killed_attempt == pod.attempt:
        return None
    told = f"driver {pod.name} exceeded its memory, and gets {format_memory(more)} instead of {format_memory(had)}"
    besides = status.driver_memory_overhead
    changed = status.replaced(
        driver_memory=more,
        driver_memory_overhead=None if besides is None else besides * more // had,
        killed_attempt=pod.attempt,
    )
    return changed, Emit(type="Warning", reason="MemoryRaised", message=told)


def observed(s: Situation, status: AutoscalingStatus) -> AutoscalingStatus:
    """Return the status with the memory that the driver uses."""
    use = _use(s)
    if use is None:
        return status
    peaks = _peaks(status.memory_use, s.memory.attempt, use.time).observe(use)
    known = status.memory_use
    return status.replaced(
        memory_use=MemoryUseStatus(
            attempt=s.memory.attempt,
            since=time_of(peaks.begun),
            live_heap=peaks.live,
            outside_heap=peaks.outside,
            live_heap_before=peaks.live_before,
            outside_heap_before=peaks.outside_before,
            short_since=None if peaks.short_since is None else time_of(peaks.short_since),
            retry=None if known is None else known.retry,
        )
    )


def raised(s: Situation, policy: Autoscaling, status: AutoscalingStatus) -> tuple[AutoscalingStatus, Emit] | None:
    """Return the status of a driver that restarts for more memory; None if it has enough, or the most."""
    use, known = _use(s), status.memory_use
    if use is None or known is None or s.deployed is None:
        return None
    if known.retry is not None and s.seen.now < known.retry.timestamp():
        return None
    given = _given(s)
    found = more_memory(_bounds(policy), _peaks(known, s.memory.attempt, use.time), use, given)
    if found is None:
        return None
    why = (
        f"a collection has left {format_memory(use.live // _MIB * _MIB)} in its heap of {format_memory(given.heap)}"
        if use.heap_is_short
        else f"its container of {format_memory(given.heap + given.besides)} would be full with all of the heap"
    )
    memory, overhead = _memory_of(found, policy)
    driver = s.deployed.spec().driver
    if (memory, overhead) == (driver.memory, driver.container_memory - driver.memory):
        return None
    told = (
        f"the driver restarts with a memory of {format_memory(memory)} and an overhead of {format_memory(overhead)}, "
        f"instead of {format_memory(driver.memory)} and {format_memory(driver.container_memory - driver.memory)}: {why}"
    )
    changed = status.replaced(
        driver_memory=memory,
        driver_memory_overhead=overhead,
        memory_use=known.replaced(short_since=None),
    )
    return changed, Emit(type="Normal", reason="MemoryRaised", message=told)


def reduced(s: Situation, policy: Autoscaling, status: AutoscalingStatus) -> tuple[AutoscalingStatus, Emit] | None:
    """Return the status of a driver that gets less memory with a restart that is made anyway; None to keep it."""
    known = status.memory_use
    if known is None or s.spec is None or s.deployed is None:
        return None
    given = _given(s)
    found = less_memory(_bounds(policy), _peaks(known, s.memory.attempt, s.seen.now), given)
    if found is None:
        return None
    memory, overhead = _memory_of(found, policy)
    had, most = s.deployed.spec().driver.memory, max(known.live_heap, known.live_heap_before or 0)
    if memory >= had:
        return None
    told = (
        f"the next driver has a memory of {format_memory(memory)} instead of {format_memory(had)}: "
        f"collections have left {format_memory(most // _MIB * _MIB)} at most in its heap"
    )
    changed = status.replaced(driver_memory=memory, driver_memory_overhead=overhead, spec_memory=s.spec.driver.memory)
    return changed, Emit(type="Normal", reason="MemoryReduced", message=told)


def taken_back(s: Situation, status: AutoscalingStatus, why: str) -> AutoscalingStatus:
    """Return the status with the memory that the running driver has, because the API server rejects another pod."""
    assert s.deployed is not None
    driver, known = s.deployed.spec().driver, status.memory_use
    retry = time_of(s.seen.now + _PAUSE)
    return status.replaced(
        driver_memory=driver.memory,
        driver_memory_overhead=driver.memory_overhead,
        spec_memory=None if s.spec is None else s.spec.driver.memory,
        memory_use=None if known is None else known.replaced(retry=retry),
        limit=f"the driver cannot have more memory: {why}"[:4000],
    )


def _bounds(policy: Autoscaling) -> Bounds:
    least, most = policy.min_memory, policy.max_memory
    return Bounds(
        least=None if least is None else int(max(least, LEAST_MEMORY) * HEAP_SHARE),
        most=None if most is None else int(most * HEAP_SHARE),
    )


def _given(s: Situation) -> Sizes:
    """Return what the driver has. State is in a part of Java's memory that is not heap."""
    assert s.deployed is not None
    driver = s.deployed.spec().driver
    heap = int(driver.memory * HEAP_SHARE)
    return Sizes(heap, driver.container_memory - heap)


def _memory_of(sizes: Sizes, policy: Autoscaling) -> tuple[int, int]:
    """Return the memory of Java and the overhead for some sizes."""
    memory = -int(-sizes.heap / HEAP_SHARE // _MIB) * _MIB
    if policy.max_memory is not None:
        memory = min(memory, policy.max_memory)
    return memory, max(_MIB, (sizes.heap + sizes.besides - memory) // _MIB * _MIB)


def _use(s: Situation) -> MemoryUse | None:
    if s.job is None or (seen := s.job.memory) is None:
        return None
    # The container of a driver with a standby holds the memory of both, and nobody knows the shares.
    is_alone = s.deployed is not None and not s.deployed.spec().driver.standby
    return MemoryUse(
        time=seen.measured,
        heap=seen.heap,
        live=seen.heap_live,
        outside=seen.outside_heap if is_alone else None,
        container=seen.container,
    )


def _peaks(known: MemoryUseStatus | None, attempt: int, now: float) -> Peaks:
    if known is None:
        return Peaks(float(int(now)))
    short = known.short_since if known.attempt == attempt else None
    return Peaks(
        begun=known.since.timestamp(),
        live=known.live_heap,
        outside=known.outside_heap,
        live_before=known.live_heap_before,
        outside_before=known.outside_heap_before,
        short_since=None if short is None else short.timestamp(),
    )
