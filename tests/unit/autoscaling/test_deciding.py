"""Each rule of automatic scaling, on a simulated job that reports the counters of a real one."""

from __future__ import annotations

import base64
import json
import math
import zlib
from dataclasses import replace

import pytest
from bench.autoscaler.traces import traces
from bench.autoscaler.world import Kind
from tests.unit.autoscaling.jobs import CALM, RESTARTS, Life, hours, moves

from streamjob.autoscaling import (
    ChainLoad,
    Decision,
    LoadReport,
    Means,
    Memory,
    Policy,
    Rule,
    SourceLoad,
    State,
    decide,
    pack_memory,
    read_load,
    sentence,
    unpack_memory,
    write_load,
)

IN_PLACE = replace(CALM, in_place=True, restart=1.0)


def rules(made: list[tuple[LoadReport, Decision]]) -> set[Rule]:
    return {decision.rule for _, decision in made}


def told(made: list[tuple[LoadReport, Decision]], rule: Rule, policy: Policy = RESTARTS) -> str:
    return next(sentence(decision, policy, load) for load, decision in made if decision.rule is rule)


def test_before_its_first_batches_a_job_is_left_alone() -> None:
    load = LoadReport(time=10, slots=4, rows=0, chains=())

    decision = decide(RESTARTS, Memory(), load, 10)

    assert (decision.rule, decision.state, decision.slots) == (Rule.NO_DATA, State.LEARNING, None)
    assert (
        sentence(decision, RESTARTS, load) == "Keep 4 slots: there are 0 samples of the load, too few for a decision."
    )


def test_a_step_is_followed_by_one_move_to_the_target_utilization() -> None:
    made = Life(hours((1, 40_000), (0.4, 120_000)), kind=CALM).run()

    (move,) = moves(made)
    assert move.rule is Rule.BEHIND
    assert 15 <= (move.slots or 0) <= 24
    assert max((load.lag or 0) / 120_000 for load, _ in made) < 60
    text = told(made, Rule.BEHIND)
    assert text.startswith(f"Change from 6 to {move.slots} slots by a restart: ")
    assert "records/s arrive" in text


def test_fewer_slots_wait_for_the_delay_and_less_if_they_save_half() -> None:
    much = Life(hours((1, 40_000), (1, 120_000), (1.5, 40_000)), kind=CALM).run()
    little = Life(hours((1, 80_000), (2, 58_000)), kind=CALM, slots=12).run()

    down = [(load.time, decision.inputs["minutes"]) for load, decision in much if decision.rule is Rule.IDLE]
    assert down[0][0] - 2 * 3600 < 20 * 60
    assert down[0][1] == 12
    later = [load.time for load, decision in little if decision.rule is Rule.IDLE]
    assert later[0] - 3600 >= 20 * 60
    assert "in the last 12 minutes at most" in told(much, Rule.IDLE)


def test_a_load_that_fits_moves_nothing() -> None:
    made = Life(hours((3, 80_000)), kind=Kind(), slots=12).run()

    assert moves(made) == []
    assert made[-1][1].state is State.STEADY


def test_slots_that_do_not_help_are_given_back_and_reported() -> None:
    life = Life(hours((0.5, 50_000), (3, 120_000)), kind=replace(Kind(), hot=7))
    made = life.run()

    undone = next(decision for decision in moves(made) if decision.rule is Rule.UNDO)
    assert undone.state is State.SATURATED
    assert 6 <= (undone.slots or 0) <= 10
    ups = [decision for decision in moves(made) if decision.rule is Rule.BEHIND]
    assert ups.index(ups[-1]) + 1 < 4
    text = told(made, Rule.UNDO)
    assert "do not help" in text
    assert "The chain that takes most of the time is job." in text
    assert "but more slots did not help" in told(made, Rule.SATURATED)


