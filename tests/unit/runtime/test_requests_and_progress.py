"""Requests to a job, and its progress."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from streamjob.ids import TriggerId
from streamjob.protocol.coordination.triggers import TriggerState
from streamjob_runtime.control.requests import Requests
from streamjob_runtime.monitoring.query_progress import BatchProgress, Phases, ProgressReader, Rate, StateProgress

ONE = TriggerId("one")
EXECUTED = Phases(execution_ms=1)


def test_an_unknown_request_has_no_view() -> None:
    assert Requests(lambda _: None).view(ONE, None) is None


def test_a_request_is_queued_before_the_coordinator_knows_it() -> None:
    requests = Requests(lambda _: None)
    requests.note(ONE, "stop")

    view = requests.view(ONE, None)

    assert view is not None
    assert (view.kind, view.state) == ("stop", TriggerState.QUEUED)


def test_a_refused_request_is_forgotten() -> None:
    requests = Requests(lambda _: None)
    requests.note(ONE, "checkpoint")
    requests.forget(ONE)

    assert requests.view(ONE, None) is None


def test_only_the_latest_requests_are_remembered() -> None:
    requests = Requests(lambda _: None)
    for number in range(1001):
        requests.note(TriggerId(str(number)), "checkpoint")

    assert requests.view(TriggerId("0"), None) is None
    assert requests.view(TriggerId("1"), None) is not None


class Report:
    def __init__(self, batch: int, rows: int = 5, **durations: int) -> None:
        self._batch = batch
        self._json = {"batchId": batch, "numInputRows": rows, "durationMs": {"triggerExecution": 9, **durations}}

    def batchId(self) -> int:
        return self._batch

    def json(self) -> str:
        return json.dumps(self._json)


def query(*reports: Report) -> Any:
    return SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: list(reports)))


def test_each_batch_is_reported_once() -> None:
    reader = ProgressReader()
    first, second = Report(0, addBatch=1), Report(1, addBatch=1)
    running = query(first)

    assert reader.new_batches([running]) == [BatchProgress(0, 5, 9, phases=EXECUTED)]
    running._jsq.recentProgress = lambda: [first, second]
    assert reader.new_batches([running]) == [BatchProgress(1, 5, 9, phases=EXECUTED)]
    assert reader.new_batches([running]) == []


def test_a_report_tells_the_phases_of_its_batch() -> None:
    durations = {"latestOffset": 1, "getBatch": 2, "queryPlanning": 30, "addBatch": 400, "walCommit": 5}
    report = Report(0, **durations, commitOffsets=6)
    report._json["stateOperators"] = [{"operatorName": "a", "commitTimeMs": 70}, {"operatorName": "b"}]

    (batch,) = ProgressReader().new_batches([query(report)])

    assert batch.phases == Phases(offsets_ms=3, planning_ms=30, execution_ms=400, logs_ms=11, state_commit_ms=70)


def test_a_report_tells_the_state_of_its_operators_and_no_rows_if_they_are_not_counted() -> None:
    report = Report(0, addBatch=400)
    of_rocksdb = {"rocksdbSstFileSize": 9_000}
    report._json["stateOperators"] = [
        {
            "operatorName": "stateStoreSave",
            "numRowsTotal": 500,
            "memoryUsedBytes": 70_000,
            "customMetrics": of_rocksdb,
            "allUpdatesTimeMs": 30,
            "allRemovalsTimeMs": 5,
            "commitTimeMs": 70,
        },
        {"operatorName": "dedupe", "numRowsTotal": 0, "memoryUsedBytes": 4_000, "customMetrics": {}},
    ]

    (batch,) = ProgressReader().new_batches([query(report)])

    assert batch.states == (StateProgress("stateStoreSave", 500, 9_000, 105), StateProgress("dedupe", None, 4_000, 0))


def test_batches_of_a_query_that_has_given_way_to_the_flush_are_counted() -> None:
    reader = ProgressReader()
    first, flush = query(Report(0, addBatch=1), Report(1, addBatch=1)), query(Report(2, rows=0, addBatch=1))

    assert reader.new_batches([first, flush]) == [
        BatchProgress(0, 5, 9, phases=EXECUTED),
        BatchProgress(1, 5, 9, phases=EXECUTED),
        BatchProgress(2, 0, 9, phases=EXECUTED),
    ]


def test_idle_reports_are_no_batches() -> None:
    assert ProgressReader().new_batches([query(Report(0))]) == []


def test_files_that_are_not_read_are_told_also_by_an_idle_report() -> None:
    report = Report(0)
    report._json["sources"] = [
        {"description": "FileStreamSource[in]", "numInputRows": 0, "endOffset": {"logOffset": 3}, "metrics": figures}
        for figures in (
            {"filesChanged": "2", "changedFile": "file:/in/a.json"},
            {"bytesRead": "3"},
        )
    ]
    reader = ProgressReader()

    reader.new_batches([query(report)])

    found = [(each.files_changed, each.changed_file) for each in reader.positions]
    assert found == [(2, "file:/in/a.json"), (0, None)]


def test_there_is_nothing_to_read_before_the_query_runs() -> None:
    assert ProgressReader().new_batches([]) == []


def test_a_rate_needs_two_samples_and_forgets_old_ones() -> None:
    rate = Rate()
    assert rate.per_second == 0.0
    rate.note(0.0, 0)
    assert rate.per_second == 0.0
    rate.note(1.0, 1000)
    assert rate.per_second == pytest.approx(1000.0)
    rate.note(20.0, 1000)
    rate.note(21.0, 1010)

    assert rate.per_second == pytest.approx(10.0)


def test_a_rate_is_never_negative() -> None:
    rate = Rate()
    rate.note(0.0, 10)
    rate.note(1.0, 0)

    assert rate.per_second == 0.0
