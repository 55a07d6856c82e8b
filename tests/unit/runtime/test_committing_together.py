"""Which sinks of a job commit a checkpoint in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import JsonValue

from streamjob.ids import CheckpointId, OperatorUid
from streamjob.sink import Sink
from streamjob.snapshot.manifest import SinkState
from streamjob_runtime.chain.emissions.outputs import FormerOutputs, Outputs

Calls = list[tuple[str, ...]]


class Alone:
    def __init__(self, name: str, calls: Calls) -> None:
        self.name, self.calls = name, calls

    def open(self, context: Any) -> None: ...

    def stage(self, batch: Any, batch_id: Any) -> Any: ...

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        self.calls.append((f"{self.name} {checkpoint} {list(committables)}",))

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Together(Alone):
    def __init__(self, name: str, calls: Calls, target: str) -> None:
        super().__init__(name, calls)
        self.transaction = target

    def commit_together(self, checkpoint: CheckpointId, output: Sequence[tuple[Any, Sequence[JsonValue]]]) -> None:
        if any("refused" in committables for _, committables in output):
            raise OSError("refused")
        self.calls.append(tuple(f"{sink.name} {checkpoint} {list(committables)}" for sink, committables in output))


def due(**committables: str) -> list[SinkState]:
    return [SinkState(uid=OperatorUid(uid), committables=(each,)) for uid, each in committables.items()]


def sinks(calls: Calls) -> dict[OperatorUid, Sink]:
    made = [Together("a", calls, "x"), Alone("b", calls), Together("c", calls, "y"), Together("d", calls, "x")]
    return {OperatorUid(sink.name): sink for sink in made}


def test_sinks_of_one_target_commit_together_in_the_order_of_the_checkpoint() -> None:
    calls: Calls = []
    outputs = Outputs(sinks(calls))
    outputs.commit(CheckpointId(7), due(b="1", d="2", c="3", a="4"))

    assert calls == [("b 7 ['1']",), ("d 7 ['2']", "a 7 ['4']"), ("c 7 ['3']",)]
    assert {uid: outputs.meters.of(OperatorUid(uid)).figures.last is not None for uid in "abcd"} == dict.fromkeys(
        "abcd", True
    )


def test_a_commit_that_fails_counts_as_a_failure_of_each_sink_in_it() -> None:
    outputs = Outputs(sinks([]))
    with pytest.raises(OSError, match="refused"):
        outputs.commit(CheckpointId(7), due(a="1", b="2", d="refused"))

    assert [outputs.meters.of(OperatorUid(uid)).figures.failures for uid in "abcd"] == [1, 0, 0, 1]


def test_a_sink_that_the_job_has_no_longer_commits_together_with_those_that_it_has() -> None:
    calls: Calls = []
    outputs = FormerOutputs(
        Outputs(sinks(calls)), frozenset({OperatorUid("a")}), lambda uid: Together(f"former {uid}", calls, "x")
    )
    outputs.commit(CheckpointId(7), due(gone="1", a="2", d="3"))

    assert calls == [("former gone 7 ['1']", "a 7 ['2']", "former d 7 ['3']")]
