"""The benchmark of executors: what its threads do, and what its extrapolation is made of."""

from __future__ import annotations

import pytest
from bench.executors.manifests import manifest_of
from bench.executors.paper import puts_of_executor
from bench.executors.results import Taken
from bench.executors.threads import OTHER, PYTHON, between, kind


def taken(executors: int, partitions: int, puts: int) -> Taken:
    sizes = {"put_bytes": 1, "files": 100, "manifest_bytes": 27_000, "other_requests": 2}
    return Taken(executors=executors, partitions=partitions, puts=puts, seconds=0.4, load_before=1.0, **sizes)


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


def test_a_further_executor_costs_the_requests_by_which_checkpoints_differ() -> None:
    assert puts_of_executor([taken(0, 8, 3), taken(1, 8, 4), taken(4, 8, 10), taken(1, 64, 4)]) == 2


def test_a_manifest_grows_with_its_files() -> None:
    few, many = manifest_of(10), manifest_of(100)

    assert (few.files, many.files) == (10, 100)
    assert 200 * 90 < many.size - few.size < 400 * 90
