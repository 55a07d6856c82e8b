"""What benchmarks are made of: the threads of executors, handwritten files of checkpoints, the sides of Kafka."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from bench.executors.manifests import manifest_of
from bench.executors.paper import puts_of_executor
from bench.executors.results import Taken
from bench.executors.threads import OTHER, PYTHON, between, kind
from bench.kafka import SIDES, start_command
from bench.spark_files import BATCHES, PARTITIONS, SparkFiles

from streamjob_runtime.spark.checkpoint_dir.files import files_for


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


@pytest.mark.parametrize("history", [1, 60, 137])
def test_files_that_are_written_by_hand_are_those_of_a_checkpoint(tmp_path: Path, history: int) -> None:
    spark = SparkFiles(tmp_path / "checkpoint", 80, history, Random(1))
    first = files_for(spark.directory, spark.batch)
    spark.advance()

    files = files_for(spark.directory, spark.batch)

    ssts = [path for path in files if path.endswith(".sst")]
    changelogs = [path for path in files if path.endswith(".changelog")]
    assert spark.batch == history - 1 + BATCHES
    assert len(ssts) == 80
    assert len(changelogs) == PARTITIONS * (BATCHES // 2 - 1)
    assert len(set(ssts) - set(first)) == 2 * PARTITIONS
    compacted = (spark.batch + 1) // 10 * 10 - 1
    assert {path for path in files if path.startswith("sources/")} == {
        f"sources/0/{compacted}.compact",
        *(f"sources/0/{number}" for number in range(compacted + 1, spark.batch + 1)),
    }
    assert all((spark.directory / path).exists() for path in files)


def test_the_sides_differ_in_nothing_but_what_is_compared() -> None:
    changes: dict[str, object] = {"sources.events.options.subscribe": "events"}
    commands = {name: " ".join(start_command(side, Path("/work"), changes)) for name, side in SIDES.items()}

    assert "bench.kafka_plain" in commands["plain"]
    assert all("sources.events.options.subscribe=events" in each for each in commands.values())
    assert "sinks.copy.delivery=at-least-once" in commands["at least once"]
    assert "checkpointing.interval=1s" in commands["exactly once, 1 s"]
