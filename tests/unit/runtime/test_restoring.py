"""The findings for each part of a job that starts from another version's snapshot, by the graphs alone."""

from __future__ import annotations

from typing import Any

import pytest
from tests.jobs import job_spec, source, sql, timed_source

from streamjob.comparison.graphs import compare
from streamjob.comparison.refusals import (
    FinishedAndUnfinished,
    InFlightDataLost,
    NewStateInOldChain,
    NonRestoredState,
    PartChanged,
    SourceFormatChanged,
    StateDivided,
    StateOfSeveralChains,
    UnfinishedBeforeFinished,
)
from streamjob.comparison.snapshot_job import keeps_state
from streamjob.comparison.verdicts import Comparison, Finding, Kind, Origin, Verdict
from streamjob.errors import StreamJobError
from streamjob.ids import BatchId, ChainUid, CheckpointId, Epoch, OperatorUid
from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.plan import plan
from streamjob.snapshot.manifest import (
    ChainState,
    ChannelEntry,
    ChannelSegment,
    ChannelState,
    EntryKind,
    FileRef,
    InputState,
    Manifest,
    OperatorState,
    SinkState,
    SourceState,
)

URI = "file:///store/manifest.json"
COUNTS = "SELECT k, count(*) AS n FROM {} GROUP BY k, window(at, '1 minute')"

FUSED = job_spec(sql("clean", "events"), sql("counts", "clean", COUNTS))
SPLIT = job_spec(sql("clean", "events"), sql("counts", "clean", COUNTS, chain=False))


def snapshot(
    spec: JobSpec,
    *,
    finished: tuple[str, ...] = (),
    in_flight: tuple[tuple[str, str], ...] = (),
    records: int = 3,
    told: bool = True,
    partitions: int = 4,
) -> Manifest:
    """Return a snapshot of a job that has run a while; `told`: Spark's names of its stateful operators are in it."""
    planned = plan(spec)
    chains = []
    for chain in planned.chains:
        keep = [each.uid for each in reversed(chain.operators) if keeps_state(each.sql) is not False]
        inputs = [*(each.uid for each in chain.sources), *(each.uid for each in chain.channels)]
        paths = [f"state/{number}/0/7_a.zip" for number in range(len(keep))]
        chains.append(
            ChainState(
                uid=chain.uid,
                operators=chain.uids(),
                batch=BatchId(6),
                inputs=tuple(InputState(uid=uid) for uid in inputs),
                stateful=("stateStoreSave",) * len(keep) if told else (),
                files=tuple(FileRef(path=each, object=each, length=1, sha256="") for each in paths),
            )
        )
    return Manifest(
        job="job",
        namespace="default",
        id=CheckpointId(3),
        epoch=Epoch(1),
        kind="checkpoint",
        triggered=1.0,
        completed=2.0,
        graph=graph_of(spec) | {"maxParallelism": partitions},
        operators=tuple(
            OperatorState(uid=uid, chain=chain.uid, finished=uid in finished)
            for chain in planned.chains
            for uid in chain.uids()
        ),
        chains=tuple(chains),
        channels=tuple(
            channel(each.source, each.target, records if (each.source, each.target) in in_flight else 0)
            for each in planned.channels
        ),
        sources=tuple(SourceState(uid=each.uid, position={"logOffset": 4}) for each in spec.sources),
        sinks=tuple(SinkState(uid=each.uid) for each in spec.sinks),
    )


def channel(producer: ChainUid, consumer: ChainUid, records: int) -> ChannelState:
    segment = ChannelSegment(path="channels/a", object="a", length=9, sha256="", records=records)
    entries = (ChannelEntry(index=5, kind=EntryKind.DATA, segments=(segment,)),) if records else ()
    return ChannelState(source=producer, target=consumer, consumed=5, next=5 + len(entries), entries=entries)


def compared(now: JobSpec, then: Manifest, *, allow: bool = False) -> Comparison:
    return compare(now, plan(now), then, URI, allow)


