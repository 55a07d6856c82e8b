"""A graph of chains with full channels is killed again and again: nothing is lost, doubled or out of order.

One graph has all topologies: a pipeline through a slow operator, fan-out, a union of several inputs, a join. In the
spirit of Flink's UnalignedCheckpointITCase.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.runtime.graphs import (
    MODES,
    add_rows,
    difference,
    disorder,
    in_flight,
    job,
    numbered,
    output,
    python,
    rows_of,
    source,
    sql,
)
from tests.integration.runtime.processes import JobProcess, JobRuns, job_runs
from tests.integration.runtime.purchases import write_job

from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import RecordKind

ROOT = Path(__file__).parents[3]
FILES = 12
ROWS = 50
"""Rows in a file of one source; the slow operator takes half a second for them."""

SEEDS = {"aligned": 3, "unaligned": 5, "switching": 8}


def topologies(directory: Path, checkpointing: dict[str, Any]) -> dict[str, Any]:
    """Return the job; the channel before its slow operator holds several seconds of work."""
    for name in ("left", "right"):
        for number in range(FILES):
            add_rows(directory / name, number, numbered(number * ROWS, ROWS))
    operators = [
        python("slow", "left", "slowed"),
        sql(
            "both",
            ["slow", "right"],
            "SELECT 'left' AS side, k, n FROM slow UNION ALL SELECT 'right', k, n FROM right",
            chain=False,
        ),
        sql(
            "pairs",
            ["slow", "right"],
            "SELECT l.k, l.n FROM slow l JOIN right r ON l.k = r.k AND l.n = r.n "
            "AND r.at BETWEEN l.at - INTERVAL 5 SECONDS AND l.at + INTERVAL 5 SECONDS",
            chain=False,
        ),
        sql("lefts", ["both"], "SELECT k, n FROM both WHERE side = 'left'", chain=False),
    ]
    sources = [source(name, directory / name, bounded=True) for name in ("left", "right")]
    return job(
        directory,
        sources,
        operators,
        ["both", "pairs", "lefts"],
        checkpointing={"interval": "300ms", "numRetained": 5, **checkpointing},
        channels={"capacityRecords": 5 * ROWS, "maxBatchRecords": ROWS},
    )


@pytest.fixture
def killed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[JobRuns]:
    """The processes of the graph, in the mode that is the fixture's parameter."""
    file = write_job(tmp_path, topologies(tmp_path, MODES[request.param]))
    with job_runs(file, tmp_path / "snapshots", "graph") as runs:
        yield runs


def held(manifest: Manifest | None) -> int:
    return in_flight(manifest) if manifest else 0


def published(runs: JobRuns) -> float:
    """Return the published share of the rows that go through the slow operator."""
    return rows_of(output(runs.file.parent, "lefts")).total() / (FILES * ROWS)


def start(runs: JobRuns) -> JobProcess:
    return runs.start(environment={"PYTHONPATH": str(ROOT)})


def last_manifest(runs: JobRuns) -> Manifest | None:
    completions = runs.completions()
    return runs.manifest(completions[-1]) if completions else None


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("killed", "mode"), [(mode, mode) for mode in MODES], indirect=["killed"], ids=list(MODES))
def test_killed_at_each_quarter_and_while_it_recovers_nothing_is_lost_doubled_or_out_of_order(
    killed: JobRuns, mode: str
) -> None:
    runs, chance = killed, random.Random(SEEDS[mode])
    directory = runs.file.parent

    def killed_once(condition: Callable[[], bool], what: str) -> Manifest | None:
        process = start(runs)
        runs.wait(condition, what, process)
        time.sleep(chance.uniform(0, 0.3))
        process.kill()
        return last_manifest(runs)

    def past(quarter: float) -> Callable[[], bool]:
        # After a checkpoint in the given mode: with rows in flight, or without any if it is aligned.
        return lambda: published(runs) >= quarter and (mode == "aligned" or held(last_manifest(runs)) > 0)

    restored = [killed_once(past(0.25), "a quarter")]
    epoch = runs.epoch()
    restored.append(killed_once(lambda: runs.epoch() > epoch, "claim"))
    restored.append(killed_once(past(0.5), "half"))
    restored.append(killed_once(past(0.75), "three quarters"))
    last = start(runs)
    assert last.wait() == 0, last.output()

    assert runs.records()[-1].kind is RecordKind.FINAL
    if mode == "aligned":
        assert [held(manifest) for manifest in restored] == [0] * 4
    else:
        assert any(held(manifest) for manifest in restored)
        assert any(manifest is not None and manifest.unaligned for manifest in restored)
    rows = numbered(0, FILES * ROWS)
    both, pairs, lefts = (output(directory, name) for name in ("both", "pairs", "lefts"))
    assert not difference(Counter((side, row.k, row.n) for side in ("left", "right") for row in rows), rows_of(both))
    assert not difference(Counter((row.k, row.n) for row in rows), rows_of(pairs))
    assert not difference(Counter((row.k, row.n) for row in rows), rows_of(lefts))
    assert disorder(both) == []
    assert disorder(lefts) == []


def test_rows_that_are_lost_doubled_or_out_of_order_are_noticed() -> None:
    sent = Counter({("k", 0): 1, ("k", 1): 1, ("k", 2): 1})
    fine = [(0, [["k", 0], ["k", 1]]), (2, [["k", 2]])]

    assert (difference(sent, rows_of(fine)), disorder(fine)) == ("", [])
    assert difference(sent, rows_of(fine[:1])) == "1 lost: [('k', 2)]; 0 surplus: []"
    assert difference(sent, rows_of([*fine, (3, [["k", 2]])])) == "0 lost: []; 1 surplus: [('k', 2)]"
    assert disorder([(0, [["k", 1]]), (1, [["k", 0]])]) == ["('k',) 0 in batch 1, behind 1"]
    assert disorder([(0, [["k", 0]]), (1, [["k", 0]])]) == ["('k',) 0 in batch 1, behind 0"]
    assert disorder([(1, [["k", 0]]), (1, [["k", 1]])]) == ["batch 1 behind batch 1"]
