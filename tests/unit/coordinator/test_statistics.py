"""The statistics, as Flink's REST API shows them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamjob.ids import BatchId, ChainUid, CheckpointId
from streamjob.protocol.coordination.messages import AcknowledgementMetrics, ChainAcknowledgement
from streamjob.protocol.coordination.statistics import StatisticsTracker, quantile
from streamjob.protocol.coordination.triggers import CheckpointProperties, SnapshotKind
from streamjob.snapshot.manifest import ChainState

CHAINS = (ChainUid("a"), ChainUid("b"))
CHECKPOINT = CheckpointProperties(kind=SnapshotKind.CHECKPOINT)
SAVEPOINT = CheckpointProperties(kind=SnapshotKind.SAVEPOINT)


def acknowledgement(chain: str, size: int = 0, state_size: int = 0) -> ChainAcknowledgement:
    return ChainAcknowledgement(
        state=ChainState(uid=ChainUid(chain), operators=(), batch=BatchId(0)),
        metrics=AcknowledgementMetrics(checkpointed_size=size, state_size=state_size, sync_duration=0.25),
    )


def complete(tracker: StatisticsTracker, number: int, size: int, properties: CheckpointProperties = CHECKPOINT) -> None:
    checkpoint = CheckpointId(number)
    tracker.started(checkpoint, properties, number * 10.0, CHAINS)
    for chain in CHAINS:
        tracker.acknowledged(checkpoint, acknowledgement(chain, size, 10 * size), number * 10.0 + size)
    tracker.completed(checkpoint, f"uri-{number}")


def rendered(tracker: StatisticsTracker) -> dict[str, Any]:
    return tracker.overview().model_dump(mode="json")


def test_a_completed_checkpoint_sums_its_chains_and_lasts_to_the_last_acknowledgement() -> None:
    """PendingCheckpointStatsTest.testReportCompletedCheckpoint"""
    tracker = StatisticsTracker()
    tracker.started(CheckpointId(3), CHECKPOINT, 10.0, CHAINS)
    tracker.acknowledged(CheckpointId(3), acknowledgement("a", 5, 50), 11.0)
    tracker.acknowledged(CheckpointId(3), acknowledgement("b", 7, 70), 12.5)
    tracker.completed(CheckpointId(3), "uri-3")

    assert rendered(tracker)["history"] == [
        {
            "className": "completed",
            "id": 3,
            "status": "COMPLETED",
            "is_savepoint": False,
            "trigger_timestamp": 10_000,
            "latest_ack_timestamp": 12_500,
            "end_to_end_duration": 2_500,
            "checkpointed_size": 12,
            "state_size": 120,
            "processed_data": 0,
            "persisted_data": 0,
            "alignment_buffered": 0,
            "num_subtasks": 2,
            "num_acknowledged_subtasks": 2,
            "checkpoint_type": "CHECKPOINT",
            "tasks": {},
            "external_path": "uri-3",
            "discarded": False,
        }
    ]


def test_a_checkpoint_under_way_shows_what_has_been_acknowledged() -> None:
    """PendingCheckpointStatsTest.testReportSubtaskStats"""
    tracker = StatisticsTracker()
    tracker.started(CheckpointId(1), CHECKPOINT, 10.0, CHAINS)
    assert rendered(tracker)["history"][0]["latest_ack_timestamp"] == -1
    tracker.acknowledged(CheckpointId(1), acknowledgement("a", 5), 11.0)
    tracker.acknowledged(CheckpointId(1), acknowledgement("a", 9), 12.0)

    (shown,) = rendered(tracker)["history"]
    assert (shown["className"], shown["num_acknowledged_subtasks"], shown["checkpointed_size"]) == ("in_progress", 1, 5)
    assert rendered(tracker)["counts"] == {"restored": 0, "total": 1, "in_progress": 1, "completed": 0, "failed": 0}


def test_a_failed_checkpoint_says_when_and_why() -> None:
    """PendingCheckpointStatsTest.testReportFailedCheckpoint"""
    tracker = StatisticsTracker()
    tracker.started(CheckpointId(1), CHECKPOINT, 10.0, CHAINS)
    tracker.failed(CheckpointId(1), "a chain declined", 12.0)

    (shown,) = rendered(tracker)["history"]
    assert (shown["className"], shown["failure_timestamp"], shown["failure_message"]) == (
        "failed",
        12_000,
        "a chain declined",
    )
    assert "external_path" not in shown
    assert rendered(tracker)["latest"]["failed"] == shown


def test_details_show_each_chain() -> None:
    """CheckpointingStatisticsTest, for one checkpoint"""
    tracker = StatisticsTracker()
    tracker.started(CheckpointId(1), CHECKPOINT, 10.0, CHAINS)
    tracker.acknowledged(CheckpointId(1), acknowledgement("a", 5), 11.0)

    details = tracker.details(CheckpointId(1))
    assert details is not None
    assert (details.tasks["a"].status, details.tasks["a"].end_to_end_duration) == ("COMPLETED", 1000)
    assert (details.tasks["a"].sync_duration, details.tasks["b"].status) == (250, "IN_PROGRESS")
    assert tracker.details(CheckpointId(2)) is None


def test_the_history_keeps_the_latest_and_never_drops_one_under_way() -> None:
    """CheckpointStatsHistoryTest.testCheckpointHistory"""
    tracker = StatisticsTracker(history=2)
    tracker.started(CheckpointId(1), CHECKPOINT, 10.0, CHAINS)
    for number in (2, 3, 4):
        complete(tracker, number, 1)

    assert [shown["id"] for shown in rendered(tracker)["history"]] == [4, 1]
    assert rendered(tracker)["counts"]["total"] == 4


def test_the_latest_of_each_kind_outlives_the_history() -> None:
    """CheckpointStatsHistoryTest.testSizeOneHistory, DefaultCheckpointStatsTrackerTest.testCheckpointTracking"""
    tracker = StatisticsTracker(history=1)
    complete(tracker, 1, 1, SAVEPOINT)
    complete(tracker, 2, 1)
    tracker.started(CheckpointId(3), CHECKPOINT, 10.0, CHAINS)
    tracker.failed(CheckpointId(3), "no", 12.0)
    tracker.restored(CheckpointId(2), 5.0, is_savepoint=False, uri="uri-2")

    latest = rendered(tracker)["latest"]
    assert (latest["savepoint"]["id"], latest["completed"]["id"], latest["failed"]["id"]) == (1, 2, 3)
    assert latest["savepoint"]["checkpoint_type"] == "SAVEPOINT"
    assert latest["savepoint"]["savepointFormat"] == "NATIVE"
    assert latest["restored"] == {
        "id": 2,
        "restore_timestamp": 5_000,
        "is_savepoint": False,
        "external_path": "uri-2",
    }


def test_a_subsumed_checkpoint_is_shown_as_discarded() -> None:
    """CompletedCheckpointTest.testCompletedCheckpointStatsCallbacks"""
    tracker = StatisticsTracker()
    complete(tracker, 1, 1)
    tracker.discarded(CheckpointId(1))

    assert rendered(tracker)["history"][0]["discarded"] is True
    assert rendered(tracker)["latest"]["completed"]["discarded"] is True


def test_the_summary_has_extremes_of_all_and_quantiles_of_the_latest() -> None:
    """CompletedCheckpointStatsSummaryTest.testSimpleUpdates, testQuantiles"""
    tracker = StatisticsTracker(history=3)
    for number, size in enumerate((50, 1, 2, 3), start=1):
        complete(tracker, number, size)

    spread = rendered(tracker)["summary"]["checkpointed_size"]
    assert (spread["min"], spread["max"], spread["avg"]) == (2, 100, 28)
    assert (spread["p50"], spread["p99"]) == (4.0, 6.0)


def test_an_empty_summary_is_all_zero() -> None:
    """CompletedCheckpointStatsSummaryTest"""
    assert set(rendered(StatisticsTracker())["summary"]["state_size"].values()) == {0}


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.5, 50.5), (0.9, 90.9), (0.95, 95.95), (0.99, 99.99), (0.001, 1.0)],
)
def test_quantiles_interpolate(share: float, expected: float) -> None:
    """DescriptiveStatisticsHistogramTest"""
    assert quantile(list(range(1, 101)), share) == pytest.approx(expected)


def test_an_id_that_an_earlier_epoch_gave_up_may_come_again() -> None:
    """No Flink test: its ids come from a counter that outlives the coordinator."""
    tracker = StatisticsTracker()
    tracker.started(CheckpointId(1), CHECKPOINT, 10.0, CHAINS)
    tracker.failed(CheckpointId(1), "no", 12.0)
    complete(tracker, 1, 1)

    assert [(shown["id"], shown["status"]) for shown in rendered(tracker)["history"]] == [(1, "COMPLETED")]


def test_a_checkpoint_is_unaligned_as_soon_as_one_chain_was_cut_so() -> None:
    """CheckpointStatsTrackerTest; AlternatingCheckpointsTest.testMetricsAlternation"""
    tracker = StatisticsTracker()
    tracker.started(CheckpointId(1), CHECKPOINT, 10.0, (ChainUid("a"), ChainUid("b")))
    tracker.acknowledged(CheckpointId(1), acknowledgement("a"), 11.0)
    assert rendered(tracker)["history"][0]["checkpoint_type"] == "CHECKPOINT"
    switched = AcknowledgementMetrics(
        unaligned=True, start_delay=0.5, alignment_duration=2.0, persisted_data=70, processed_data=30
    )
    tracker.acknowledged(CheckpointId(1), replace(acknowledgement("b"), metrics=switched), 13.0)
    tracker.completed(CheckpointId(1), "uri")

    (shown,) = rendered(tracker)["history"]
    assert (shown["checkpoint_type"], shown["persisted_data"], shown["processed_data"]) == (
        "UNALIGNED_CHECKPOINT",
        70,
        30,
    )
    details = tracker.details(CheckpointId(1))
    assert details is not None
    a, b = details.tasks["a"], details.tasks["b"]
    assert (a.unaligned_checkpoint, a.start_delay, a.alignment_duration, a.persisted_data) == (False, 0, 0, 0)
    assert (b.unaligned_checkpoint, b.start_delay, b.alignment_duration, b.persisted_data) == (True, 500, 2000, 70)
    assert rendered(tracker)["summary"]["persisted_data"]["max"] == 70
