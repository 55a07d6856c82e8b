"""A chain takes over from a snapshot in which its inputs belonged to other chains, or came in another way."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.jobs import job_spec, source, sql
from tests.models.watched_emissions import WatchedEmissions

from streamjob.comparison.compatibility import Restored
from streamjob.comparison.graphs import compare
from streamjob.ids import BatchId, ChainUid, CheckpointId, Epoch, OperatorUid
from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.plan import ChainPlan, Plan, plan
from streamjob.snapshot.manifest import (
    ChainState,
    ChannelState,
    FileRef,
    InputState,
    Manifest,
    OperatorState,
    SourceState,
)
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.restoring import restoration as restoration_module
from streamjob_runtime.restoring.restoration import Restoration, Workdir
from streamjob_runtime.restoring.takeover import Takeover
from streamjob_runtime.spark.job_files import JobFiles

COUNTS = "SELECT k, count(*) AS n FROM {} GROUP BY k"
ROWS = "SELECT * FROM {}"
EVENTS, A, B = OperatorUid("events"), ChainUid("a"), ChainUid("b")


def reading(*operators: tuple[str, str, str], bounded: bool = False) -> JobSpec:
    """Return a job with operators: name, input, and query."""
    read = {each for _, each, _ in operators}
    unread = [name for name, _, _ in operators if name not in read]
    return job_spec(
        *itertools.starmap(sql, operators), sources=[source("events", "json", bounded=bounded)], sinks=unread
    )


def snapshot(
    spec: JobSpec, positions: dict[str, int], *, finished: bool = False, stateful: tuple[str, ...] = ()
) -> Any:
    """Return a snapshot of a job; `positions` has where its chains stand in the stream of the source, written to 9."""
    chains = plan(spec).chains
    return Manifest(
        job="job",
        namespace="default",
        id=CheckpointId(3),
        epoch=Epoch(1),
        kind="checkpoint",
        triggered=1.0,
        completed=2.0,
        graph=graph_of(spec),
        chains=tuple(
            ChainState(
                uid=chain.uid,
                operators=chain.uids(),
                batch=BatchId(6),
                inputs=tuple(
                    InputState(uid=uid)
                    for uid in (*(each.uid for each in chain.sources), *(each.uid for each in chain.channels))
                ),
                stateful=("stateStoreSave",) * (chain.uid in stateful),
                files=(FileRef(path="state/0/0/7_a.zip", object="x", length=1, sha256=""),) * (chain.uid in stateful),
            )
            for chain in chains
        ),
        operators=tuple(
            OperatorState(uid=uid, chain=chain.uid, finished=finished) for chain in chains for uid in chain.uids()
        ),
        channels=tuple(
            ChannelState(source=channel.source, target=channel.target, consumed=positions[channel.target], next=9)
            for chain in chains
            for channel in chain.channels
        ),
        sources=(SourceState(uid=EVENTS, position=4),),
    )


def restored(now: JobSpec, manifest: Manifest) -> tuple[Plan, Restored]:
    planned, uri = plan(now), "file:///snapshot"
    compared = compare(now, planned, manifest, uri, allow_non_restored_state=False)
    compared.check()
    return planned, Restored(manifest, uri, fork=False, origins=compared.origins)


def dataflow(sources: tuple[OperatorUid, ...], channels: dict[OperatorUid, ChainUid]) -> Dataflow:
    frame: Any = None
    return Dataflow(frame, "append", sources, tuple(range(len(sources))), {}, {}, channels)


def opened(planned: Plan, restoration: Restoration) -> WatchedEmissions:
    """Return the emissions of a job that starts from a snapshot."""
    emissions = WatchedEmissions(
        [chain.uid for chain in planned.chains],
        [(each.source, each.target) for each in planned.channels],
        feedback=[(each.source, each.target) for each in planned.channels if each.feedback],
    )
    for chain in planned.chains:
        restoration.restore(emissions, chain.uid)
    emissions.open()
    return emissions


@pytest.fixture
def workdir(tmp_path: Path) -> Workdir:
    return Workdir(tmp_path, None, JobFiles(tmp_path))


def needs_graft(now: JobSpec, manifest: Manifest, chain: ChainUid, query: Dataflow, workdir: Workdir) -> bool:
    planned, start = restored(now, manifest)
    takeover = Takeover(
        start, planned.chain(chain), workdir.checkpoint(chain), workdir.location(chain), workdir.beside(chain)
    )
    return takeover.needs_graft(query)


def test_the_position_of_a_source_is_none_in_the_stream_of_the_chain_that_reads_it_from_here_on(
    workdir: Workdir,
) -> None:
    """A second reader makes the source a chain of its own; its uid stays."""
    alone = reading(("a", "events", COUNTS))
    now = reading(("a", "events", COUNTS), ("b", "events", ROWS))
    manifest = snapshot(alone, {}, stateful=("a",))

    assert needs_graft(now, manifest, A, dataflow((EVENTS,), {EVENTS: ChainUid(EVENTS)}), workdir)
    assert not needs_graft(alone, manifest, A, dataflow((EVENTS,), {}), workdir)


def test_a_chain_goes_on_where_the_reader_stood_that_it_has_taken_in(workdir: Workdir) -> None:
    """Both had read the stream, and the one with the state farther than the one that reads it from here on."""
    before = reading(("a", "events", COUNTS), ("b", "events", ROWS), ("c", "events", ROWS))
    now = reading(("b", "events", ROWS), ("a", "b", COUNTS), ("c", "events", ROWS))
    query = dataflow((EVENTS,), {EVENTS: ChainUid(EVENTS)})

    assert needs_graft(now, snapshot(before, {"a": 9, "b": 7, "c": 9}, stateful=("a",)), A, query, workdir)
    assert not needs_graft(now, snapshot(before, {"a": 9, "b": 9, "c": 9}, stateful=("a",)), A, query, workdir)


def test_who_begins_to_read_what_has_finished_finds_its_end(workdir: Workdir) -> None:
    before = reading(("a", "events", ROWS), bounded=True)
    now = reading(("a", "events", ROWS), ("b", "events", ROWS), bounded=True)
    planned, start = restored(now, snapshot(before, {}, finished=True))
    restoration = Restoration(planned, start, workdir)

    emissions = opened(planned, restoration)

    log = restoration.log(ChainUid(EVENTS))
    assert log is not None
    assert (log.next, log.ended) == (1, True)
    assert emissions.frontier(ChainUid(EVENTS), B) == 1
    assert not restoration.is_finished(B)


@pytest.mark.parametrize("change", ["split", "closed to a loop"])
def test_a_chain_that_has_finished_stands_at_the_end_of_a_stream_that_is_new(workdir: Workdir, change: str) -> None:
    before = reading(("a", "events", ROWS), ("b", "a", ROWS), bounded=True)
    parts = before.model_dump(mode="json", by_alias=True, exclude_unset=True)
    a, b = parts["operators"]
    if change == "split":
        b["chain"] = False
    else:
        a["inputs"].append({"from": "b", "feedback": True, "schema": "k STRING"})
        a["sql"] += " UNION ALL SELECT * FROM b"
    planned, start = restored(JobSpec.model_validate(parts), snapshot(before, {}, finished=True))

    emissions = opened(planned, Restoration(planned, start, workdir))

    assert planned.channels
    for producer, reader in emissions.channels:
        assert emissions.input_ended(reader)
        assert emissions.frontier(producer, reader) == 1
    (*_, last) = emissions.trigger(CheckpointId(4)).cuts
    assert not any(last.in_flight.values())
    assert not any(each.entries for each in last.fed_back.values())


def test_state_is_compared_again_behind_an_epoch_that_failed_without_a_checkpoint(
    workdir: Workdir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure in the first batch may come of state that does not fit, which only Spark can tell."""
    spec = reading(("a", "events", COUNTS))
    planned, start = restored(spec, snapshot(spec, {}, stateful=("a",)))
    asked: list[ChainUid] = []

    def ask(
        spark: object, graph: object, before: object, state: object, chain: ChainPlan, *_: object, **__: object
    ) -> tuple[()]:
        asked.append(chain.uid)
        return ()

    monkeypatch.setattr(restoration_module, "match_state", ask)
    nothing: Any = None

    for failed_before in (False, True):
        restoration = Restoration(planned, start, workdir, failed_before=failed_before)
        restoration.match_state(nothing, nothing, {}, planned.chain(A), dataflow((EVENTS,), {}))
        assert asked == [A] * failed_before
