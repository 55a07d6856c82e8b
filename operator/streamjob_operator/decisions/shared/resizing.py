"""Changes the processors of a running driver in place, as automatic scaling decided: its process goes on."""

from __future__ import annotations

from dataclasses import replace

from streamjob_operator.decisions.values.actions import Emit, EnsureRevision, ResizeDriver
from streamjob_operator.decisions.values.situation import Situation, Step
from streamjob_operator.decisions.values.slots import cores_of, slots_in, width_of
from streamjob_operator.resources.streamjob import StreamJobSpec

_RESIZING = "Resizing"


def resize(s: Situation) -> Step:
    """Return the next step towards the processors of the wanted revision."""
    assert s.wanted is not None
    assert s.pod is not None
    if s.seen.revision(s.wanted.name) is None:
        return Step(memory=s.memory, actions=(EnsureRevision(revision=s.wanted),), requeue=0)
    spec = s.wanted.spec()
    cpu = _cpu_of(spec)
    if is_done(s):
        stable = s.wanted.name if s.memory.stable_revision == s.memory.revision else s.memory.stable_revision
        slots = slots_in(spec, s.spec)
        event = Emit(
            type="Normal", reason="Resized", message=f"driver {s.pod.name} has {cpu} CPU for {slots} task slots"
        )
        return Step(
            memory=replace(s.memory, revision=s.wanted.name, stable_revision=stable, trials=()),
            events=(event,),
            requeue=0,
        )
    asks = () if s.pod.cores == cores_of(cpu) else (ResizeDriver(name=s.pod.name, cpu=cpu),)
    return s.waits(_RESIZING, s.pod.resize or f"driver {s.pod.name} gets {cpu} CPU", *asks)


def is_done(s: Situation) -> bool:
    """Return whether the driver has the processors of the wanted revision."""
    assert s.wanted is not None
    assert s.pod is not None
    return s.pod.cores == s.pod.cores_given == cores_of(_cpu_of(s.wanted.spec())) and not s.pod.resize


def _cpu_of(spec: StreamJobSpec) -> str:
    return spec.driver.core_request or str(spec.driver.cores)


def keep(s: Situation) -> Step | None:
    """Return the step that takes a resize back which is no longer wanted; None if the driver has its processors."""
    if s.spec is None or width_of(s.spec) is None or s.deployed is None or s.pod is None or s.pod.cores is None:
        return None
    cpu = s.deployed.spec().driver.core_request
    if cpu is None or s.rescales or s.pod.cores == cores_of(cpu):
        return None
    message = f"driver {s.pod.name} gets {cpu} CPU again"
    return s.waits(_RESIZING, message, ResizeDriver(name=s.pod.name, cpu=cpu))