def of(uid: str, comparison: Comparison) -> Finding:
    (found,) = [each for each in comparison.findings if each.uid == uid]
    return found


def verdicts(comparison: Comparison) -> dict[str, str]:
    return {each.uid: each.verdict.value for each in comparison.findings if each.kind.value != "job"}


def start(now: JobSpec, then: Manifest, *, allow: bool = False) -> Comparison:
    compared = compare(now, plan(now), then, URI, allow)
    compared.check()
    return compared


def origin(chain: str, comparison: Comparison) -> Origin:
    return comparison.origins[ChainUid(chain)]


@pytest.mark.parametrize("spec", [FUSED, SPLIT], ids=["fused", "split"])
def test_an_unchanged_job_is_restored_and_there_is_nothing_to_ask_spark(spec: JobSpec) -> None:
    comparison = start(spec, snapshot(spec))

    assert set(verdicts(comparison).values()) == {"restored"}
    assert comparison.undecided == {}
    assert {uid: each.base for uid, each in comparison.origins.items()} == {uid: uid for uid in comparison.origins}


def test_the_number_of_partitions_is_that_of_the_state() -> None:
    now = job_spec(sql("clean", "events"), sql("counts", "clean", COUNTS), parallelism=8)

    assert start(now, snapshot(FUSED)).max_parallelism == 4


def test_another_number_of_partitions_is_a_rewrite() -> None:
    now = job_spec(sql("clean", "events"), sql("counts", "clean", COUNTS), maxParallelism=6)

    comparison = start(now, snapshot(FUSED))

    assert comparison.max_parallelism == 6
    assert "rewritten from 4 partitions to 6" in of("job", comparison).why


def test_state_without_a_place_is_refused_with_the_list_until_it_is_given_up() -> None:
    now = job_spec(sql("clean", "events"), sources=[timed_source("events", uid="others")])

    with pytest.raises(NonRestoredState, match="has state for events, counts, which") as refused:
        start(now, snapshot(FUSED))

    assert "--allow-non-restored-state" in refused.value.fix
    given_up = start(now, snapshot(FUSED), allow=True)
    assert verdicts(given_up) == {
        "others": "new",
        "clean": "restored",
        "to-clean": "new",
        "events": "dropped",
        "counts": "dropped",
        "to-counts": "dropped",
    }


def test_finished_operators_and_former_sinks_need_no_place() -> None:
    done = ("events", "clean", "counts", "to-counts")
    now = job_spec(sql("late", "others"), sources=[timed_source("others")])

    comparison = start(now, snapshot(FUSED, finished=done))

    assert {uid: verdicts(comparison)[uid] for uid in done} == dict.fromkeys(done, "dropped")


def test_what_keeps_no_state_may_go_without_a_word() -> None:
    now = job_spec(sql("counts", "events", COUNTS))

    comparison = start(now, snapshot(FUSED))

    assert verdicts(comparison)["clean"] == "dropped"
    assert origin("counts", comparison).base == "counts"
    assert "clean" in comparison.undecided[ChainUid("counts")]


def test_a_new_operator_without_state_joins_a_chain_that_has_run() -> None:
    now = job_spec(sql("clean", "events"), sql("few", "clean"), sql("counts", "few", COUNTS))

    assert verdicts(start(now, snapshot(FUSED)))["few"] == "new"


def test_a_source_that_cannot_be_replayed_is_read_anew_and_says_what_is_lost() -> None:
    now = job_spec(sql("kept", "lines"), sources=[source("lines", "socket")])

    finding = of("lines", start(now, snapshot(now)))

    assert finding.verdict is Verdict.NEW
    assert finding.why == "it cannot be replayed, and starts over: rows since this snapshot are lost"


def test_an_operator_behind_the_last_one_changes_the_name_of_its_chain_and_the_state_moves() -> None:
    now = job_spec(sql("clean", "events"), sql("counts", "clean", COUNTS), sql("loud", "counts"))

    comparison = start(now, snapshot(FUSED))

    assert origin("loud", comparison) == Origin(
        base=ChainUid("counts"), positions={OperatorUid("events"): ChainUid("counts")}
    )
    assert "moves from chain 'counts' to 'loud'" in of("counts", comparison).why


