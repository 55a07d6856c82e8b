"""The evaluation of the benchmark of executors."""

from __future__ import annotations

import pytest
from bench.executors.cost import LOCAL, REMOTE
from bench.executors.manifests import manifest_of
from bench.executors.paper import puts_of_executor
from bench.executors.report import cost_ratio, render
from bench.executors.restore import EMPTY
from bench.executors.results import (
    AllCheckpoints,
    Checkpoints,
    Cost,
    Costs,
    Crowd,
    Crowds,
    Executors,
    Losses,
    Lost,
    Manifested,
    Manifests,
    Restored,
    Restores,
    Taken,
)
from bench.executors.threads import OTHER, PYTHON, between, kind
from bench.model import Circumstances

WHERE = Circumstances(command="make bench-executors", begun="then", ended="now", machine="here", versions={})


def cost(side: str, number: int, warm_cpu: float, tasks: float = 1.0) -> Cost:
    return Cost(
        side=side,
        round=number,
        records=8_000_000,
        rows=80_000,
        wall=30,
        cpu=50,
        warm_cpu=warm_cpu,
        warm_records=6_000_000,
        late_cpu=warm_cpu / 2,
        late_records=4_000_000,
        late_threads={"tasks": tasks},
        batches_ms=(900.0, 1000.0, 1100.0),
        load_before=1.0,
    )


def checkpoints(executors: int, partitions: int, puts: int) -> Checkpoints:
    taken = Taken(
        seconds=0.4, requests={"PutObject": puts, "ListObjectsV2": 2}, put_bytes=1, files=100, manifest_bytes=27_000
    )
    return Checkpoints(executors=executors, partitions=partitions, load_before=1.0, samples=(taken,))


def restored(size: int, seconds: float) -> Restored:
    return Restored(way=EMPTY, state_bytes=size, running=9.0, first_batch=9.0 + seconds, gets=1, load_before=1.0)


def crowd(agents: int) -> Crowd:
    return Crowd(agents=agents, requests=7 * agents, seconds=1.0, cpu=0.01 * agents, failures=0, load_before=1.0)


def test_the_cost_of_executors_is_compared_within_a_round() -> None:
    costs = (
        cost(LOCAL, 0, 6.0),
        cost(REMOTE, 0, 6.6),
        cost(REMOTE, 1, 24.0),
        cost(LOCAL, 1, 20.0),
        cost(LOCAL, 2, 1.0),
    )

    assert cost_ratio(costs) == pytest.approx((1.1 + 1.2) / 2)
    text = render(Executors(cost=Costs(circumstances=WHERE, runs=costs)))
    goal = "- **missed**: CPU per record on executors at most 1.1 times that of one process: "
    assert f"{goal}1.15, and 1.15 in the later half" in text


def test_the_threads_of_both_sides_are_compared_by_the_record() -> None:
    costs = (cost(LOCAL, 0, 6.0, tasks=2.0), cost(REMOTE, 0, 6.6, tasks=4.0))

    text = render(Executors(cost=Costs(circumstances=WHERE, runs=costs)))

    assert "| tasks | 0.500 | 1.000 | +0.500 |" in text


@pytest.mark.parametrize(
    ("java", "name", "what"),
    [
        (True, "Executor task l", "tasks"),
        (True, "C2 CompilerThre", "compilers"),
        (True, "GC Thread#1", "garbage collection"),
        (True, "rpc-client-1-1", "network"),
        (True, "spark-listener-", OTHER),
        (False, "Executor task l", PYTHON),
    ],
)
def test_a_thread_is_known_by_its_name(java: bool, name: str, what: str) -> None:
    assert kind(java, name) == what


def test_the_cpu_of_threads_is_counted_between_the_nearest_samples() -> None:
    samples = [(0.0, {"tasks": 1.0}), (1.0, {"tasks": 2.0}), (2.0, {"tasks": 4.0, "network": 1.0})]

    assert between(samples, 0.9, 2.4) == {"tasks": 2.0, "network": 1.0}


def test_the_steps_of_a_loss_are_shown() -> None:
    lost = Lost(round=0, first=7.0, beyond=7.0, published=9.0, load_before=1.0, phases=(0.5, 1.0, 3.0))

    text = render(Executors(loss=Losses(circumstances=WHERE, runs=(lost,))))

    assert "| seconds | 0.5 (0.5–0.5) | 0.5 (0.5–0.5) | 2.0 (2.0–2.0) | 4.0 (4.0–4.0) |" in text


def test_a_further_executor_costs_the_requests_by_which_checkpoints_differ() -> None:
    runs = (checkpoints(0, 8, 3), checkpoints(1, 8, 4), checkpoints(4, 8, 10), checkpoints(1, 64, 4))

    assert puts_of_executor(runs) == 2


def test_many_executors_are_computed_from_what_was_measured() -> None:
    results = Executors(
        checkpoints=AllCheckpoints(circumstances=WHERE, runs=(checkpoints(1, 8, 4), checkpoints(4, 8, 10))),
        agents=Crowds(circumstances=WHERE, runs=(crowd(10), crowd(50))),
        restore=Restores(circumstances=WHERE, runs=(restored(100_000_000, 2.0), restored(1_000_000_000, 10.0))),
    )
    large = Manifested(files=10_000, size=2_700_000, write_cpu=0.1, read_cpu=0.1, memory=9_000_000, load_before=1)

    assert "on paper" not in render(results)
    text = render(results.model_copy(update={"manifest": Manifests(circumstances=WHERE, runs=(large,))}))

    assert "| files of a checkpoint | 39,625 |" in text
    assert "| manifest, MB | 11 |" in text
    assert "| PUT of a checkpoint | 200 |" in text
    assert "| driver CPU s to answer agents | 1.00 |" in text
    assert "| an executor fetches, MB/s | 50 | measured with 1000 MB on 2 executors |" in text
    assert "| restore onto empty disks, s | 200 |" in text


def test_a_manifest_grows_with_its_files() -> None:
    few, many = manifest_of(10), manifest_of(100)

    assert (few.files, many.files) == (10, 100)
    assert 200 * 90 < many.size - few.size < 400 * 90
