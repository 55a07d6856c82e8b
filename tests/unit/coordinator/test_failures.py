"""Which failures count."""

from __future__ import annotations

from streamjob.ids import CheckpointId
from streamjob.protocol.coordination.failures import AbortReason, FailureCounter


def test_a_failure_at_or_below_the_last_success_is_ignored() -> None:
    """CheckpointFailureManagerTest.testIgnoresPastCheckpoints"""
    counter = FailureCounter()
    counter.succeeded(CheckpointId(5))
    counter.failed(CheckpointId(4), AbortReason.EXPIRED)
    counter.failed(CheckpointId(5), AbortReason.EXPIRED)
    assert counter.count == 0

    counter.failed(CheckpointId(6), AbortReason.EXPIRED)
    counter.succeeded(CheckpointId(3))
    assert counter.count == 1


def test_one_id_counts_once() -> None:
    """CheckpointFailureManagerTest.testIgnoreOneCheckpointRepeatedlyCountMultiTimes"""
    counter = FailureCounter()
    counter.failed(CheckpointId(1), AbortReason.DECLINED)
    counter.failed(CheckpointId(1), AbortReason.EXPIRED)

    assert counter.count == 1


def test_only_reasons_that_tell_of_the_jobs_health_count() -> None:
    """CheckpointFailureManagerTest.testTotalCountValue"""
    counter = FailureCounter()
    for number, reason in enumerate(AbortReason):
        counter.failed(CheckpointId(number), reason)

    assert {reason for reason in AbortReason if reason.counts} == {
        AbortReason.DECLINED,
        AbortReason.UPLOAD_FAILED,
        AbortReason.EXPIRED,
        AbortReason.COMPLETION_FAILED,
    }
    assert counter.count == 4
