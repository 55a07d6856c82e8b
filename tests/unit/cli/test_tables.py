"""The output of `streamjob status` for people."""

from __future__ import annotations

import io

from rich.console import Console
from tests.unit.view.samples import (
    NOW,
    a_job,
    checkpoints,
    executors,
    read_through_a_channel,
    several_chains,
    with_partitions,
)

from streamjob.cli.tables import print_status
from streamjob.client.diagnosing import Circumstances, diagnose
from streamjob.client.models import CheckpointsView, JobState, JobView, RewritingView, SnapshotKind
from streamjob_runtime.control.terminal.plain import progress_line


def _lines(job: JobView, statistics: CheckpointsView) -> list[str]:
    file = io.StringIO()
    found = diagnose(job, statistics, Circumstances(now=NOW))
    print_status(job, statistics, found, now=NOW, console=Console(file=file, width=140, color_system=None))
    return [" ".join(line.split()) for line in file.getvalue().splitlines()]


def test_the_findings_come_first_each_on_a_line() -> None:
    well = _lines(a_job(), checkpoints("completed"))
    ill = _lines(a_job(state=JobState.RESTARTING, failure="no heap"), checkpoints("failed"))

    assert well[0] == "✓ Running: 45,210 records/s, last checkpoint 3 s ago"
    assert ill[0] == "! Restarting: no heap"
    assert ill[1].startswith("! Checkpoint 12 failed: a chain could not write")


def test_starts_of_the_last_hour_are_told_if_there_was_more_than_one() -> None:
    def up(starts: int | None) -> str:
        return next(line for line in _lines(a_job(starts=starts), checkpoints()) if line.startswith("up "))

    assert [up(None), up(1)] == ["up 2m 14s, 1 restart, epoch 3, attempt 0"] * 2
    assert up(9) == "up 2m 14s, 1 restart, epoch 3, attempt 0, 9 starts in the last hour"


def test_sums_say_since_when() -> None:
    assert "sums since 22:13:20 UTC, the start of this process" in _lines(a_job(), checkpoints())
    assert not [line for line in _lines(a_job(chains=()), checkpoints()) if line.startswith("sums")]


def test_a_job_of_one_chain_has_neither_channels_nor_backpressure() -> None:
    lines = _lines(a_job(), checkpoints("completed"))

    assert "chain records in /s out /s batch took" in lines
    assert "flights 1,234,567 45,210 23,456 812 41 1.3 s" in lines
    assert not [line for line in lines if "channel" in line]


def test_a_job_on_executors_shows_the_part_of_each() -> None:
    lines = _lines(a_job(executors=executors(2)), checkpoints("completed"))

    skews = "rows of state 1.5, bytes of state 1.4, records 1.0, work 1.2"
    assert f"executors 2 of 2, 1 lost; the most to the average: {skews}" in lines
    assert "executor host cores partitions rows state records in /s read busy" in lines
    assert "executor-0 10.0.0.0 2 12 1,200,000 12 MB 500,000 22,600 3.0 MB 95 %" in lines


def test_a_job_of_several_chains_shows_its_channels() -> None:
    lines = _lines(several_chains(), checkpoints("completed"))

    assert "hours 1,230,000 44,000 40,000 1,500 40 900 ms 72 %" in lines
    assert "flights → hours 0 0 B 0 % 1m 00s 0 ms" in lines
    assert "hours → report 12,345 64 MB 95 % 59m 00s 15 s" in lines


def test_what_is_not_known_of_a_channel_is_a_dash() -> None:
    _, channel = several_chains().channels
    unknown = channel.model_copy(update={"lag_ms": None, "work_seconds": None})

    assert "hours → report 12,345 64 MB 95 % – –" in _lines(several_chains(channels=(unknown,)), checkpoints())


def test_a_sink_shows_what_readers_see_of_its_output() -> None:
    lines = _lines(a_job(), checkpoints())

    assert "sink written published batches waiting last published took" in lines
    assert "report 23,456 20,000 3 checkpoint 14, 2 s ago 40 ms" in lines


def test_a_sink_at_least_once_shows_no_checkpoints_and_one_that_failed_its_errors() -> None:
    (sink,) = a_job().sinks
    changed = {"delivery": "at-least-once", "records": None, "last_published": None, "failures": 2}

    lines = _lines(a_job(sinks=(sink.model_copy(update=changed),)), checkpoints())

    assert "sink written published batches waiting last published took errors" in lines
    assert "report – 20,000 – – – 2" in lines


def test_a_finished_chain_says_so() -> None:
    first, *others = several_chains().chains
    job = several_chains(chains=(first.model_copy(update={"finished": True}), *others))

    assert "flights 1,234,567 45,210 23,456 812 41 1.3 s 0 % finished" in _lines(job, checkpoints())


def test_the_lag_of_an_archive_is_not_shown() -> None:
    assert "flights flights 2013-03-04 12:00:00 –" in _lines(a_job(), checkpoints())


def _with_first_input(job: JobView, **changes: object) -> JobView:
    chain = job.chains[0]
    inputs = (chain.inputs[0].model_copy(update=changes), *chain.inputs[1:])
    return job.model_copy(update={"chains": (chain.model_copy(update={"inputs": inputs}), *job.chains[1:])})