def test_a_new_operator_with_state_needs_a_chain_of_its_own() -> None:
    before = job_spec(sql("clean", "events"))

    with pytest.raises(NewStateInOldChain, match="'counts' begins to keep state in chain 'clean'") as refused:
        start(FUSED, snapshot(before))

    assert "chain: false" in refused.value.fix
    alone = start(SPLIT, snapshot(before))
    assert verdicts(alone)["counts"] == "new"
    assert origin("counts", alone) == Origin(consumed={ChainUid("clean"): 0})


def test_a_new_operator_with_state_may_begin_in_a_chain_that_has_run_where_that_is_allowed() -> None:
    before = job_spec(sql("clean", "events"))

    comparison = compared(FUSED, snapshot(before), allow=True)

    assert verdicts(comparison)["counts"] == "new"
    assert of("counts", comparison).why == "it starts empty in a chain that has run"
    # Spark has to be asked, and is to find that its state is new.
    assert "counts" in comparison.undecided[ChainUid("counts")]


def test_a_renamed_operator_keeps_its_state_by_its_uid() -> None:
    now = job_spec(sql("clean", "events"), sql("sums", "clean", COUNTS, uid="counts"))

    comparison = start(now, snapshot(FUSED))

    assert of("counts", comparison).verdict == "restored"
    assert "it has another name" in of("counts", comparison).why


def test_an_operator_of_another_uid_is_new_and_told_whom_it_resembles() -> None:
    now = job_spec(sql("clean", "events"), sql("counts", "clean", COUNTS, uid="other", chain=False))

    comparison = compared(now, snapshot(FUSED), allow=True)

    assert of("other", comparison).verdict == "new"
    assert "of this name has the uid 'counts'" in of("other", comparison).why
    assert origin("clean", comparison).state == ()


def test_the_order_in_the_file_does_not_matter() -> None:
    two = [timed_source(), timed_source("others")]
    both = {
        "name": "both",
        "inputs": ["events", "others"],
        "sql": "SELECT * FROM events UNION ALL SELECT * FROM others",
    }
    then = snapshot(job_spec(both, sql("counts", "both", COUNTS), sources=two))
    now = job_spec(sql("counts", "both", COUNTS), both, sources=two[::-1], sinks=("counts",))

    comparison = start(now, then)

    assert set(verdicts(comparison).values()) == {"restored"}
    assert comparison.undecided == {}


def test_a_source_more_is_read_from_its_beginning_and_the_chain_is_rewritten() -> None:
    then = snapshot(job_spec(sql("clean", "events"), sql("counts", "clean", COUNTS)))
    both = {
        "name": "clean",
        "inputs": ["events", "others"],
        "sql": "SELECT * FROM events UNION ALL SELECT * FROM others",
    }
    now = job_spec(both, sql("counts", "clean", COUNTS), sources=[timed_source("others"), timed_source()])

    comparison = start(now, then)

    assert verdicts(comparison)["others"] == "new"
    assert verdicts(comparison)["events"] == verdicts(comparison)["counts"] == "rewritten"


def test_two_chains_become_one_where_only_one_has_state() -> None:
    comparison = start(FUSED, snapshot(SPLIT))

    assert origin("counts", comparison) == Origin(
        base=ChainUid("counts"), positions={OperatorUid("events"): ChainUid("clean")}
    )
    assert of("clean -> counts", comparison).verdict == "dropped"


def test_one_chain_becomes_two_and_the_state_goes_with_its_operator() -> None:
    comparison = start(SPLIT, snapshot(FUSED))

    assert origin("clean", comparison) == Origin(
        base=ChainUid("counts"), state=(), positions={OperatorUid("events"): ChainUid("counts")}
    )
    assert origin("counts", comparison) == Origin(base=ChainUid("counts"), consumed={ChainUid("clean"): 0})
    assert of("clean -> counts", comparison).verdict == "new"


