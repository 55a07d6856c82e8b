"""The load of a running job, as automatic scaling takes it, from the answers of its control API."""

from __future__ import annotations

from streamjob.autoscaling import ChainLoad, LoadReport, SourceLoad
from streamjob.client.models import ChainView, InputView, JobState, JobView


def load_of(job: JobView, *, now: float, interval: float | None, slots: int | None = None) -> LoadReport:
    """Return the load of a job.

    Args:
        now: seconds since 1970.
        interval: seconds from one checkpoint to the next; None without periodic ones, or if unknown.
        slots: its task slots, if its graph does not contain them, or fewer are in use.
    """
    last, in_use = job.last_checkpoint, _slots_in_use(job)
    known = slots or in_use or int(job.graph.get("parallelism") or 1)
    return LoadReport(
        time=now,
        slots=known,
        rows=job.records_in,
        chains=tuple(
            ChainLoad(
                uid=chain.uid,
                rows=chain.records_in,
                batches=chain.batches,
                seconds=chain.batch_seconds,
                backpressured_seconds=chain.backpressured_seconds,
            )
            for chain in job.chains
        ),
        sources=tuple(_source(each) for chain in job.chains for each in _sources(chain)),
        running=job.state is JobState.RUNNING,
        process=f"{job.start_time:.3f}",
        busy_with=_busy_with(job),
        executor_slots=_executor_slots(job),
        slots_in_use=in_use,
        max_parallelism=job.graph.get("maxParallelism"),
        stateful=_stateful(job),
        state_bytes=last.state_size if last is not None else None,
        checkpoint_age=max(0.0, now - last.completed) if last is not None else None,
        checkpoint_interval=interval,
    )


def _executor_slots(job: JobView) -> int | None:
    fleet = () if job.executors is None else job.executors.executors
    return max((each.cores for each in fleet), default=None)


def _slots_in_use(job: JobView) -> int | None:
    """Return the slots of the executors that take part; None if the job computes in its own process."""
    if job.executors is None or not job.executors.wanted:
        return None
    fleet = job.executors.executors
    partitions = sum(each.state_partitions for each in fleet)
    # State moves to an executor some time after it has joined, unless there are too few partitions.
    waits_for_state = partitions >= len(fleet)
    return sum(each.cores for each in fleet if each.state_partitions or not waits_for_state or not partitions)


def _stateful(job: JobView) -> bool | None:
    """Return whether a chain has state, which its batches tell; None before each has had one."""
    times = [chain.batch_times for chain in job.chains]
    if any(each is not None and each.state_commit is not None for each in times):
        return True
    return False if times and all(times) else None


def _sources(chain: ChainView) -> list[InputView]:
    return [each for each in chain.inputs if each.chain is None and not each.ended]


def _busy_with(job: JobView) -> str:
    if job.rewriting is not None:
        return "a rewrite of its state"
    return "a migration of its state" if job.migrating is not None else ""


def _source(source: InputView) -> SourceLoad:
    parts = source.partitions
    lags = [part.lag for part in parts if part.lag is not None]
    return SourceLoad(
        uid=source.uid,
        lag=_lag(source),
        record_bytes=source.record_bytes,
        position=sum(part.position for part in parts) if parts else None,
        partitions=len(parts) or None,
        largest_lag=max(lags) if lags else None,
    )


def _lag(source: InputView) -> float | None:
    """Return the unread records; those in files are estimated from the size of the records before them."""
    if source.bytes_unread is None:
        return source.lag_records
    if not source.bytes_unread:
        return 0.0
    return source.bytes_unread / source.record_bytes if source.record_bytes else None
