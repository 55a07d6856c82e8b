"""Says in one sentence how a job is doing, from what the control API shows of it; pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from streamjob.client import formatting
from streamjob.client.inputs import first_behind, restored_note, running_batch
from streamjob.client.models import (
    BatchTimesView,
    ChainView,
    CheckpointDetail,
    CheckpointingView,
    CheckpointsView,
    InputView,
    JobState,
    JobView,
)
from streamjob.client.page_models import Diagnosis, Reason, ReasonCode, Severity
from streamjob.durations import parse_duration
from streamjob.ids import ChainUid

STORE_WINDOW = 300.0
"""Seconds in which failures of the store count."""
_BEHIND, _FAR_BEHIND = 60.0, 600.0
"""Seconds of lag at which a job is behind."""
_BEHIND_IN_EVENT_TIME, _ARCHIVE = 300.0, 86_400.0
"""Seconds that event time may lag behind the clock; records older than a day come from an archive."""
_SILENT = 10.0
"""Seconds without a record after which the event time of a source says nothing about the job."""
_BUSY, _BACKPRESSURED = 0.5, 0.3
"""Shares of the time at which a chain counts as busy, or as held up by its readers."""
_ALWAYS_BUSY, _FALLING_BACK = 0.95, 0.1
"""Share of the time, and seconds per second, at which event time falls behind for want of speed."""
_FAR_TOO_SLOW, _SLOW_BATCH = 6.0, 30.0
"""How many times its target a batch takes, and at least how many seconds, before this is a finding."""
_LARGE_PART = 0.4
"""Share of a batch at which a phase is worth mentioning."""
_RECENT_RESTART, _LOOP_WINDOW = 300.0, 900.0
LOOP_RESTARTS, LOOP_STARTS = 3, 6
"""Restarts of one process in a while, and starts in the last hour, above which a job fails again and again."""
_STORE_FAILURES = 3
_FAILURES_IN_A_ROW = 3
_LONG_START = 300.0
_LONG_SAVEPOINT = 30.0
_UNPUBLISHED = 60.0
_FEW_LATE = 0.01
"""Share of a chain's records that may be late."""
_FEW_PARTITIONS = 3
_MINUTE = 60.0