def test_slots_are_judged_before_there_are_more_on_top() -> None:
    kind = replace(Kind(), in_place=True, restart=1.0, restart_spread=0.0, hot=7)
    policy = Policy(max=60, means=(Means.IN_PLACE, Means.RESTART), target_utilization=0.8)
    made = moves(Life(traces(1)["skew"][:1500], policy, kind).run())

    until_undone = [move.slots or 0 for move in made[: [move.rule for move in made].index(Rule.UNDO)]]
    assert len([slots for slots in until_undone if slots > 7]) < 3


def test_the_skew_of_a_topic_is_named_where_more_slots_do_not_help() -> None:
    def uneven(load: LoadReport) -> LoadReport:
        (source,) = load.sources
        return replace(load, sources=(replace(source, partitions=10, largest_lag=0.8 * (source.lag or 0)),))

    life = Life(hours((0.5, 50_000), (3, 120_000)), kind=replace(Kind(), hot=7), change=uneven)

    assert "spread its keys" in told(life.run(), Rule.UNDO)


def of_files(load: LoadReport) -> LoadReport:
    """Return a report whose source has files; what it has read tells the size of a record the better the more it is."""
    (source,) = load.sources
    if not load.rows:
        return replace(load, sources=(SourceLoad("events"),))
    estimate = 100.0 * (1 + 0.5 * math.cos(load.time) * min(1.0, 1e6 / load.rows))
    lag = (source.lag or 0.0) * 100.0 / estimate
    return replace(load, sources=(SourceLoad("events", lag, record_bytes=estimate),))


def test_a_backlog_of_files_is_worked_off_with_more_slots() -> None:
    made = Life(hours((1, 40_000)), kind=CALM, lag=100e6, change=of_files).run()

    move, *_ = moves(made)
    assert move.rule is Rule.BEHIND
    assert (move.slots or 0) > 6
    assert min(load.lag for load, _ in made if load.lag is not None) < 40_000 * 60


def test_an_estimate_of_the_records_in_files_that_becomes_better_is_no_arrival_of_records() -> None:
    made = Life(hours((1, 40_000)), Policy(max=6, means=(Means.RESTART,)), CALM, lag=500e6, change=of_files).run()

    rates = [rate for _, decision in made for rate in decision.memory.arrivals.minutes]
    assert rates
    assert min(rates) > 30_000
    assert max(rates) < 50_000


def test_a_change_in_place_is_preferred_where_it_is_possible() -> None:
    policy = Policy(max=60)
    made = Life(hours((0.5, 40_000), (0.5, 100_000)), policy, IN_PLACE).run()

    assert {decision.means for decision in moves(made)} == {Means.IN_PLACE}

    def narrow(load: LoadReport) -> LoadReport:
        return replace(load, in_place_slots=8)

    beyond = Life(hours((0.5, 40_000), (0.2, 100_000)), policy, IN_PLACE, change=narrow).run()
    assert moves(beyond)[0].means is Means.RESTART


def test_without_a_permitted_means_the_state_is_limited() -> None:
    policy = Policy(max=60, means=(Means.IN_PLACE,))
    made = Life(hours((0.5, 40_000), (0.2, 100_000)), policy, CALM).run()

    assert moves(made) == []
    assert made[-1][1].state is State.LIMITED
    assert "the list of permitted means allows no more slots" in sentence(made[-1][1], policy, made[-1][0])


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"max_parallelism": 8, "state_bytes": 1_200_000_000}, "It reads all state (1,200 MB) three times"),
        (
            {"stateful": False, "sources": (SourceLoad("events", partitions=8),)},
            "More partitions in the sources' topics",
        ),
    ],
)
def test_at_a_limit_of_the_job_the_reason_names_the_change_that_would_help(
    limit: dict[str, object], words: str
) -> None:
    def limited(load: LoadReport) -> LoadReport:
        (source,) = load.sources
        known = dict(limit)
        if "sources" in known:
            known["sources"] = (replace(source, partitions=8),)
        return replace(load, **known)  # type: ignore[arg-type]

    made = Life(hours((0.5, 40_000), (0.5, 120_000)), kind=CALM, change=limited).run()

    assert [decision.slots for decision in moves(made)] == [8]
    assert moves(made)[0].state is State.LIMITED
    assert words in told(made, Rule.LIMITED)