def test_data_in_flight_needs_its_channel() -> None:
    then = snapshot(SPLIT, in_flight=(("clean", "counts"),))

    with pytest.raises(InFlightDataLost, match="3 records in flight from 'clean' to 'counts'") as refused:
        start(FUSED, then)

    assert "savepoint" in refused.value.fix
    with pytest.raises(InFlightDataLost):
        start(FUSED, then, allow=True)


def test_readers_that_have_come_to_different_places_do_not_become_one_reader() -> None:
    readers = sql("clean", "events"), sql("early", "clean"), sql("late", "clean")
    then = snapshot(job_spec(*readers, sinks=("early", "late")), in_flight=(("clean", "early"),))
    ahead = [each.model_copy(update={"consumed": each.next + 1}) for each in then.channels if each.target == "late"]
    then = then.model_copy(update={"channels": (*(each for each in then.channels if each.target != "late"), *ahead)})
    union = sql("both", ["early", "late"], "SELECT * FROM early UNION ALL SELECT * FROM late")

    with pytest.raises(InFlightDataLost, match="had read 'clean' up to different places, and now read it in one chain"):
        start(job_spec(*readers, union), then)


def test_data_in_flight_to_an_operator_that_is_gone_is_given_up_with_its_state() -> None:
    then = snapshot(SPLIT, in_flight=(("clean", "counts"),))
    now = job_spec(sql("clean", "events"))

    comparison = start(now, then, allow=True)

    assert of("clean -> counts", comparison).verdict == "dropped"
    assert "3 records in flight are given up" in of("clean -> counts", comparison).why


def test_data_in_flight_goes_on_to_its_reader_under_the_name_of_its_new_chain() -> None:
    then = snapshot(SPLIT, in_flight=(("clean", "counts"),))
    now = job_spec(sql("clean", "events"), sql("counts", "clean", COUNTS, chain=False), sql("loud", "counts"))
    fused = now.model_copy(
        update={
            "operators": (*now.operators[:1], now.operators[1].model_copy(update={"chain": True}), now.operators[2])
        }
    )
    fan_out = job_spec(
        sql("clean", "events"),
        sql("counts", "clean", COUNTS),
        sql("loud", "counts"),
        sql("others", "clean"),
        sinks=("loud", "others"),
    )

    with pytest.raises(InFlightDataLost):
        start(fused, then)
    comparison = start(fan_out, then)
    assert origin("loud", comparison).consumed == {"clean": 5}
    assert origin("others", comparison).consumed == {"clean": 6}


def test_state_of_two_chains_does_not_fit_into_one() -> None:
    then = snapshot(
        job_spec(
            sql("first", "events", COUNTS.replace("k,", "k, max(at) AS at,")),
            sql("second", "first", COUNTS, chain=False),
        )
    )
    now = job_spec(sql("first", "events", COUNTS.replace("k,", "k, max(at) AS at,")), sql("second", "first", COUNTS))

    with pytest.raises(StateOfSeveralChains, match="'first', 'second' kept their state in the chains"):
        start(now, then)


def test_state_that_may_be_of_either_of_two_operators_is_not_divided() -> None:
    def operators(*, chain: bool) -> list[dict[str, Any]]:
        first = {"name": "first", "inputs": ["events"], "python": "steps:first"}
        return [first, {"name": "second", "inputs": ["first"], "python": "steps:second", "chain": chain}]

    then = snapshot(job_spec(*operators(chain=True)), told=False)

    with pytest.raises(StateDivided, match="'first', 'second' ran in one chain"):
        start(job_spec(*operators(chain=False)), then)


def test_another_format_of_a_source_is_refused() -> None:
    now = job_spec(
        sql("clean", "events"), sql("counts", "clean", COUNTS), sources=[timed_source() | {"format": "parquet"}]
    )

    with pytest.raises(SourceFormatChanged, match="'events' has the format parquet"):
        start(now, snapshot(FUSED))