_SEVERITIES: tuple[Severity, ...] = ("critical", "attention", "ok")
_CODES: tuple[ReasonCode, ...] = get_args(ReasonCode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Facts that a job's view does not show; times are in seconds since 1970.

    Args:
        policy: the checkpointing policy in force; None if it is not known.
        restarts: the times of the restarts that are known.
        store_failures: the number of failed calls of the store in the last five minutes.
        store_error: the error of the last one.
        lag_change: by how many seconds the lag grows per second; negative if the job catches up, None if not known.
        event_lag_change: the same of the lag of event time.
        batch_target: the seconds that a batch is to take; 0 without a target.
    """

    now: float
    policy: CheckpointingView | None = None
    restarts: Sequence[float] = ()
    store_failures: int = 0
    store_error: str = ""
    lag_change: float | None = None
    event_lag_change: float | None = None
    batch_target: float = 0.0


def diagnose(job: JobView, checkpoints: CheckpointsView, known: Circumstances) -> Diagnosis:
    """Return the condition of a job, with every finding.

    Args:
        known: what these do not show.
    """
    reasons = [*_of_state(job, known)]
    if not job.state.terminal:
        reasons += _starts(job, known)
    if job.state in (JobState.RUNNING, JobState.FINISHING, JobState.STOPPING, JobState.RESTARTING):
        reasons += _restarts(job, known)
        reasons += _checkpoints(job, checkpoints, known)
        reasons += _store(known)
    if job.state is JobState.RUNNING:
        reasons += _behind(job, known) or [*_falling_behind(job, known), *_slow_batches(job, known)][:1]
        reasons += _sinks(job, known)
        reasons += _event_times(job)
        reasons += _held_back(job)
        reasons += _unread_files(job)
    if not reasons:
        reasons = [_reason("all-well", "ok", _all_well(job, known))]
    reasons.sort(key=lambda each: (_SEVERITIES.index(each.severity), _CODES.index(each.code)))
    return Diagnosis(severity=reasons[0].severity, sentence=reasons[0].sentence, reasons=tuple(reasons))


def lag_seconds(job: JobView) -> float | None:
    """Return how far the job is behind, in seconds: the largest lag of a source; None if none is known."""
    return max((source.lag_seconds for _, source in _sources(job) if source.lag_seconds is not None), default=None)


def lag_records(job: JobView) -> int | None:
    """Return the number of unread records of all sources; None if none is known."""
    known = [source.lag_records for _, source in _sources(job) if source.lag_records is not None]
    return sum(known) if known else None


def _reason(
    code: ReasonCode,
    severity: Severity,
    sentence: str,
    *,
    chain: ChainView | None = None,
    source: InputView | None = None,
) -> Reason:
    return Reason(
        code=code,
        severity=severity,
        sentence=sentence,
        chain=None if chain is None else chain.uid,
        source=None if source is None else source.uid,
    )


def _of_state(job: JobView, known: Circumstances) -> Iterator[Reason]:
    state = job.state
    since = known.now - (job.start_time if job.state_since is None else job.state_since)
    so_far = formatting.duration(max(0.0, since))
    failure = formatting.first_line(job.failure)
    last = job.last_checkpoint
    match state:
        case JobState.FAILED:
            yield _reason("failed", "critical", _with("Failed", failure))
        case JobState.SUPERSEDED:
            why = failure or "another process runs this job now"
            yield _reason("superseded", "critical", _with("Superseded", why))
        case JobState.FINISHED:
            counted = f"{formatting.count(job.records_in)} records in, {formatting.count(job.records_out)} out"
            yield _reason("finished", "ok", f"Finished: all input is processed, {counted}")
        case JobState.STOPPED:
            where = "without a checkpoint" if last is None else f"with {last.kind} {last.id}"
            yield _reason("stopped", "ok", f"Stopped {where}")
        case JobState.STOPPING:
            yield _reason("stopping", "ok", f"Stopping: the last snapshot has been under way for {so_far}")
        case JobState.RUNNING if (replaying := job.replaying) is not None:
            yield _reason(
                "replaying", "ok", f"Running published batches again: {replaying.done} of {replaying.batches}"
            )
        case JobState.FINISHING:
            yield _reason("finishing", "ok", "Finishing: all input is processed, the final checkpoint is under way")
        case JobState.CREATED | JobState.RESTORING:
            yield _start(job, since, so_far)
        case JobState.RESTARTING if len(_recent(known.restarts, known.now, _LOOP_WINDOW)) <= LOOP_RESTARTS:
            yield _reason("restarting", "attention", _with("Restarting", failure))
        case _:
            pass


def _start(job: JobView, since: float, so_far: str) -> Reason:
    severity: Severity = "ok" if since < _LONG_START else "attention"
    if (rewriting := job.rewriting) is not None:
        partitions = f"from {rewriting.partitions} to {rewriting.max_parallelism} partitions"
        return _reason("rewriting", "ok", f"Rewriting the state {partitions} for {so_far}")
    if (migrating := job.migrating) is not None:
        whose = ", ".join(migrating.operators)
        return _reason("migrating", "ok", f"Migrating the state of {whose} for {so_far}: {migrating.told}")
    if job.waiting is not None:
        does = "Preparing" if job.waiting == "preparing" else "Prepared, and waiting"
        return _reason("waiting", "ok", f"{does} for the request to start, for {so_far}")
    if job.state is JobState.CREATED:
        return _reason("starting", severity, f"Starting for {so_far}")
    source = job.restored_from
    what = "the last snapshot" if source is None else f"{source.kind} {source.id}"
    return _reason("restoring", severity, f"Restoring {what} for {so_far}")


def _restarts(job: JobView, known: Circumstances) -> Iterator[Reason]:
    recent = _recent(known.restarts, known.now, _LOOP_WINDOW)
    failure = formatting.first_line(job.failure)
    if len(recent) > LOOP_RESTARTS:
        sentence = f"Restarted {len(recent)} times in 15 minutes"
        yield _reason("restart-loop", "critical", sentence + (f", the last time after: {failure}" if failure else ""))
    elif recent and job.state is JobState.RUNNING and known.now - recent[-1] < _RECENT_RESTART:
        sentence = f"Restarted {formatting.ago(known.now - recent[-1])}"
        yield _reason("restarting", "attention", _with(sentence, failure))


def _starts(job: JobView, known: Circumstances) -> Iterator[Reason]:
    """Find a job whose processes end and start again and again; a single one knows only its own restarts."""
    in_this_process = len(_recent(known.restarts, known.now, _LOOP_WINDOW))
    if job.starts is not None and job.starts > LOOP_STARTS and in_this_process <= LOOP_RESTARTS:
        yield _reason("restart-loop", "attention", f"Started {job.starts} times in the last hour")


def _recent(times: Sequence[float], now: float, seconds: float) -> list[float]:
    return sorted(time for time in times if time > now - seconds)


def _checkpoints(job: JobView, checkpoints: CheckpointsView, known: Circumstances) -> Iterator[Reason]:
    failed = _failed_in_a_row(checkpoints)
    if failed:
        why = formatting.first_line(failed[0].failure_message)
        many = len(failed) >= _FAILURES_IN_A_ROW
        what = f"The last {len(failed)} checkpoints failed" if len(failed) > 1 else f"Checkpoint {failed[0].id} failed"
        yield _reason("checkpoints-failing", "critical" if many else "attention", _with(what, why))
    policy = known.policy
    if job.state is not JobState.RUNNING or policy is None or policy.interval is None:
        return
    last = job.last_checkpoint
    taken = 0.0 if last is None else last.duration_ms / 1000
    # A checkpoint begins no sooner than the last one has ended, and its age counts from its end.
    expected = max(policy.interval, taken + policy.min_pause) + taken
    begun = job.start_time if job.state_since is None else job.state_since
    age = known.now - (begun if last is None else max(last.completed, begun))
    waits = savepoint_waits(checkpoints, known.now)
    if age <= 2 * expected + 5 and waits is None:
        return
    severity: Severity = "critical" if age > max(4 * expected, _MINUTE) else "attention"
    if waits is not None:
        old = "" if last is None else f": the last one, {last.id}, is {formatting.duration(age)} old"
        yield _reason("checkpoint-old", severity, waits + old)
        return
    every = f"with one due every {formatting.duration(policy.interval)}"
    if last is None:
        sentence = f"No checkpoint in {formatting.duration(age)}, {every}"
    else:
        old = formatting.duration(known.now - last.completed)
        sentence = f"The last checkpoint, {last.id}, is {old} old, {every}"
    yield _reason("checkpoint-old", severity, sentence + _waits_for(checkpoints))


def savepoint_waits(checkpoints: CheckpointsView, now: float) -> str | None:
    """Return a sentence about a savepoint that has waited for chains for long, and holds up periodic checkpoints.

    None if there is none. `now` is in seconds since 1970.
    """
    running = _running(checkpoints)
    if running is None or not running.is_savepoint or running.num_acknowledged_subtasks == running.num_subtasks:
        return None
    waited = now - running.trigger_timestamp / 1000
    if waited < _LONG_SAVEPOINT:
        return None
    missing = running.num_subtasks - running.num_acknowledged_subtasks
    for_what = (
        f"{missing} of {running.num_subtasks} chains to process what is in flight before them"
        if running.num_subtasks > 1
        else "the batch that runs"
    )
    return (
        f"Savepoint {running.id} has waited {formatting.duration(waited)} for {for_what}, and no checkpoint begins "
        "before it ends"
    )


def _running(checkpoints: CheckpointsView) -> CheckpointDetail | None:
    return next((each for each in checkpoints.history if each.class_name == "in_progress"), None)


def _waits_for(checkpoints: CheckpointsView) -> str:
    """Return how far the running checkpoint has come."""
    running = _running(checkpoints)
    if running is None:
        return "; none is under way"
    missing = running.num_subtasks - running.num_acknowledged_subtasks
    of = f"{missing} of {running.num_subtasks} chains"
    return f"; checkpoint {running.id} waits for {of}" if missing else f"; checkpoint {running.id} is being completed"


def _failed_in_a_row(checkpoints: CheckpointsView) -> list[CheckpointDetail]:
    """Return the checkpoints that failed after the last completed one, newest first."""
    failed: list[CheckpointDetail] = []
    for each in checkpoints.history:
        if each.class_name == "completed":
            break
        if each.class_name == "failed":
            failed.append(each)
    return failed


def _store(known: Circumstances) -> Iterator[Reason]:
    if known.store_failures >= _STORE_FAILURES:
        sentence = f"{known.store_failures} calls of the store failed in 5 minutes"
        why = formatting.first_line(known.store_error)
        yield _reason("store-errors", "attention", sentence + (f", the last one with: {why}" if why else ""))


def _behind(job: JobView, known: Circumstances) -> list[Reason]:
    lagging = [(chain, source, lag) for chain, source in _sources(job) if (lag := source.lag_seconds) is not None]
    if lagging:
        chain, source, lag = max(lagging, key=lambda each: each[2])
        times = chain.batch_times
        # Rows that arrive during a batch wait for the next one; files, while few come, up to a minute for a search.
        least = _BEHIND if source.files_unread is None else 2 * _BEHIND
        if lag < max(least, 3 * (0.0 if times is None else times.seconds)):
            return []
        catching_up = known.lag_change is not None and known.lag_change < -0.05
        severity: Severity = "critical" if lag >= _FAR_BEHIND and not catching_up else "attention"
        how = f"Behind by {formatting.duration(lag)}"
        if catching_up and known.lag_change is not None:
            how = f"{how}, catching up in about {formatting.duration(lag / -known.lag_change)}"
        elif known.lag_change is not None and known.lag_change > 0.05:
            how = f"{how} and falling back"
    else:
        late = _event_lags(job)
        if not late or late[-1][2] < _BEHIND_IN_EVENT_TIME:
            return []
        chain, source, lag = late[-1]
        severity, how = "attention", f"Behind by {formatting.duration(lag)} of event time"
    slow = bottleneck(job, chain.uid)
    return [_reason("behind", severity, f"{how}: {_cause(job, slow)}", chain=slow, source=source)]


def _falling_behind(job: JobView, known: Circumstances) -> Iterator[Reason]:
    """Find a chain without a pause whose event time falls behind, however much of its input is read."""
    late = _event_lags(job)
    if not late or known.event_lag_change is None or known.event_lag_change < _FALLING_BACK:
        return
    chain, source, lag = late[-1]
    slow = bottleneck(job, chain.uid)
    if slow.busy >= _ALWAYS_BUSY and lag >= _BEHIND:
        how = f"Event time is {formatting.duration(lag)} behind and falling back"
        yield _reason("behind", "attention", f"{how}: {_cause(job, slow)}", chain=slow, source=source)


def _slow_batches(job: JobView, known: Circumstances) -> Iterator[Reason]:
    """Find the chain whose batches take far longer than they are to take."""
    if not known.batch_target:
        return
    taking = [(max(_mean(chain), chain.running_seconds or 0.0), chain) for chain in job.chains if chain.busy >= _BUSY]
    seconds, slow = max(taking, key=lambda each: each[0], default=(0.0, None))
    if slow is not None and seconds >= max(_FAR_TOO_SLOW * known.batch_target, _SLOW_BATCH):
        running = running_batch(slow) if seconds > _mean(slow) else ""
        what = running.capitalize() if running else f"Batches take {formatting.duration(seconds)}"
        how = f"{what}, with a target of {formatting.duration(known.batch_target)}"
        yield _reason("behind", "attention", f"{how}: {_cause(job, slow)}", chain=slow)


def _mean(chain: ChainView) -> float:
    return 0.0 if chain.batch_times is None else chain.batch_times.seconds


def event_lag_seconds(job: JobView) -> float | None:
    """Return the largest lag of event time of a source that brings records, in seconds; None if none is known."""
    late = _event_lags(job)
    return late[-1][2] if late else None


def _event_lags(job: JobView) -> list[tuple[ChainView, InputView, float]]:
    """Return the sources that bring records and have a lag of event time, with their chains; the largest lag last."""
    late = [(chain, source, lag) for chain, source in _sources(job) if (lag := _event_lag(job, source)) is not None]
    return sorted(late, key=lambda each: each[2])


def _event_lag(job: JobView, source: InputView) -> float | None:
    """Return the seconds by which the event time of an active source lags, without the delay of its watermark."""
    if source.lag_ms is None or source.idle_seconds is None or source.idle_seconds > _SILENT:
        return None
    lag = max(0.0, source.lag_ms / 1000 - _delay(job, source))
    return None if lag >= _ARCHIVE else lag


def _delay(job: JobView, source: InputView) -> float:
    watermarks = [each.get("watermark") for each in job.graph.get("sources", ()) if each.get("uid") == source.uid]
    return next((parse_duration(each["delay"]) for each in watermarks if each), 0.0)


def bottleneck(job: JobView, start: ChainUid) -> ChainView:
    """Return the chain that holds up a chain: where following full channels leads."""
    chains = {chain.uid: chain for chain in job.chains}
    passed: set[ChainUid] = set()
    at = start
    while at not in passed:
        passed.add(at)
        readers = [each for each in job.channels if each.source == at and not each.feedback]
        if chains[at].backpressured < _BACKPRESSURED or not readers:
            break
        at = max(readers, key=lambda each: each.fill).target
    return chains[at]


def _cause(job: JobView, chain: ChainView) -> str:
    busy = f"busy {formatting.percent(chain.busy)}"
    if chain.busy < _BUSY:
        return f"chain {chain.uid} is only {busy}, so a limit of its source or too few slots may hold it back"
    who = f"chain {chain.uid} is the bottleneck ({busy})" if len(job.chains) > 1 else f"chain {chain.uid} is {busy}"
    phase = largest_phase(chain.batch_times)
    return f"{who}, {phase}" if phase else who


def largest_phase(times: BatchTimesView | None) -> str:
    """Return the phase that takes most of a batch, as a clause; empty if none takes a large part."""
    if times is None or times.seconds <= 0:
        return ""
    in_sinks = sum(times.sinks.values())
    parts = {
        "finding new input takes": times.offsets,
        "planning takes": times.planning,
        "writing Spark's logs takes": times.logs,
        "its computation takes": max(0.0, times.execution - times.waiting - in_sinks),
    }
    for sink, seconds in times.sinks.items():
        alone = "its sink takes" if len(times.sinks) == 1 else f"its sink {sink} takes"
        parts["computing and writing take" if times.sinks_compute else alone] = seconds
    name, seconds = max(parts.items(), key=lambda part: part[1])
    share = min(1.0, seconds / times.seconds)
    return f"{name} {formatting.percent(share)} of each batch" if share >= _LARGE_PART else ""


def _sinks(job: JobView, known: Circumstances) -> Iterator[Reason]:
    last = job.last_checkpoint
    for sink in job.sinks:
        published = sink.last_published
        behind = last is not None and (published is None or published.id < last.id)
        since = max(job.start_time, published.time if published is not None else 0.0)
        # Checkpoints that do not complete are a finding of their own.
        overdue = last is not None and known.now - last.completed > _UNPUBLISHED
        if sink.delivery == "exactly-once" and sink.batches_waiting and behind and overdue:
            waiting = f"{formatting.count(sink.batches_waiting)} batches wait"
            errors = f", and {formatting.count(sink.failures)} of its calls failed" if sink.failures else ""
            sentence = f"Sink {sink.uid} has published nothing for {formatting.duration(known.now - since)}: {waiting}"
            yield Reason(code="sink-not-publishing", severity="attention", sentence=sentence + errors, sink=sink.uid)


def _event_times(job: JobView) -> Iterator[Reason]:
    drop = any(rows for chain in job.chains for rows in chain.records_dropped_late.values())
    for chain in job.chains:
        for each in chain.inputs:
            if drop and each.records_late > _FEW_LATE * chain.records_in:
                share = f"{formatting.count(each.records_late)} of {formatting.count(chain.records_in)} records"
                by = formatting.duration((each.late_by_ms or 0) / 1000)
                sentence = f"Operators drop late rows: {share} came late from source {each.uid}, by up to {by}"
                yield _reason("rows-dropped-late", "attention", sentence, chain=chain, source=each)
            if each.records_ahead:
                farthest = formatting.event_time(each.farthest_ms)
                many = formatting.count(each.records_ahead)
                sentence = (
                    f"Source {each.uid} has brought event times far ahead of the clock, {many} in all, up to "
                    f"{farthest}: they do not move the watermark"
                )
                yield _reason("times-ahead", "attention", sentence, chain=chain, source=each)


def _held_back(job: JobView) -> Iterator[Reason]:
    for chain in job.chains:
        for each in chain.inputs:
            if each.holds_watermark_back:
                idle = formatting.duration(each.idle_seconds or 0.0)
                sentence = (
                    f"Input {each.uid} of chain {chain.uid} has brought nothing for {idle} and holds the watermark back"
                )
                source = first_behind(job, each)
                if source is not each:
                    sentence += f": its own comes from source {source.uid}"
                known = source if source.chain is None else None
                yield _reason("watermark-held-back", "attention", sentence, chain=chain, source=known)
            silent = [part for part in each.partitions if part.holds_watermark_back]
            if silent:
                idle = formatting.duration(min(part.idle_seconds or 0.0 for part in silent))
                which = ", ".join(f"partition {part.topic}/{part.partition}" for part in silent[:_FEW_PARTITIONS])
                more = f" and {len(silent) - _FEW_PARTITIONS} more" if len(silent) > _FEW_PARTITIONS else ""
                sentence = (
                    f"Source {each.uid} has got nothing from {which}{more} for {idle}, which holds its watermark back: "
                    "give the watermark an idleTimeout"
                )
                yield _reason("watermark-held-back", "attention", sentence, chain=chain, source=each)


def _unread_files(job: JobView) -> Iterator[Reason]:
    for chain, each in _sources(job):
        if number := each.files_changed:
            many = "1 file" if number == 1 else f"{formatting.count(number)} files"
            sentence = (
                f"{many} of source {each.uid} changed after being read and will not be read again: "
                f"{each.changed_file}{', …' if number > 1 else ''}"
            )
            yield _reason("files-changed", "attention", sentence, chain=chain, source=each)


def _all_well(job: JobView, known: Circumstances) -> str:
    lag = lag_seconds(job)
    how = "Running" if lag is None else "Keeping up"
    rate = f"{formatting.count(job.records_in_per_second)} records/s"
    last, restored = job.last_checkpoint, job.restored_from
    if last is not None:
        checkpoint = f"last checkpoint {formatting.ago(known.now - last.completed)}"
    else:
        checkpoint = "no checkpoint yet" if restored is None else restored_note(restored, known.now)
    several = len(job.chains) > 1
    running = [
        f"{text} in chain {chain.uid}" if several else text for chain in job.chains if (text := running_batch(chain))
    ]
    return ", ".join([f"{how}: {rate}", checkpoint, *running])


def _sources(job: JobView) -> list[tuple[ChainView, InputView]]:
    """Return the sources that have not ended and have no end, with their chains."""
    bounded = {each["uid"] for each in job.graph.get("sources", ()) if each.get("bounded")}
    return [
        (chain, each)
        for chain in job.chains
        for each in chain.inputs
        if each.chain is None and not each.ended and each.uid not in bounded
    ]


def _with(sentence: str, more: str) -> str:
    return f"{sentence}: {more}" if more else sentence
