"""Whether a job can start from a snapshot: by the uids of its operators and its number of state partitions."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.ids import BatchId, ChainUid, CheckpointId, Epoch, OperatorUid
from streamjob.job.plan import plan
from streamjob.job.spec import JobSpec
from streamjob.snapshot.manifest import ChainState, Manifest, OperatorState, SinkState
from streamjob_runtime.restoring import (
    ChainsChanged,
    MaxParallelismChanged,
    NonRestoredState,
    Restored,
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