def test_a_lag_is_unknown_until_the_chain_has_run_a_batch() -> None:
    job = _with_first_input(a_job(), watermark_ms=None, lag_ms=None)
    first = job.model_copy(update={"chains": (job.chains[0].model_copy(update={"last_batch_ms": None}),)})

    assert "flights flights – unknown" in _lines(first, checkpoints())
    assert "flights flights – –" in _lines(job, checkpoints())


def test_what_is_unread_of_a_topic_is_unknown_until_a_batch_has_told_it() -> None:
    graph = {"sources": [{"uid": "flights", "format": "kafka"}, {"uid": "weather", "format": "csv"}]}

    lines = _lines(_with_first_input(a_job(graph=graph), lag_ms=60_000), checkpoints())

    assert "chain input watermark lag unread" in lines
    assert "flights flights 2013-03-04 12:00:00 1m 00s unknown" in lines
    assert "flights weather 2013-03-04 12:00:00 ended" in lines
    assert "chain input watermark lag" in _lines(a_job(), checkpoints())


def test_an_idle_input_that_holds_the_watermark_back_is_named() -> None:
    job = _with_first_input(a_job(), lag_ms=60_000, holds_watermark_back=True, idle_seconds=134.0)

    line = "flights flights 2013-03-04 12:00:00 1m 00s idle for 2m 14s, holds the watermark back"
    assert line in _lines(job, checkpoints())
    assert "flights idle for 2m 14s, holds the watermark back" in progress_line(job, NOW)


def test_an_idle_input_that_is_left_out_of_the_watermark_is_named() -> None:
    job = _with_first_input(a_job(), lag_ms=60_000, idle=True, idle_seconds=134.0)

    line = "flights flights 2013-03-04 12:00:00 1m 00s idle for 2m 14s, left out of the watermark"
    assert line in _lines(job, checkpoints())
    assert "flights idle for 2m 14s, left out of the watermark" in progress_line(job, NOW)


def test_late_records_and_those_ahead_of_the_clock_are_shown_for_each_input() -> None:
    strays = {"records_late": 1200, "late_by_ms": 28_800_000, "records_ahead": 1, "farthest_ms": 32_472_144_000_000}
    job = _with_first_input(a_job(), lag_ms=60_000, **strays)

    late, ahead = "late 1,200 (up to 8h 00m)", "ahead of the clock 1 (up to 2999-01-01 00:00:00)"
    assert f"flights flights 2013-03-04 12:00:00 1m 00s {late}; {ahead}" in _lines(job, checkpoints())
    assert f"flights {late}" in progress_line(job, NOW)
    assert f"flights {ahead}" in progress_line(job, NOW)


def test_records_that_were_dropped_as_late_are_shown_for_each_operator() -> None:
    chain = a_job().chains[0].model_copy(update={"records_dropped_late": {"hours": 1200, "report": 0}})
    job = a_job(chains=(chain,))

    lines = _lines(job, checkpoints())

    assert "chain operator dropped as late" in lines
    assert "flights hours 1,200" in lines
    assert "dropped as late 1,200" in progress_line(job, NOW)
    assert not [line for line in _lines(a_job(), checkpoints()) if "late" in line]


def test_snapshots_are_called_by_their_kind() -> None:
    last = a_job().last_checkpoint
    assert last is not None
    final = a_job(last_checkpoint=last.model_copy(update={"kind": SnapshotKind.FINAL}))

    lines = _lines(final, checkpoints("completed", "unaligned", "completed"))

    assert [line.split(" completed")[0] for line in lines if line[:2] in ("12", "13", "14")] == [
        "14 final",
        "13 unaligned checkpoint",
        "12 checkpoint",
    ]


def test_a_rewrite_of_the_state_is_said() -> None:
    job = a_job(state=JobState.RESTORING, rewriting=RewritingView(partitions=4, max_parallelism=8))

    assert "rewriting the state, from 4 partitions to 8" in _lines(job, checkpoints())
    assert not [line for line in _lines(a_job(), checkpoints()) if line.startswith("rewriting")]


def test_the_partitions_of_a_topic_show_positions_and_what_is_unread_the_most_first() -> None:
    lines = _lines(with_partitions([5, 1200]), checkpoints())

    header = lines.index("source partition position unread")
    assert lines[header + 2 : header + 4] == ["flights departures 1 1001 1,200", "flights departures 0 1000 5"]


def test_a_topic_that_is_read_through_a_channel_keeps_its_figures() -> None:
    graph = {"sources": [{"uid": "flights", "format": "kafka"}]}
    job = read_through_a_channel(with_partitions([5, 1200]).model_copy(update={"graph": graph}))

    lines = _lines(job, checkpoints())

    header = lines.index("source partition position unread")
    assert lines[header + 2 : header + 4] == ["flights departures 1 1001 1,200", "flights departures 0 1000 5"]
    assert not [line for line in lines if "unknown" in line]
    assert "unread flights 1,205" in progress_line(job, NOW)


def test_of_many_partitions_the_worst_are_shown_and_the_rest_is_added_up() -> None:
    lines = _lines(with_partitions(range(20)), checkpoints())

    assert "flights departures 19 1019 19" in lines
    assert "and 8 more 28" in lines
