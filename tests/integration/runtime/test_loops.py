"""The distances of airports, computed in a loop over the flights of 2013: exact, however often the job is killed.

Each row says that an airport is nearer than before, so what is lost shows in the last distance, and what comes twice in
a distance that is no nearer.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
import yaml
from tests.integration.core import thorough
from tests.integration.runtime.graphs import (
    MODES,
    add_rows,
    difference,
    in_flight,
    job,
    numbered,
    output,
    rows_of,
    sink,
    source,
)
from tests.integration.runtime.processes import JobProcess, JobRuns, job_runs
from tests.integration.runtime.purchases import write_job
from tests.jobs import sql
from tests.unit.examples.flights import FLIGHTS, modules_by_name

from streamjob.client.client import ControlClient
from streamjob.client.discovery import find_endpoint
from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import RecordKind

ROOT = Path(__file__).parents[3]
DAYS = 24
LONG = 400.0
"""Seconds that a life may take on a slow and busy machine."""
CASES = [("aligned", True, 3), ("unaligned", False, 5), ("switching", False, 8)]


def write_flights(directory: Path) -> dict[str, int]:
    """Write the flights of some days, one file a day; return the distances that follow from them."""
    with modules_by_name():
        from distances import at_once  # type: ignore[import-not-found]
        from prepare import flights  # type: ignore[import-not-found]
    rows = flights()
    days = [group for _, group in rows.groupby(rows["known"].dt.floor("D"), sort=True)][:DAYS]
    for number, day in enumerate(days):
        directory.mkdir(parents=True, exist_ok=True)
        # A few of its flights are enough: there are as many routes on their way, and less to read.
        some = day.drop(columns="known").iloc[number % 7 :: 7]
        file = directory / f"{number:03}.csv"
        some.to_csv(file, index=False, date_format="%Y-%m-%dT%H:%M:%SZ")
        os.utime(file, (number, number))
        days[number] = some
    flown = {(str(row.origin), str(row.dest), int(row.distance)) for day in days for row in day.itertuples()}
    found: dict[str, int] = at_once(flown)
    return found


def distances(directory: Path, checkpointing: dict[str, Any], *, fused: bool) -> dict[str, Any]:
    """Return the example's job, with another input, a sink that records, and checkpoints all the time."""
    spec: dict[str, Any] = yaml.safe_load((FLIGHTS / "distances.yaml").read_text("utf-8"))
    spec["sources"][0]["options"] |= {"path": str(directory / "flights"), "maxFilesPerTrigger": 1}
    for operator in spec["operators"]:
        operator["chain"] = fused
    spec["sinks"] = [sink("distances", directory)]
    spec["maxParallelism"] = 2
    spec["checkpointing"] = {"interval": "300ms", "numRetained": 5, **checkpointing}
    return spec


class Distances:
    """The processes of the job, and the expected results."""

    def __init__(self, runs: JobRuns, expected: dict[str, int]) -> None:
        self.runs = runs
        self.expected = expected

    def start(self, *arguments: str) -> JobProcess:
        return self.runs.start(*arguments, environment={"PYTHONPATH": str(ROOT)})

    def found(self) -> dict[str, int]:
        """Return the last distance of each airport. Raises AssertionError if one is no nearer than the one before."""
        last: dict[str, int] = {}
        for _, rows in output(self.runs.file.parent, "distances"):
            for airport, miles in sorted(rows, key=lambda row: -row[1]):
                assert airport not in last or miles < last[airport], f"{airport}: {miles} behind {last[airport]}"
                last[airport] = miles
        return last

    def manifests(self) -> list[Manifest]:
        found = [self.runs.manifest(record) for record in self.runs.completions()]
        return [each for each in found if each is not None]

    def fed_back(self, manifest: Manifest) -> bool:
        """Return whether a snapshot holds rows that were on their way back."""
        back = [each for each in manifest.channels if each.source == "ways" and each.target != "distances"]
        return any(entry.segments for channel in back for entry in channel.entries)