def test_a_uid_stays_with_what_it_was_of() -> None:
    now = job_spec(sql("clean", "raw"), sql("counts", "clean", COUNTS, uid="events"), sources=[timed_source("raw")])

    causes = {type(error): str(error) for error in compared(now, snapshot(FUSED)).refusals}

    assert "'events' is of the kind operator here, and of another kind, source" in causes[PartChanged]


def test_all_causes_are_told_and_not_only_the_first() -> None:
    now = job_spec(
        sql("clean", "raw"),
        sources=[timed_source("raw", uid="events") | {"format": "parquet"}],
    )

    causes: list[type[StreamJobError]] = [type(error) for error in compared(now, snapshot(FUSED)).refusals]

    assert causes == [NonRestoredState, SourceFormatChanged]


def test_what_only_spark_can_tell_is_not_decided_by_the_graphs() -> None:
    changed = job_spec(sql("clean", "events"), sql("counts", "clean", COUNTS.replace("1 minute", "2 minutes")))
    stateless = job_spec(sql("clean", "events"))

    assert compared(changed, snapshot(FUSED)).undecided == {"counts": "counts"}
    assert compared(job_spec(sql("clean", "events", "SELECT k FROM {}")), snapshot(stateless)).undecided == {}


def test_what_spark_finds_replaces_all_but_refusals_and_may_concern_other_parts() -> None:
    before = compared(job_spec(sql("clean", "events")), snapshot(FUSED))
    found = [
        Finding(kind=Kind.OPERATOR, uid=uid, verdict=Verdict.DROPPED, why="its state does not fit")
        for uid in ("clean", "counts", "other")
    ]

    after = verdicts(before.decided(found))

    assert after == verdicts(before) | {"clean": "dropped", "counts": "refused", "other": "dropped"}


def test_a_chain_is_finished_if_all_its_operators_are() -> None:
    all_of_it = ("events", "clean", "counts", "to-counts")

    assert origin("counts", start(FUSED, snapshot(FUSED, finished=all_of_it))).finished
    assert not origin("counts", start(SPLIT, snapshot(SPLIT, finished=("events", "clean")))).finished


def test_an_unfinished_operator_before_a_finished_one_is_refused_and_both_are_named() -> None:
    with pytest.raises(UnfinishedBeforeFinished, match="'clean' has finished, but the job has 'events' before it"):
        start(FUSED, snapshot(FUSED, finished=("clean", "counts", "to-counts")))


def test_a_new_operator_may_stand_behind_a_finished_one_in_a_chain_of_its_own_but_not_before_it() -> None:
    done = ("events", "clean", "to-clean")
    then = snapshot(job_spec(sql("clean", "events")), finished=done)
    before = job_spec(sql("between", "events"), sql("clean", "between"))

    with pytest.raises(UnfinishedBeforeFinished, match="'clean' has finished, but the job has 'between' before it"):
        start(before, then)
    with pytest.raises(FinishedAndUnfinished, match="'events', 'clean' have finished, and are to run in one chain"):
        start(job_spec(sql("clean", "events"), sql("after", "clean")), then)
    assert start(job_spec(sql("clean", "events"), sql("after", "clean", chain=False)), then).refusals == ()


def test_a_loop_is_not_closed_over_an_operator_that_has_finished() -> None:
    clean, after = sql("clean", "events", chain=False), sql("after", "clean")
    back = {"from": "after", "feedback": True, "schema": "k STRING, at TIMESTAMP"}
    looped = job_spec(clean | {"inputs": ["events", back]}, after)

    with pytest.raises(UnfinishedBeforeFinished, match="'clean' has finished, but the job has 'after' before it"):
        start(looped, snapshot(job_spec(clean, after), finished=("events", "clean")))
    assert start(looped, snapshot(looped, finished=("events", "clean", "after", "to-after"))).refusals == ()
