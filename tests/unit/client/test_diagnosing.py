"""The one sentence about a job, as a table of situations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.view.samples import CHAIN, NOW, START, a_job, checkpoints, several_chains, with_inputs

from streamjob.client.diagnosing import Circumstances, diagnose
from streamjob.client.models import (
    BatchTimesView,
    CheckpointingView,
    CheckpointsView,
    JobState,
    JobView,
    MigratingView,
    PartitionView,
    ReplayingView,
    RewritingView,
)
from streamjob.client.page_models import Diagnosis
from streamjob.ids import ChainUid, CheckpointId, OperatorUid

REPORT = ChainUid("report")
SINK_TAKES_MOST = BatchTimesView(batches=20, seconds=5, execution=4.5, sinks={OperatorUid("report"): 3.55})


def of(job: JobView, statistics: CheckpointsView | None = None, **known: Any) -> Diagnosis:
    circumstances: dict[str, Any] = {"now": NOW, "policy": CheckpointingView(interval=10)} | known
    return diagnose(job, statistics or checkpoints("completed"), Circumstances(**circumstances))


def sentences(diagnosis: Diagnosis) -> dict[str, str]:
    return {each.code: each.sentence for each in diagnosis.reasons}


def lagging(job: JobView, seconds: float | None, **of_first_chain: Any) -> JobView:
    """Return a job whose first source is behind."""
    first, *others = job.chains
    source, *rest = first.inputs
    source = source.model_copy(update={"lag_seconds": seconds, "lag_records": 1000})
    changed = first.model_copy(update={"inputs": (source, *rest)} | of_first_chain)
    return job.model_copy(update={"chains": (changed, *others)})


def held_up_by_the_report(seconds: float) -> JobView:
    """Return a job of three chains, the last of which holds up the others."""
    job = lagging(several_chains(), seconds, backpressured=0.8)
    flights, hours, report = job.chains
    report = report.model_copy(update={"busy": 0.98, "batch_times": SINK_TAKES_MOST})
    return job.model_copy(update={"chains": (flights, hours, report)})


@pytest.mark.parametrize(
    ("changes", "known", "severity", "sentence"),
    [
        ({}, {}, "ok", "Running: 45,210 records/s, last checkpoint 3 s ago"),
        (
            {"last_checkpoint": None, "restored_from": None},
            {"policy": None},
            "ok",
            "Running: 45,210 records/s, no checkpoint yet",
        ),
        (
            {"last_checkpoint": None},
            {"policy": None},
            "ok",
            "Running: 45,210 records/s, restored from checkpoint 12, completed 40 s ago",
        ),
        ({"state": JobState.CREATED, "state_since": NOW - 12}, {}, "ok", "Starting for 12 s"),
        ({"state": JobState.CREATED, "state_since": NOW - 600}, {}, "attention", "Starting for 10m 00s"),
        ({"state": JobState.RESTORING, "state_since": NOW - 4}, {}, "ok", "Restoring checkpoint 12 for 4.0 s"),
        (
            {"state": JobState.RESTORING, "state_since": NOW - 4, "restored_from": None},
            {},
            "ok",
            "Restoring the last snapshot for 4.0 s",
        ),
        (
            {
                "state": JobState.RESTORING,
                "state_since": NOW - 40,
                "rewriting": RewritingView(partitions=8, max_parallelism=16),
            },
            {},
            "ok",
            "Rewriting the state from 8 to 16 partitions for 40 s",
        ),
        (
            {
                "state": JobState.RESTORING,
                "state_since": NOW - 40,
                "migrating": MigratingView(operators=(OperatorUid("counts"),), step="writing", done=3, partitions=8),
            },
            {},
            "ok",
            "Migrating the state of counts for 40 s: writing, 3 of 8 partitions",
        ),
        (
            {"replaying": ReplayingView(done=3, batches=8)},
            {},
            "ok",
            "Running published batches again: 3 of 8",
        ),
        ({"state": JobState.FAILED, "failure": "disk full\nTraceback"}, {}, "critical", "Failed: disk full"),
        (
            {"state": JobState.SUPERSEDED, "failure": None},
            {},
            "critical",
            "Superseded: another process runs this job now",
        ),
        (
            {"state": JobState.FINISHED},
            {},
            "ok",
            "Finished: all input is processed, 1,234,567 records in, 23,456 out",
        ),
        ({"state": JobState.STOPPED}, {}, "ok", "Stopped with checkpoint 14"),
        ({"state": JobState.STOPPED, "last_checkpoint": None}, {}, "ok", "Stopped without a checkpoint"),
        (
            {"state": JobState.STOPPING, "state_since": NOW - 20},
            {},
            "ok",
            "Stopping: the last snapshot has been under way for 20 s",
        ),
        (
            {"state": JobState.FINISHING},
            {},
            "ok",
            "Finishing: all input is processed, the final checkpoint is under way",
        ),
        ({"state": JobState.RESTARTING, "failure": "no heap"}, {}, "attention", "Restarting: no heap"),
        ({"failure": "no heap"}, {"restarts": [NOW - 130]}, "attention", "Restarted 2m 10s ago: no heap"),
        ({"failure": "no heap"}, {"restarts": [NOW - 301]}, "ok", "Running: 45,210 records/s, last checkpoint 3 s ago"),
        (
            {"failure": "no heap"},
            {"restarts": [NOW - 901, NOW - 700, NOW - 500, NOW - 300, NOW - 100]},
            "critical",
            "Restarted 4 times in 15 minutes, the last time after: no heap",
        ),
        (
            {"state": JobState.RESTARTING, "failure": "no heap"},
            {"restarts": [NOW - 70, NOW - 50, NOW - 30, NOW - 10]},
            "critical",
            "Restarted 4 times in 15 minutes, the last time after: no heap",
        ),
        ({"starts": 7}, {}, "attention", "Started 7 times in the last hour"),
        ({"starts": 7, "state": JobState.RESTORING}, {}, "attention", "Started 7 times in the last hour"),
        ({"starts": 6}, {}, "ok", "Running: 45,210 records/s, last checkpoint 3 s ago"),
        (
            {"starts": 7},
            {"restarts": [NOW - 70, NOW - 50, NOW - 30, NOW - 10]},
            "critical",
            "Restarted 4 times in 15 minutes",
        ),
        (
            {},
            {"store_failures": 12, "store_error": "503 Slow Down"},
            "attention",
            "12 calls of the store failed in 5 minutes, the last one with: 503 Slow Down",
        ),
        ({}, {"store_failures": 2}, "ok", "Running: 45,210 records/s, last checkpoint 3 s ago"),
    ],
)
def test_a_situation_has_a_sentence(
    changes: dict[str, Any], known: dict[str, Any], severity: str, sentence: str
) -> None:
    found = of(a_job(**changes), **known)

    assert (found.severity, found.sentence) == (severity, sentence)


@pytest.mark.parametrize(
    ("history", "severity", "sentence"),
    [
        (["completed", "failed"], "attention", "Checkpoint 13 failed: a chain could not write its files"),
        (["completed", "failed", "running"], "attention", "Checkpoint 13 failed: a chain could not write its files"),
        (["completed", "failed", "failed"], "attention", "The last 2 checkpoints failed: a chain"),
        (["failed", "failed", "failed"], "critical", "The last 3 checkpoints failed: a chain"),
        (["failed", "failed", "failed", "completed"], "ok", "Running"),
    ],
)
def test_failed_checkpoints_count_until_one_completes(history: Sequence[str], severity: str, sentence: str) -> None:
    found = of(a_job(), checkpoints(*history))

    assert found.severity == severity
    assert found.sentence.startswith(sentence)
    assert "Traceback" not in found.sentence


@pytest.mark.parametrize(
    ("age", "duration", "severity"),
    [(24, 0.4, "ok"), (27, 0.4, "attention"), (61, 0.4, "critical"), (90, 30, "ok"), (130, 30, "attention")],
)
def test_a_checkpoint_is_too_old_by_its_interval_and_its_duration(age: float, duration: float, severity: str) -> None:
    last = a_job().last_checkpoint
    assert last is not None
    last = last.model_copy(update={"completed": NOW - age, "duration_ms": round(duration * 1000)})

    found = of(a_job(last_checkpoint=last))

    assert found.severity == severity
    assert ("checkpoint-old" in sentences(found)) == (severity != "ok")


def test_the_sentence_about_an_old_checkpoint_says_what_it_waits_for() -> None:
    last = a_job().last_checkpoint
    assert last is not None
    old = a_job(last_checkpoint=last.model_copy(update={"completed": NOW - 72}))

    assert of(old, checkpoints("completed", "running")).sentence == (
        "The last checkpoint, 14, is 1m 12s old, with one due every 10 s; checkpoint 13 waits for 1 of 1 chains"
    )
    assert of(old, checkpoints("completed")).sentence.endswith("; none is under way")


WAITS = "2 of 2 chains to process what is in flight before them, and no checkpoint begins before it ends"


def test_a_savepoint_that_waits_behind_data_in_flight_says_what_it_holds_up() -> None:
    started = checkpoints("completed", "waiting savepoint")
    long_ago, lately = (
        started.model_copy(
            update={
                "history": tuple(
                    each.model_copy(update={"trigger_timestamp": round((NOW - seconds) * 1000)})
                    for each in started.history
                )
            }
        )
        for seconds in (45, 29)
    )
    last = a_job().last_checkpoint
    assert last is not None
    fresh, old = (a_job(last_checkpoint=last.model_copy(update={"completed": NOW - age})) for age in (9, 75))

    assert of(fresh, lately).severity == "ok"
    for job, severity, age in ((fresh, "attention", "9.0 s"), (old, "critical", "1m 15s")):
        found = of(job, long_ago)
        assert (found.severity, found.sentence) == (
            severity,
            f"Savepoint 13 has waited 45 s for {WAITS}: the last one, 14, is {age} old",
        )


def test_a_job_without_a_checkpoint_is_given_the_time_since_it_runs() -> None:
    job = a_job(last_checkpoint=None, state_since=NOW - 20)

    assert of(job, checkpoints()).severity == "ok"
    assert of(job.model_copy(update={"state_since": START}), checkpoints()).sentence == (
        "No checkpoint in 2m 14s, with one due every 10 s; none is under way"
    )


def test_no_checkpoint_is_due_without_an_interval_or_right_after_a_restart() -> None:
    last = a_job().last_checkpoint
    assert last is not None
    old = last.model_copy(update={"completed": NOW - 1000})

    assert of(a_job(last_checkpoint=old), policy=CheckpointingView(interval=None)).severity == "ok"
    assert of(a_job(last_checkpoint=old, state_since=NOW - 5)).severity == "ok"


def test_a_job_behind_names_the_chain_that_holds_it_up_and_the_phase_that_takes_the_time() -> None:
    found = of(held_up_by_the_report(240))

    assert found.severity == "attention"
    assert found.sentence == (
        "Behind by 4m 00s: chain report is the bottleneck (busy 98 %), its sink takes 71 % of each batch"
    )
    assert (found.reasons[0].chain, found.reasons[0].source) == (REPORT, "flights")


@pytest.mark.parametrize(
    ("lag", "change", "severity", "how"),
    [
        (59, None, "ok", "Keeping up"),
        (60, None, "attention", "Behind by 1m 00s: "),
        (60, 0.5, "attention", "Behind by 1m 00s and falling back: "),
        (600, None, "critical", "Behind by 10m 00s: "),
        (600, -5.0, "attention", "Behind by 10m 00s, catching up in about 2m 00s: "),
    ],
)
def test_the_lag_and_its_change_decide_how_bad_it_is(lag: float, change: float | None, severity: str, how: str) -> None:
    found = of(lagging(a_job(), lag, busy=0.9), lag_change=change)

    assert found.severity == severity
    assert found.sentence.startswith(how)


def test_what_arrives_during_a_long_batch_is_no_lag() -> None:
    times = BatchTimesView(batches=3, seconds=30)

    assert of(lagging(a_job(), 89, batch_times=times)).severity == "ok"
    assert of(lagging(a_job(), 91, batch_times=times)).severity == "attention"


def test_an_idle_chain_behind_is_held_back_from_outside() -> None:
    found = of(lagging(a_job(), 100, busy=0.2))

    assert found.sentence == (
        "Behind by 1m 40s: chain flights is only busy 20 %, so a limit of its source or too few slots may hold it back"
    )


@pytest.mark.parametrize(
    ("times", "phase"),
    [
        ({"execution": 0.9}, ", its computation takes 90 % of each batch"),
        (
            {"execution": 0.9, "sinks": {"report": 0.85}, "sinks_compute": True},
            ", computing and writing take 85 % of each batch",
        ),
        ({"execution": 0.9, "sinks": {"a": 0.1, "b": 0.7}}, ", its sink b takes 70 % of each batch"),
        ({"execution": 0.2, "planning": 0.6}, ", planning takes 60 % of each batch"),
        ({"execution": 0.2, "offsets": 0.6}, ", finding new input takes 60 % of each batch"),
        ({"execution": 0.2, "logs": 0.6}, ", writing Spark's logs takes 60 % of each batch"),
        ({"execution": 0.3, "planning": 0.3, "logs": 0.3}, ""),
    ],
)
def test_the_largest_phase_of_a_batch_is_named_if_it_is_large(times: dict[str, Any], phase: str) -> None:
    view = BatchTimesView(batches=20, seconds=1, **times)

    found = of(lagging(a_job(), 100, busy=0.9, batch_times=view))

    assert found.sentence == f"Behind by 1m 40s: chain flights is busy 90 %{phase}"


def test_a_bounded_source_is_not_behind() -> None:
    graph = {"sources": [{"uid": "flights", "bounded": True}]}

    assert of(lagging(a_job(graph=graph), 3600)).severity == "ok"


def test_an_active_source_without_offsets_is_judged_by_its_event_time() -> None:
    (chain,) = a_job().chains
    source, _ = chain.inputs

    def with_lag(minutes: float, idle: float = 1.0) -> JobView:
        changed = source.model_copy(update={"lag_ms": round(minutes * 60_000), "idle_seconds": idle})
        return a_job(chains=(chain.model_copy(update={"inputs": (changed,), "busy": 0.9}),))

    assert of(with_lag(6)).sentence == "Behind by 6m 00s of event time: chain flights is busy 90 %"
    assert of(with_lag(4)).severity == "ok"
    assert of(with_lag(6, idle=60)).severity == "ok"
    assert of(with_lag(24 * 60)).severity == "ok"


def test_the_delay_of_a_watermark_is_no_lag() -> None:
    graph = {"sources": [{"uid": "flights", "watermark": {"column": "at", "delay": "10m"}}]}
    (chain,) = a_job().chains
    flights = chain.inputs[0].model_copy(update={"lag_ms": 900_000, "idle_seconds": 1.0})
    job = a_job(chains=(chain.model_copy(update={"inputs": (flights,), "busy": 0.9}),))

    assert of(job).sentence == "Behind by 15m 00s of event time: chain flights is busy 90 %"
    assert of(job.model_copy(update={"graph": graph})).sentence.startswith("Behind by 5m 00s of event time")


@pytest.mark.parametrize(("seconds", "finding"), [(119.0, False), (121.0, True)])
def test_a_file_may_wait_for_the_next_search_before_its_job_is_behind(seconds: float, finding: bool) -> None:
    job = with_inputs(a_job(), {"lag_seconds": seconds, "files_unread": 1, "bytes_unread": 10})

    assert ("behind" in sentences(of(job))) is finding


@pytest.mark.parametrize(
    ("lag", "busy", "change", "finding"),
    [
        (90, 0.97, 0.5, "Event time is 1m 30s behind and falling back: chain flights is busy 97 %"),
        (50, 1.0, 0.9, None),
        (90, 0.9, 0.5, None),
        (90, 1.0, 0.05, None),
        (90, 1.0, None, None),
    ],
    ids=["falls behind", "near", "with pauses", "steady", "not known yet"],
)
@pytest.mark.parametrize("unread", [None, 3.0], ids=["files", "a topic that is almost read"])
def test_a_chain_without_a_pause_whose_event_time_falls_behind_is_not_well(
    lag: float, busy: float, change: float | None, finding: str | None, unread: float | None
) -> None:
    (chain,) = a_job().chains
    behind = {"lag_ms": lag * 1000, "idle_seconds": 1.0, "lag_seconds": unread}
    flights = chain.inputs[0].model_copy(update=behind)
    found = of(a_job(chains=(chain.model_copy(update={"inputs": (flights,), "busy": busy}),)), event_lag_change=change)

    assert sentences(found).get("behind") == finding
    assert found.severity == ("ok" if finding is None else "attention")


@pytest.mark.parametrize(
    ("changes", "target", "finding"),
    [
        (
            {"batch_times": SINK_TAKES_MOST.model_copy(update={"seconds": 42.0, "sinks": {REPORT: 40.0}})},
            5.0,
            "Batches take 42 s, with a target of 5.0 s: chain flights is busy 98 %, its sink takes 95 % of each batch",
        ),
        (
            {"running_seconds": 45.0, "running_records": 20_000},
            5.0,
            "Batch of 20,000 records runs for 45 s, with a target of 5.0 s: chain flights is busy 98 %",
        ),
        ({"running_seconds": 29.0}, 1.0, None),
        ({"running_seconds": 45.0}, 10.0, None),
        ({"running_seconds": 45.0}, 0.0, None),
        ({"running_seconds": 45.0, "busy": 0.3}, 5.0, None),
    ],
    ids=["the mean", "the running one", "short", "near its target", "no target", "waiting for its readers"],
)
def test_batches_that_take_far_longer_than_their_target_are_a_finding(
    changes: dict[str, Any], target: float, finding: str | None
) -> None:
    (chain,) = a_job().chains
    job = a_job(chains=(chain.model_copy(update={"busy": 0.98} | changes),))

    assert sentences(of(job, batch_target=target)).get("behind") == finding


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({"running_seconds": 12.0, "running_records": 20_000}, ", batch of 20,000 records runs for 12 s"),
        ({"running_seconds": 12.0}, ", batch 42 runs for 12 s"),
        ({"running_seconds": 4.0}, ""),
    ],
)
def test_a_batch_that_takes_long_is_mentioned_while_it_runs(changes: dict[str, Any], more: str) -> None:
    (chain,) = a_job().chains

    found = of(a_job(chains=(chain.model_copy(update=changes),)))

    assert found.sentence == f"Running: 45,210 records/s, last checkpoint 3 s ago{more}"


def test_a_loop_of_full_channels_ends_the_search_for_the_bottleneck() -> None:
    job = held_up_by_the_report(240)
    chains = tuple(chain.model_copy(update={"backpressured": 0.9}) for chain in job.chains)
    back = job.channels[1].model_copy(update={"source": REPORT, "target": CHAIN})

    found = of(job.model_copy(update={"chains": chains, "channels": (*job.channels, back)}))

    assert found.reasons[0].code == "behind"


def test_an_input_that_holds_the_watermark_back_is_named() -> None:
    (chain,) = a_job().chains
    flights, weather = chain.inputs
    idle = weather.model_copy(update={"ended": False, "idle_seconds": 95.0, "holds_watermark_back": True})

    found = of(a_job(chains=(chain.model_copy(update={"inputs": (flights, idle)}),)))

    assert found.sentence == (
        "Input weather of chain flights has brought nothing for 1m 35s and holds the watermark back"
    )
    assert (found.severity, found.reasons[0].source) == ("attention", "weather")


def test_files_that_changed_after_they_were_read_are_counted_and_named() -> None:
    (chain,) = a_job().chains
    flights, weather = chain.inputs
    changed = flights.model_copy(update={"files_changed": 2, "changed_file": "file:/in/a.json"})
    found = of(a_job(chains=(chain.model_copy(update={"inputs": (changed, weather)}),)))

    assert found.sentence == (
        "2 files of source flights changed after being read and will not be read again: file:/in/a.json, …"
    )
    assert (found.severity, found.reasons[0].source) == ("attention", "flights")


def test_the_source_behind_a_channel_that_holds_the_watermark_back_is_named() -> None:
    job = several_chains()
    flights, hours, report = job.chains
    (channel,) = hours.inputs
    held = channel.model_copy(update={"idle_seconds": 95.0, "holds_watermark_back": True})
    ahead, behind = flights.inputs
    behind = behind.model_copy(update={"ended": False, "watermark_ms": 1000})
    chains = (
        flights.model_copy(update={"inputs": (ahead, behind)}),
        hours.model_copy(update={"inputs": (held,)}),
        report,
    )

    found = of(job.model_copy(update={"chains": chains}))

    reason = next(each for each in found.reasons if each.code == "watermark-held-back")
    assert reason.sentence == (
        f"Input flights of chain {hours.uid} has brought nothing for 1m 35s and holds the watermark back: "
        "its own comes from source weather"
    )
    assert reason.source == "weather"


def of_first_input(job: JobView, **changes: Any) -> JobView:
    """Return a job with changes of the first input of its first chain."""
    first, *others = job.chains
    source, *rest = first.inputs
    dropped = changes.pop("records_dropped_late", {})
    inputs = (source.model_copy(update=changes), *rest)
    changed = first.model_copy(update={"inputs": inputs, "records_in": 400, "records_dropped_late": dropped})
    return job.model_copy(update={"chains": (changed, *others)})


def test_a_partition_that_holds_the_watermark_back_is_named_with_the_way_out() -> None:
    silent: dict[str, Any] = {"position": 7, "idle_seconds": 95.0, "holds_watermark_back": True}
    parts = tuple(PartitionView(topic="t", partition=number, **silent) for number in range(5))

    found = of(of_first_input(a_job(), partitions=(*parts, PartitionView(topic="t", partition=9, position=1))))

    assert found.sentence == (
        "Source flights has got nothing from partition t/0, partition t/1, partition t/2 and 2 more for 1m 35s, which "
        "holds its watermark back: give the watermark an idleTimeout"
    )


def test_a_job_that_drops_more_than_a_small_part_of_its_rows_as_late_is_not_well() -> None:
    late = {"records_late": 120, "late_by_ms": 28_800_000}
    dropped = {"records_dropped_late": {OperatorUid("c"): 12}}

    found = of(of_first_input(a_job(), **late, **dropped))

    assert found.severity == "attention"
    assert (
        found.sentence == "Operators drop late rows: 120 of 400 records came late from source flights, by up to 8h 00m"
    )
    assert of(of_first_input(a_job(), **late)).severity == "ok"
    assert of(of_first_input(a_job(), **{**late, "records_late": 4}, **dropped)).severity == "ok"


def test_event_times_far_ahead_of_the_clock_are_in_the_sentence() -> None:
    found = of(of_first_input(a_job(), records_ahead=1, farthest_ms=32_472_144_000_000))

    assert found.sentence == (
        "Source flights has brought event times far ahead of the clock, 1 in all, up to 2999-01-01 00:00:00: they do "
        "not move the watermark"
    )
    assert found.reasons[0].source == "flights"


def test_a_sink_that_lets_completed_checkpoints_wait_is_named() -> None:
    (sink,) = a_job().sinks
    assert sink.last_published is not None
    stale = sink.last_published.model_copy(update={"id": CheckpointId(9), "time": NOW - 110})
    stuck = sink.model_copy(update={"last_published": stale, "failures": 2})
    last = a_job().last_checkpoint
    assert last is not None
    earlier = last.model_copy(update={"completed": NOW - 61})
    policy = CheckpointingView(interval=60)

    found = of(a_job(sinks=(stuck,), last_checkpoint=earlier), policy=policy)

    assert found.sentence == ("Sink report has published nothing for 1m 50s: 3 batches wait, and 2 of its calls failed")
    assert found.reasons[0].sink == "report"
    assert of(a_job(sinks=(stuck,)), policy=policy).severity == "ok"


def test_the_most_severe_finding_comes_first_and_the_others_follow() -> None:
    found = of(held_up_by_the_report(700), checkpoints("completed", "failed"), store_failures=5)

    assert [each.code for each in found.reasons] == ["behind", "checkpoints-failing", "store-errors"]
    assert (found.severity, found.sentence) == ("critical", found.reasons[0].sentence)


def test_a_job_that_ended_is_not_behind() -> None:
    job = lagging(a_job(state=JobState.STOPPED), 700)

    assert [each.code for each in of(job, store_failures=9).reasons] == ["stopped"]
