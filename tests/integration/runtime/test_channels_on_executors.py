"""Graphs of chains on executors that share no directory and are killed: nothing is lost, doubled or out of order."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.core import thorough
from tests.integration.runtime.executor_processes import LONG, ON_TWO, agents_of_executors, java_of_executors, kill
from tests.integration.runtime.graphs import MODES
from tests.integration.runtime.processes import JobProcess, JobRuns, job_runs
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.topologies import check_output, held, last_manifest, topologies

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEEDS = {"aligned": 11, "unaligned": 12, "switching": 13}


def start(runs: JobRuns, workdir: str) -> JobProcess:
    return runs.start(*ON_TWO, workdir=workdir, environment={"PYTHONPATH": str(ROOT)})


@pytest.fixture
def graph(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[JobRuns]:
    """The processes of a graph with all topologies, in the mode that is the fixture's parameter."""
    file = write_job(tmp_path, topologies(tmp_path, MODES[request.param]))
    with job_runs(file, tmp_path / "snapshots", "graph") as runs:
        yield runs


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("graph", "mode"),
    thorough([(mode, mode) for mode in MODES]),
    indirect=["graph"],
    ids=list(MODES),
)
def test_a_graph_on_executors_survives_every_kill(graph: JobRuns, mode: str) -> None:
    runs, chance, directory = graph, random.Random(SEEDS[mode]), graph.file.parent

    def is_full() -> bool:
        # After a checkpoint in the given mode: with rows in flight, or without any if it is aligned.
        return runs.furthest() > 0 and (mode == "aligned" or held(last_manifest(runs)) > 0)

    first = start(runs, "work")
    runs.wait(is_full, "checkpoint with rows in flight", first, LONG)
    time.sleep(chance.uniform(0, 0.5))
    kill(java_of_executors(directory / "work")["executor-0"])
    runs.wait(lambda: runs.epoch() > 1, "claim behind the loss of a Java", first, LONG)
    runs.wait(lambda: len(runs.completions(2)) > 0, "checkpoint behind the loss of a Java", first, LONG)
    kill(agents_of_executors(directory / "work")["executor-1"])
    runs.wait(lambda: runs.epoch() > 2, "claim behind the loss of an agent", first, LONG)
    runs.wait(lambda: len(runs.completions(3)) > 0 and is_full(), "rows in flight again", first, LONG)
    first.kill()
    # Nothing is left of the disks.
    last = start(runs, "another")

    assert last.wait(LONG) == 0, last.output()
    check_output(directory)
