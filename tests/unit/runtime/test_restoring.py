"""Whether a job can start from a snapshot: by the uids of its operators and its number of state partitions."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.ids import BatchId, ChainUid, CheckpointId, Epoch, OperatorUid
from streamjob.job.plan import plan
from streamjob.job.spec import JobSpec
from streamjob.snapshot.manifest import ChainState, Manifest, OperatorState, SinkState
from streamjob.stored.compatibility import (
    ChainsChanged,
    MaxParallelismChanged,
    NonRestoredState,
    Restored,
    UnfinishedBeforeFinished,
    check_compatible,
)

CHAIN = ChainUid("counts")


def spec(**fields: Any) -> JobSpec:
    return JobSpec.model_validate(
        {
            "name": "job",
            "sources": [{"name": "events", "format": "rate"}],
            "operators": [{"name": "counts", "inputs": ["events"], "sql": "SELECT * FROM events"}],
            "sinks": [{"name": "out", "input": "counts", "format": "console"}],
            **fields,
        }
    )


def restored(*operators: str, finished: bool = False, chains: int = 1, partitions: int | None = 4) -> Restored:
    manifest = Manifest(
        job="job",
        namespace="default",
        id=CheckpointId(3),
        epoch=Epoch(1),
        kind="checkpoint",
        triggered=1.0,
        completed=2.0,
        graph={} if partitions is None else {"maxParallelism": partitions},
        operators=tuple(OperatorState(uid=OperatorUid(uid), chain=CHAIN, finished=finished) for uid in operators),
        chains=tuple(ChainState(uid=ChainUid(str(n)), operators=(), batch=BatchId(1)) for n in range(chains)),
        sinks=(SinkState(uid=OperatorUid("former")),),
    )
    return Restored(manifest, "file:///store/manifest.json", fork=False)


def check(job: JobSpec, snapshot: Restored, *, allow: bool = False) -> int:
    return check_compatible(job, plan(job), snapshot, allow)


def test_the_number_of_partitions_is_that_of_the_state() -> None:
    assert check(spec(parallelism=8), restored("events", "counts", "out")) == 4


def test_a_snapshot_that_says_nothing_of_partitions_leaves_them_to_the_job() -> None:
    assert check(spec(maxParallelism=6), restored(partitions=None)) == 6


def test_another_number_of_partitions_is_refused() -> None:
    with pytest.raises(MaxParallelismChanged, match=r"maxParallelism 6.* has 4 partitions"):
        check(spec(maxParallelism=6), restored("counts"))


def test_state_without_a_place_is_refused_with_the_list() -> None:
    with pytest.raises(NonRestoredState, match="has state for sums, tops, which") as refused:
        check(spec(), restored("counts", "sums", "tops"))

    assert "--allow-non-restored-state" in refused.value.fix


def test_state_without_a_place_may_be_given_up() -> None:
    assert check(spec(), restored("sums"), allow=True) == 4


def test_finished_operators_and_former_sinks_need_no_place() -> None:
    assert check(spec(), restored("sums", finished=True)) == 4
    assert check(spec(), restored("former")) == 4


def test_a_snapshot_of_other_chains_is_refused() -> None:
    with pytest.raises(ChainsChanged, match="is of the chains 0, 1 with 0 channels, but the job runs as counts"):
        check(spec(), restored(chains=2))


def test_a_channel_too_many_is_refused() -> None:
    split = spec(operators=[{"name": "counts", "inputs": ["events"], "sql": "SELECT * FROM events", "chain": False}])

    with pytest.raises(ChainsChanged, match="with 0 channels, but the job runs as counts, events with 1"):
        check(split, restored("counts"))


def test_the_only_chain_is_restored_whatever_it_is_called() -> None:
    snapshot = restored("counts")

    assert snapshot.chain(CHAIN, plan(spec())) == snapshot.manifest.chains[0]


def test_a_chain_is_finished_if_all_its_operators_are() -> None:
    assert restored("events", "counts", finished=True).finished(CHAIN)
    assert not restored("events", "counts").finished(CHAIN)
    assert not restored().finished(CHAIN)


def test_an_unfinished_operator_before_a_finished_one_is_refused_and_both_are_named() -> None:
    with pytest.raises(UnfinishedBeforeFinished, match="'counts' has finished, but the job has 'events' before it"):
        check(spec(), restored("counts", "out", finished=True))
    with pytest.raises(UnfinishedBeforeFinished, match="'out' has finished, but the job has 'counts' before it"):
        check(spec(), restored("out", finished=True))


def test_a_finished_operator_before_an_unfinished_one_is_restored() -> None:
    assert check(spec(), restored("events", finished=True)) == 4
    assert check(spec(), restored("events", "counts", "out", finished=True)) == 4


def test_a_new_operator_may_stand_behind_a_finished_one_but_not_before_it() -> None:
    between = [
        {"name": "between", "inputs": ["events"], "sql": "SELECT * FROM events"},
        {"name": "counts", "inputs": ["between"], "sql": "SELECT * FROM between"},
    ]
    with pytest.raises(UnfinishedBeforeFinished, match="'counts' has finished, but the job has 'between' before it"):
        check(spec(operators=between), restored("events", "counts", "out", finished=True))

    behind = spec().model_dump(by_alias=True)["operators"]
    last = {"name": "last", "inputs": ["counts"], "sql": "SELECT * FROM counts"}
    job = spec(operators=[*behind, last], sinks=[{"name": "new", "input": "last", "format": "console"}])
    assert check(job, restored("events", "counts", finished=True)) == 4