@pytest.fixture
def airports(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Distances]:
    mode, fused = getattr(request, "param", ("aligned", True))
    expected = write_flights(tmp_path / "flights")
    copy(FLIGHTS / "distances.py", tmp_path / "distances.py")
    file = write_job(tmp_path, distances(tmp_path, MODES[mode], fused=fused))
    with job_runs(file, tmp_path / "snapshots", "distances") as runs:
        yield Distances(runs, expected)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("airports", "seed"),
    thorough([((mode, fused), seed) for mode, fused, seed in CASES]),
    indirect=["airports"],
    ids=[mode for mode, _, _ in CASES],
)
def test_a_loop_that_is_killed_at_random_finds_what_a_batch_does(airports: Distances, seed: int) -> None:
    runs, chance = airports.runs, random.Random(seed)
    went_round = False

    def killed_once(condition: Callable[[], bool], what: str) -> None:
        process = airports.start()
        runs.wait(condition, what, process, LONG)
        time.sleep(chance.uniform(0, 1.5))
        process.kill()

    def has_found(share: float) -> Callable[[], bool]:
        return lambda: len(airports.found()) >= share * len(airports.expected)

    def has_claimed(epoch: int) -> Callable[[], bool]:
        return lambda: runs.epoch() > epoch

    for share in (0.3, 0.7):
        killed_once(has_found(share), f"{share} of it")
        killed_once(has_claimed(runs.epoch()), "claim")
        went_round = went_round or any(airports.fed_back(manifest) for manifest in airports.manifests())
    last = airports.start()
    assert last.wait(LONG) == 0, last.output()

    assert runs.records()[-1].kind is RecordKind.FINAL
    assert airports.found() == airports.expected
    assert went_round, "no snapshot has had rows on their way back"
    final = airports.manifests()[-1]
    assert in_flight(final) == 0
    assert all(operator.finished for operator in final.operators)


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "airports", [("aligned", True), ("unaligned", False)], indirect=True, ids=["aligned", "unaligned"]
)
def test_a_loop_goes_on_with_more_slots_and_partitions_and_with_fewer(airports: Distances) -> None:
    """The snapshot that it starts from has rows on their way back; the last one is a savepoint."""
    runs = airports.runs
    spec = yaml.safe_load(runs.file.read_text("utf-8"))
    restored: list[Manifest] = []

    def start(slots: int, partitions: int) -> JobProcess:
        write_job(runs.file.parent, {**spec, "maxParallelism": partitions})
        return airports.start("--parallelism", str(slots))

    def goes_round(share: float, epoch: int) -> Callable[[], bool]:
        def is_on_its_way() -> bool:
            last = airports.manifests()[-1:]
            enough = len(airports.found()) >= share * len(airports.expected)
            return enough and any(each.epoch > epoch and airports.fed_back(each) for each in last)

        return is_on_its_way

    for slots, partitions, share in ((1, 2, 0.2), (3, 3, 0.5)):
        epoch = runs.epoch()
        process = start(slots, partitions)
        runs.wait(goes_round(share, epoch), f"rows on their way back with {slots} slots", process, LONG)
        if slots == 3:
            stop_behind_savepoint(runs, process)
        else:
            process.kill()
        restored.append(airports.manifests()[-1])
    last = start(2, 2)
    assert last.wait(LONG) == 0, last.output()

    graphs = [each.graph for each in restored]
    assert [(each["parallelism"], each["maxParallelism"]) for each in graphs] == [(1, 2), (3, 3)]
    assert [each.kind for each in restored] == ["checkpoint", "savepoint"]
    assert any(map(airports.fed_back, restored)), "it went on from no snapshot with rows on their way back"
    assert airports.found() == airports.expected


def stop_behind_savepoint(runs: JobRuns, process: JobProcess) -> None:
    endpoint = find_endpoint(workdir=runs.file.parent / "work")
    with ControlClient(endpoint.url, endpoint.token) as client:
        client.stop(savepoint=True)
    assert process.wait() == 0, process.output()


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_drained_loop_goes_on_where_it_left_off(airports: Distances) -> None:
    runs = airports.runs
    process = airports.start()
    runs.wait(lambda: len(airports.found()) >= 0.3 * len(airports.expected), "some of it", process, LONG)
    endpoint = find_endpoint(workdir=runs.file.parent / "work")
    with ControlClient(endpoint.url, endpoint.token) as client:
        client.stop(savepoint=True, drain=True)
    assert process.wait() == 0, process.output()
    drained = airports.manifests()[-1]
    assert drained.drained
    assert not any(operator.finished for operator in drained.operators)

    last = airports.start()
    assert last.wait(LONG) == 0, last.output()
    assert airports.found() == airports.expected


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_rows_with_event_time_go_round_however_late_they_are(tmp_path: Path) -> None:
    """Rows that come back are far behind the source's watermark, which does not enter the loop."""
    for number in range(3):
        add_rows(tmp_path / "in", number, numbered(number * 30, 30))
    again = "SELECT k, n, at FROM left_rows UNION ALL SELECT k, n + 1000, at - INTERVAL 1 DAY FROM again WHERE n < 3000"
    inputs = ["left_rows", {"from": "again", "feedback": True, "schema": "k STRING, n BIGINT, at TIMESTAMP"}]
    operators = [
        {"name": "again", "inputs": inputs, "sql": again},
        sql("found", ["again"], "SELECT k, n FROM again"),
    ]
    spec = job(tmp_path, [source("left_rows", tmp_path / "in", bounded=True)], operators, ["found"])
    with job_runs(write_job(tmp_path, spec), tmp_path / "snapshots", "graph") as runs:
        process = runs.start(environment={"PYTHONPATH": str(ROOT)})
        assert process.wait(LONG) == 0, process.output()

    rounds = [(row.k, row.n + 1000 * lap) for row in numbered(0, 90) for lap in range(4)]
    assert not difference(Counter(rounds), rows_of(output(tmp_path, "found")))
