"""Committing what a completed checkpoint staged, though the job's sinks may have changed since."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import JsonValue

from streamjob.ids import BatchId, CheckpointId, Epoch, OperatorUid
from streamjob.protocol.log.committing import Recovered
from streamjob.sink import Sink, SinkContext, Staged
from streamjob.snapshot.manifest import SinkState
from streamjob_runtime.chain.emissions.outputs import FormerOutputs, Outputs
from streamjob_runtime.job.output_recovery import recover_output
from streamjob_runtime.sinks.errors import UnusableSink
from streamjob_runtime.sinks.factory import SinkSurroundings

KEPT, GONE = OperatorUid("kept"), OperatorUid("gone")
FIVE = CheckpointId(5)


class Recorder:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self, context: SinkContext) -> None:
        self.calls.append("open")

    def stage(self, batch: Any, batch_id: BatchId) -> Staged:
        return Staged(None, None)

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        self.calls.append(f"commit {checkpoint} {list(committables)}")

    def abort(self) -> None:
        self.calls.append("abort")

    def close(self) -> None:
        self.calls.append("close")


def outputs_of(now: Recorder, former: Sink | None, *unchanged: OperatorUid) -> FormerOutputs:
    return FormerOutputs(Outputs({KEPT: now}), frozenset(unchanged), lambda uid: former)


def test_an_unchanged_sink_commits_through_the_jobs_own() -> None:
    now, former = Recorder(), Recorder()
    outputs = outputs_of(now, former, KEPT)

    outputs.commit(FIVE, [SinkState(uid=KEPT, committables=("a",))])
    outputs.abort(KEPT)

    assert (now.calls, former.calls) == (["commit 5 ['a']", "abort"], [])


def test_a_sink_that_the_job_has_otherwise_commits_where_it_was_and_is_cleaned_in_both_places() -> None:
    now, former = Recorder(), Recorder()
    outputs = outputs_of(now, former)

    outputs.commit(FIVE, [SinkState(uid=KEPT, committables=("a",))])
    outputs.abort(KEPT)

    assert now.calls == ["abort"]
    assert former.calls == ["commit 5 ['a']", "close", "abort", "close"]


def test_a_sink_that_is_gone_still_commits_what_is_due() -> None:
    former = Recorder()

    outputs_of(Recorder(), former).commit(FIVE, [SinkState(uid=GONE, committables=("a",))])

    assert former.calls == ["commit 5 ['a']", "close"]


def test_a_sink_that_is_gone_and_has_nothing_due_is_not_even_opened() -> None:
    former = Recorder()

    outputs_of(Recorder(), former).commit(FIVE, [SinkState(uid=GONE, committables=())])

    assert former.calls == []


def test_a_sink_whose_code_is_gone_with_it_keeps_the_job_from_starting_only_while_something_is_due() -> None:
    def gone(uid: OperatorUid) -> Sink:
        raise UnusableSink(f"sink {uid}: there is no module of it")

    outputs = FormerOutputs(Outputs({}), frozenset(), gone)

    outputs.commit(FIVE, [SinkState(uid=GONE, committables=())])
    outputs.abort(GONE)
    with pytest.raises(UnusableSink):
        outputs.commit(FIVE, [SinkState(uid=GONE, committables=("a",))])


def test_a_start_from_another_jobs_snapshot_leaves_what_that_has_staged_and_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    staged = tmp_path / "theirs" / "_streamjob" / "staged" / "4" / "7-u"
    staged.mkdir(parents=True)
    graph = {"sinks": [{"name": "s", "uid": "s", "input": "i", "format": "csv", "options": {"path": "theirs"}}]}
    resolution: Any = SimpleNamespace(fork=False, manifest=SimpleNamespace(graph=graph))
    ledger: Any = SimpleNamespace(newest_manifest=lambda: None, recover=lambda *_, fork: Recovered(None))
    now = [{**graph["sinks"][0], "options": {"path": "mine"}}]

    recover_output(ledger, Outputs({}), now, SinkSurroundings("job", "default", Epoch(1), tmp_path), resolution)

    assert staged.exists()
    assert (
        f"Sink s of the snapshot: batches that it has staged stay at its former path {tmp_path}/theirs" in caplog.text
    )
