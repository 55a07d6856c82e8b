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

import pytest
from tests.integration.core import thorough
from tests.integration.runtime.graphs import MODES, difference, disorder, output, rows_of
from tests.integration.runtime.processes import JobProcess, JobRuns, job_runs
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.topologies import FILES, ROWS, check_output, held, last_manifest, topologies

from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import RecordKind

ROOT = Path(__file__).parents[3]
SEEDS = {"aligned": 3, "unaligned": 5, "switching": 8}


@pytest.fixture
def killed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[JobRuns]:
    """The processes of the graph, in the mode that is the fixture's parameter."""
    file = write_job(tmp_path, topologies(tmp_path, MODES[request.param]))
    with job_runs(file, tmp_path / "snapshots", "graph") as runs:
        yield runs


def published(runs: JobRuns) -> float:
    """Return the published share of the rows that go through the slow operator."""
    return rows_of(output(runs.file.parent, "lefts")).total() / (FILES * ROWS)


def start(runs: JobRuns) -> JobProcess:
    return runs.start(environment={"PYTHONPATH": str(ROOT)})


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("killed", "mode"),
    thorough([(mode, mode) for mode in MODES], ("unaligned", "unaligned")),
    indirect=["killed"],
    ids=list(MODES),
)
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
    check_output(directory)


def test_rows_that_are_lost_doubled_or_out_of_order_are_noticed() -> None:
    sent = Counter({("k", 0): 1, ("k", 1): 1, ("k", 2): 1})
    fine = [(0, [["k", 0], ["k", 1]]), (2, [["k", 2]])]

    assert (difference(sent, rows_of(fine)), disorder(fine)) == ("", [])
    assert difference(sent, rows_of(fine[:1])) == "1 lost: [('k', 2)]; 0 surplus: []"
    assert difference(sent, rows_of([*fine, (3, [["k", 2]])])) == "0 lost: []; 1 surplus: [('k', 2)]"
    assert disorder([(0, [["k", 1]]), (1, [["k", 0]])]) == ["('k',) 0 in batch 1, behind 1"]
    assert disorder([(0, [["k", 0]]), (1, [["k", 0]])]) == ["('k',) 0 in batch 1, behind 0"]
    assert disorder([(1, [["k", 0]]), (1, [["k", 1]])]) == ["batch 1 behind batch 1"]
