"""Tests of the spans of a job, recorded beside a real coordinator."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.coordinator.driver import Driver, Said

from streamjob.ids import BatchId, ChainUid, CheckpointId, Epoch, TriggerId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.failures import AbortReason
from streamjob.protocol.coordination.triggers import TriggerState
from streamjob.snapshot.manifest import ChainState
from streamjob.telemetry.spans import Span, SpanContext
from streamjob_runtime.monitoring.query_progress import BatchProgress, Phases
from streamjob_runtime.monitoring.traces.recorder import Traced, TraceRecorder
from streamjob_runtime.monitoring.traces.starts import StartPhases

EPOCH = Epoch(4)
PARENT = SpanContext.root("the controller's savepoint")


class Recorded(Driver):
    """A coordinator whose events reach a recorder."""

    def __init__(
        self, *, chains: Sequence[str] = ("a",), share: float = 0.0, parent: SpanContext | None = None
    ) -> None:
        self.spans: list[Span] = []
        traced = Traced(about={"streamjob.job": "flights"}, process="p", parent=parent, batches=share)
        self.recorder = TraceRecorder(traced, self.spans.extend, self._state, lambda: 0.5)
        super().__init__(chains=chains)

    def _state(self, trigger_id: TriggerId) -> TriggerState | None:
        status = self.triggers.status(trigger_id)
        return None if status is None else status.state

    def send(self, event: m.Event) -> list[Said]:
        actions = self.coordinator.handle(event)
        self.recorder.handled(EPOCH, event, actions)
        return list(actions)

    def acknowledge_with(self, checkpoint: int, chain: str, metrics: m.AcknowledgementMetrics) -> None:
        state = ChainState(uid=ChainUid(chain), operators=(), batch=BatchId(0))
        acknowledgement = m.ChainAcknowledgement(state=state, metrics=metrics)
        self.send(m.ChainAcknowledged(now=self.now, id=CheckpointId(checkpoint), acknowledgement=acknowledgement))

    def named(self, name: str) -> Span:
        (found,) = [each for each in self.spans if each.name == name]
        return found


def children(spans: Sequence[Span], of: Span) -> list[str]:
    return [each.name for each in spans if each.parent == of.context]


# A checkpoint may last ten minutes.
durations = st.floats(0, 30, allow_nan=False)
parts = st.tuples(durations, durations, durations, durations, durations)


@settings(max_examples=50, deadline=None)
@given(st.lists(parts, min_size=1, max_size=4), durations, durations)
def test_spans_add_up_to_the_statistics_within_a_millisecond(
    chains: list[tuple[float, ...]], completion: float, publication: float
) -> None:
    names = [f"c{number}" for number in range(len(chains))]
    job = Recorded(chains=names)
    job.now = 1_700_000_000.0
    job.trigger("t")
    triggered = job.now
    for name, (delay, alignment, wait, sync, upload) in zip(names, chains, strict=True):
        job.now = max(job.now, triggered + delay + alignment + wait + sync + upload)
        figures = m.AcknowledgementMetrics(
            sync_duration=sync, async_duration=upload, alignment_duration=alignment, start_delay=delay
        )
        job.acknowledge_with(1, name, figures)
    job.now += completion
    job.stored(1)
    job.now += publication
    job.committed(1)

    known = job.statistics.details(CheckpointId(1))
    assert known is not None
    root = job.named("checkpoint")
    assert root.attributes["streamjob.end_to_end_ms"] == pytest.approx(known.end_to_end_duration, abs=1)
    complete, publish = job.named("complete"), job.named("publish")
    assert complete.start * 1000 == pytest.approx(known.latest_ack_timestamp, abs=1)
    assert (complete.end, publish.end) == (publish.start, root.end)
    for name in names:
        chain, task = job.named(f"chain {name}"), known.tasks[name]
        assert (chain.end - chain.start) * 1000 == pytest.approx(task.end_to_end_duration, abs=1)
        lasted = {each.name: (each.end - each.start) * 1000 for each in job.spans if each.parent == chain.context}
        assert lasted.get("upload", 0) == pytest.approx(task.async_duration, abs=1)
        assert lasted.get("hold", 0) == pytest.approx(task.sync_duration, abs=1)
        assert lasted.get("alignment", 0) == pytest.approx(task.alignment_duration, abs=1)
        assert sum(lasted.values()) + task.start_delay == pytest.approx(task.end_to_end_duration, abs=3)


def test_every_span_lies_within_its_parent_which_is_in_the_same_trace() -> None:
    job = Recorded(chains=["a", "b"])
    job.now = 50.0
    job.trigger("t")
    job.now = 60.0
    job.acknowledge_with(1, "a", m.AcknowledgementMetrics(sync_duration=1, async_duration=2, start_delay=500))
    job.acknowledge_with(1, "b", m.AcknowledgementMetrics(async_duration=99, alignment_duration=99))
    job.stored(1)
    job.committed(1)

    by_context = {each.context: each for each in job.spans}
    assert len(by_context) == len(job.spans)
    root = job.named("checkpoint")
    assert root.parent is None
    for span in job.spans:
        assert span.start <= span.end
        if span is not root:
            assert span.parent is not None
            above = by_context[span.parent]
            assert above.context.trace_id == span.context.trace_id
            assert above.start <= span.start
            assert span.end <= above.end
    assert children(job.spans, root) == ["chain a", "chain b", "complete", "publish"]


def test_a_request_with_a_traceparent_is_the_parent_of_its_savepoint_and_of_no_other() -> None:
    job = Recorded()
    job.recorder.expect(TriggerId("s"), PARENT)
    job.trigger("t")
    job.savepoint("s")
    job.completed(1)
    job.completed(2)

    assert job.named("checkpoint").parent is None
    assert job.named("savepoint").parent == PARENT
    assert job.named("savepoint").context.trace_id == PARENT.trace_id


def test_a_stop_with_a_traceparent_is_the_parent_of_its_last_checkpoint() -> None:
    job = Recorded()
    job.recorder.expect(TriggerId("stop"), PARENT)
    job.stop("stop")
    job.completed(1)

    assert job.named("checkpoint").parent == PARENT


def test_a_failed_checkpoint_has_its_reason_and_the_parts_that_it_reached() -> None:
    job = Recorded(chains=["a", "b"])
    job.trigger("t")
    job.acknowledge(1, "a")
    job.decline(1, AbortReason.UPLOAD_FAILED, "b")

    root = job.named("checkpoint")
    assert root.error is not None
    assert AbortReason.UPLOAD_FAILED.value in root.error
    assert (root.attributes["streamjob.acknowledged"], root.attributes["streamjob.chains"]) == (1, 2)
    assert children(job.spans, root) == ["chain a"]


@pytest.mark.parametrize("stored", [False, True])
def test_a_checkpoint_that_an_epoch_takes_to_its_end_has_failed(stored: bool) -> None:
    job = Recorded()
    job.trigger("t")
    job.acknowledge(1)
    if stored:
        job.stored(1)
    job.fail_chain()
    job.send(m.EpochEnded(now=9.0))

    assert job.named("checkpoint").error
    assert job.named("checkpoint").end == 9.0


def clock(*times: float) -> Iterator[float]:
    yield from times


def started(recorder: TraceRecorder, restored: int | None = 7) -> StartPhases:
    ticks = clock(100.0, 101.0, 103.0, 103.0, 106.0)
    start = StartPhases(EPOCH, lambda: next(ticks))
    recorder.starting(start, None if restored is None else CheckpointId(restored), TriggerId("first-output"))
    with start.part("download"):
        pass
    with start.part("session"):
        pass
    return start


def batch(begun: float, number: int = 0) -> BatchProgress:
    phases = Phases(offsets_ms=100, planning_ms=200, execution_ms=1500, logs_ms=150)
    return BatchProgress(batch=number, rows_in=42, duration_ms=2000, begun=begun, phases=phases)


def test_a_restore_lasts_until_its_first_batch_and_belongs_to_the_span_that_waits_for_it() -> None:
    job = Recorded(parent=PARENT)
    started(job.recorder)
    job.recorder.emitted(ChainUid("a"), batch(107.0))
    job.recorder.emitted(ChainUid("a"), batch(109.0, 1))

    restore = job.named("restore")
    assert (restore.start, restore.end, restore.parent) == (100.0, 109.0, PARENT)
    assert restore.attributes["streamjob.restored_checkpoint"] == 7
    assert sorted(children(job.spans, restore)) == ["download", "first batch", "session"]
    assert (job.named("download").start, job.named("download").end) == (101.0, 103.0)


def test_the_first_checkpoint_behind_a_restore_is_in_its_trace() -> None:
    job = Recorded(parent=PARENT)
    started(job.recorder)
    job.trigger("first-output")
    job.recorder.emitted(ChainUid("a"), batch(107.0))
    job.completed(1)

    assert job.named("checkpoint").parent == job.named("restore").context


def test_only_the_first_start_of_a_process_belongs_to_the_span_that_waits_for_it() -> None:
    job = Recorded(parent=PARENT)
    first = started(job.recorder)
    job.recorder.not_started(first, 107.0, "the chain failed")
    assert job.named("restore").error == "the chain failed"
    job.spans.clear()
    started(job.recorder, restored=None)
    job.recorder.emitted(ChainUid("a"), batch(107.0))

    assert job.named("start").parent is None


def test_a_start_that_came_to_its_first_batch_does_not_fail_later() -> None:
    job = Recorded()
    start = started(job.recorder)
    job.recorder.emitted(ChainUid("a"), batch(107.0))
    job.recorder.not_started(start, 200.0, "the chain failed")

    assert job.named("restore").error is None


@pytest.mark.parametrize(("share", "traced"), [(0.4, 0), (0.6, 1), (1.0, 1)])
def test_the_given_share_of_batches_is_traced_with_its_phases(share: float, traced: int) -> None:
    job = Recorded(share=share)
    job.recorder.emitted(ChainUid("a"), batch(10.0))

    found = [each for each in job.spans if each.name == "batch"]
    assert len(found) == traced
    if found:
        assert children(job.spans, found[0]) == ["offsets", "planning", "execution", "logs"]
        assert (found[0].start, found[0].end) == (10.0, 12.0)
        assert found[0].attributes["streamjob.rows"] == 42


def test_an_error_while_recording_is_logged_once_and_does_not_reach_the_job(caplog: pytest.LogCaptureFixture) -> None:
    def fail(spans: Sequence[Span]) -> None:
        raise ValueError("a defect")

    recorder = TraceRecorder(Traced(about={}, process="p", batches=1.0), fail, lambda trigger: None, lambda: 0.0)
    recorder.emitted(ChainUid("a"), batch(10.0))
    recorder.emitted(ChainUid("a"), batch(12.0, 1))

    assert [each.levelno for each in caplog.records] == [logging.ERROR]