def test_a_restart_without_a_checkpoint_is_undone_once_and_then_paused() -> None:
    def no_checkpoint(load: LoadReport) -> LoadReport:
        return replace(load, checkpoint_age=load.time)

    made = Life(hours((0.5, 40_000), (1, 120_000)), kind=CALM, change=no_checkpoint).run()

    assert [decision.rule for decision in moves(made)] == [Rule.BEHIND, Rule.FAILED]
    assert moves(made)[1].slots == 6
    assert made[-1][1].rule is Rule.PAUSED
    assert "has completed no checkpoint in the 10 minutes" in told(made, Rule.FAILED)


def test_the_model_survives_a_restart_of_the_job() -> None:
    made = Life(hours((0.5, 40_000), (0.05, 120_000)), kind=CALM).run()
    after = next(number for number, (_, decision) in enumerate(made) if decision.slots is not None)
    running = next(decision for _, decision in made[after + 3 :] if decision.rule is not Rule.NOT_RUNNING)

    assert "capacity" in running.inputs


def test_restarts_are_measured() -> None:
    made = Life(hours((0.5, 40_000), (0.3, 120_000)), kind=replace(CALM, restart=45.0)).run()

    (pause,) = made[-1][1].memory.pauses
    assert 35 <= pause <= 60


def test_a_start_without_input_is_no_restart_that_lasts() -> None:
    load = LoadReport(time=0, slots=2, rows=100, chains=(), process="a", sources=(SourceLoad("events", 0.0, 100.0),))
    memory = decide(RESTARTS, Memory(), load, 0).memory
    for time in range(10, 300, 10):
        load = replace(load, time=float(time), rows=0, process="b")
        memory = decide(RESTARTS, memory, load, time).memory

    assert memory.pauses == ()
    assert memory.down_since is None


def test_a_job_that_starts_for_the_first_time_runs_as_soon_as_it_has_a_batch_and_its_start_is_no_restart() -> None:
    starting = LoadReport(time=0, slots=2, rows=0, chains=(), sources=(), running=False)
    chain = ChainLoad("report", 100.0, 3, 1.0)
    working = LoadReport(
        time=90, slots=2, rows=100, chains=(chain,), process="a", sources=(SourceLoad("in", 0.0, 9.0),)
    )

    memory = decide(RESTARTS, decide(RESTARTS, Memory(), starting, 0).memory, working, 90).memory

    assert memory.down_since is None
    assert memory.pauses == ()


def test_memory_and_reports_are_read_as_they_were_written() -> None:
    load, decision = Life(hours((0.6, 40_000), (0.2, 120_000)), kind=Kind()).run()[-1]

    assert unpack_memory(pack_memory(decision.memory)) == decision.memory
    line = json.dumps(write_load(load))
    assert read_load(line) == load
    assert len(pack_memory(decision.memory)) < 20_000


def test_a_memory_of_an_earlier_version_which_kept_more_is_read() -> None:
    memory = Life(hours((0.5, 40_000), (0.4, 120_000)), kind=CALM).run()[-1][1].memory
    kept = json.loads(zlib.decompress(base64.b64decode(pack_memory(memory))))
    kept |= {"alpha": 0.91, "busy": 0.97}
    kept["arrivals"]["hours"] = [[490000, 120000.0]]
    kept["chains"][0] |= {"knownFixed": 0.3, "knownRow": 1e-5, "rowError": 0.1}
    earlier = base64.b64encode(zlib.compress(json.dumps(kept).encode())).decode()

    assert unpack_memory(earlier) == memory
