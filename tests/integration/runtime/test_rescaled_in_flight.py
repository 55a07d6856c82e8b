"""A graph of chains with full channels goes on with more task slots and with fewer: its rows in flight are read once.

One graph has all topologies: a pipeline through a slow operator, fan-out, a union of several inputs, a join, windows.
In the spirit of Flink's UnalignedCheckpointRescaleITCase.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.integration.runtime.graphs import Row, difference, disorder, in_flight, job, output, rows_of
from tests.integration.runtime.processes import JobProcess, JobRuns, job_runs
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.topologies import apart, inputs, last_manifest
from tests.jobs import sql

from streamjob.client.client import ControlClient
from streamjob.client.discovery import find_endpoint
from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import RecordKind

ROOT = Path(__file__).parents[3]
FILES = 14
ROWS = 60
"""Rows in a file of one source; one slot of the slow operator takes more than half a second."""
KEYS = 20
PARTITIONS = 8
SLOTS = (1, 2, 3, 7, 2)


@dataclass(frozen=True, slots=True)
class Case:
    """How the checkpoints are taken, and which lives end with a savepoint; the others are killed."""

    mode: str
    behind_savepoint: frozenset[int]
    seed: int


CASES = {
    "unaligned": Case("unaligned", frozenset({2}), 6),
}


def rows_in() -> list[Row]:
    """Return all rows of a source, a quarter of a second apart."""
    return [Row(f"k{index % KEYS}", index // KEYS, index / 4) for index in range(FILES * ROWS)]


def graph(directory: Path, mode: str) -> dict[str, Any]:
    """Return the job; the channel before its slow operator holds seconds of work."""
    operators = [
        *apart("k, n, at"),
        sql(
            "counts",
            ["both"],
            "SELECT side, k, unix_seconds(window.start) AS begin, count(*) AS n FROM both "
            "GROUP BY side, k, window(at, '30 seconds')",
            chain=False,
        ),
    ]
    return job(
        directory,
        inputs(directory, rows_in(), ROWS),
        operators,
        ["both", "pairs", "counts"],
        maxParallelism=PARTITIONS,
        checkpointing={"interval": "300ms", "numRetained": 5, "mode": mode},
        channels={"capacityRecords": 4 * ROWS, "maxBatchRecords": ROWS},
    )


@pytest.fixture
def runs(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[JobRuns]:
    """The processes of the graph, in the case that is the fixture's parameter."""
    file = write_job(tmp_path, graph(tmp_path, request.param.mode))
    with job_runs(file, tmp_path / "snapshots", "graph") as started:
        yield started


def of_slots(manifest: Manifest | None, slots: int, epoch: int) -> bool:
    """Return whether a snapshot after an epoch belongs to a job with the given number of slots."""
    return manifest is not None and manifest.epoch > epoch and manifest.graph["parallelism"] == slots


def published(runs: JobRuns) -> float:
    """Return the published share of the rows that go through the slow operator."""
    rows = rows_of(output(runs.file.parent, "both"))
    return sum(count for (side, *_), count in rows.items() if side == "left") / (FILES * ROWS)


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("runs", "case"), [(each, each) for each in CASES.values()], indirect=["runs"], ids=CASES)
def test_killed_with_each_number_of_slots_it_goes_on_with_another_and_nothing_is_lost_doubled_or_out_of_order(
    runs: JobRuns, case: Case
) -> None:
    chance = random.Random(case.seed)

    def start(slots: int, *arguments: str) -> JobProcess:
        environment = {"PYTHONPATH": str(ROOT)}
        return runs.start("--parallelism", str(slots), *arguments, environment=environment)

    def killed_while_it_restores(slots: int) -> None:
        epoch = runs.epoch()
        process = start(slots, *named)
        runs.wait(lambda: runs.epoch() > epoch, "claim", process)
        process.kill()

    def holds(slots: int, epoch: int, share: float) -> Callable[[], bool]:
        def is_far_enough() -> bool:
            manifest = last_manifest(runs)
            with_rows = case.mode == "aligned" or (manifest is not None and in_flight(manifest) > 0)
            return with_rows and of_slots(manifest, slots, epoch) and published(runs) >= share

        return is_far_enough

    restored: list[Manifest | None] = []
    named: tuple[str, ...] = ()
    for life, slots in enumerate(SLOTS[:-1]):
        if life in case.behind_savepoint:
            killed_while_it_restores(slots)
        epoch = runs.epoch()
        process = start(slots, *named)
        runs.wait(holds(slots, epoch, (life + 1) / 6), f"checkpoint with {slots} slots", process)
        if life in case.behind_savepoint:
            named = ("--from", savepoint(runs, process))
        else:
            time.sleep(chance.uniform(0, 0.3))
            process.kill()
            named = ()
        restored.append(last_manifest(runs))
    last = start(SLOTS[-1], *named)
    assert last.wait() == 0, last.output()

    assert runs.records()[-1].kind is RecordKind.FINAL
    taken = [manifest for manifest in restored if manifest is not None]
    assert [(each.graph["parallelism"], each.graph["maxParallelism"]) for each in taken] == [
        (slots, PARTITIONS) for slots in SLOTS[:-1]
    ]
    kinds = ["savepoint" if life in case.behind_savepoint else "checkpoint" for life in range(len(taken))]
    assert [each.kind for each in taken] == kinds
    with_rows = [each.kind == "checkpoint" and case.mode == "unaligned" for each in taken]
    assert [in_flight(each) > 0 for each in taken] == with_rows
    check(runs.file.parent)


def savepoint(runs: JobRuns, process: JobProcess) -> str:
    """Stop the job with a savepoint; return the savepoint's URI."""
    endpoint = find_endpoint(workdir=runs.file.parent / "work")
    with ControlClient(endpoint.url, endpoint.token) as client:
        client.stop(savepoint=True)
    assert process.wait() == 0, process.output()
    return (runs.root / str(runs.completions()[-1].manifest)).as_uri()


def check(directory: Path) -> None:
    """Compare what has been published with what the rows make."""
    rows = rows_in()
    both, pairs, counts = (output(directory, name) for name in ("both", "pairs", "counts"))
    keyed = [(batch, [row[:3] for row in each]) for batch, each in both]
    sides = ("left", "right")
    assert not difference(Counter((side, row.k, row.n) for side in sides for row in rows), rows_of(keyed))
    assert not difference(Counter((row.k, row.n) for row in rows), rows_of(pairs))
    noon = 1767268800
    windows = Counter((side, row.k, noon + int(row.second) // 30 * 30) for side in sides for row in rows)
    assert not difference(Counter((*window, count) for window, count in windows.items()), rows_of(counts))
    assert disorder(keyed) == []
