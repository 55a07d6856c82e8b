"""A chain's reports about itself, with a query that does nothing."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamjob.errors import CannotRestore
from streamjob.ids import NO_BATCH, BatchId, ChainUid, OperatorUid
from streamjob.job.planning.plan import ChainPlan
from streamjob.protocol.coordination.messages import ChainStatus
from streamjob.protocol.emissions.cuts import Batch, Emissions
from streamjob_runtime.chain import chain as chain_module
from streamjob_runtime.chain.chain import Chain, ChainListener, ChainStart
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.chain.emissions.outputs import ChainOutput

UID = ChainUid("chain")
SOURCE = OperatorUid("source")


class Listener(ChainListener):
    """Notes the statuses."""

    def __init__(self, statuses: list[ChainStatus]) -> None:
        self._statuses = statuses

    def status_changed(self, chain: ChainUid, status: ChainStatus, message: str) -> None:
        self._statuses.append(status)

    def cannot_continue(self, chain: ChainUid, error: CannotRestore) -> None:
        self._statuses.append(ChainStatus.FAILED)

    def has_output(self) -> None:
        pass

    def wants_checkpoint(self, why: str) -> None:
        pass


class FakeWriter:
    """A query that ends as soon as it is started, after a batch of its own."""

    def __init__(self) -> None:
        self.started = 0

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self

    def start(self) -> Any:
        report = SimpleNamespace(
            batchId=lambda: self.started,
            json=lambda: json.dumps({"durationMs": {"addBatch": 1}, "stateOperators": []}),
        )
        self.started += 1
        return SimpleNamespace(
            awaitTermination=lambda: None,
            stop=lambda: None,
            _jsq=SimpleNamespace(recentProgress=lambda: [report]),
        )


def chain_of(tmp_path: Path, emission: EmissionLock, statuses: list[ChainStatus], writer: FakeWriter) -> Chain:
    dataflow = Dataflow(
        output=cast("Any", SimpleNamespace(writeStream=writer)),
        output_mode="append",
        sources=(SOURCE,),
        directories=(0,),
        watermark_nodes={},
        ends={SOURCE: {"root": "/in", "files": ["0"]}},
    )
    watermarks = SimpleNamespace(prepare=lambda session: None)
    packages = SimpleNamespace(eventtime=SimpleNamespace(Watermarks=watermarks))
    jvm = SimpleNamespace(io=SimpleNamespace(streamjob=packages))
    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    plan = ChainPlan(uid=UID, sources=(), operators=(), sinks=(), output=UID, output_mode="append", bounded=True)
    return Chain(
        plan=plan,
        spark=cast("Any", SimpleNamespace(_jvm=jvm, _jsparkSession=None, sparkContext=context)),
        dataflow=dataflow,
        output=ChainOutput({}),
        emission=emission,
        start=ChainStart(tmp_path, "job:///chain/checkpoint"),
        clock=lambda: 0.0,
        listener=Listener(statuses),
    )


def test_a_chain_that_is_flushed_does_not_report_that_it_runs_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that was asked to stop meanwhile is STOPPING; it must not become RUNNING, from where it cannot stop."""
    monkeypatch.setattr(chain_module, "last_committed", lambda checkpoint: BatchId(0))
    monkeypatch.setattr(chain_module, "check_that_all_is_read", lambda *_, **__: None)
    monkeypatch.setattr(chain_module, "read_commit", lambda *_: SimpleNamespace(state_ids={0: ()}))
    monkeypatch.setattr(chain_module, "force_flush", lambda *_: BatchId(2))
    statuses: list[ChainStatus] = []
    writer = FakeWriter()
    chain = chain_of(tmp_path, EmissionLock(Emissions([UID])), statuses, writer)

    chain.start()
    chain._thread.join(10)

    assert writer.started == 2
    assert statuses == [ChainStatus.RUNNING, ChainStatus.FINISHED]


def test_a_batch_is_committed_though_spark_has_deleted_its_entry_since(tmp_path: Path) -> None:
    emission = EmissionLock(Emissions([UID]))
    chain = chain_of(tmp_path, emission, [], FakeWriter())
    for number in range(3):
        emission.emit(UID, Batch(batch=BatchId(number)))

    assert [chain.is_committed(BatchId(number)) for number in (NO_BATCH, 0, 1, 2)] == [True, True, True, False]
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "2").touch()
    assert chain.is_committed(BatchId(2))
