"""Whatever a job looks like, however it is ended and wherever it is killed on the way, its output is that of a batch.

Every shape is ended in every way once, and every way is killed at every moment at least once.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.core import core
from tests.integration.runtime.graphs import difference
from tests.integration.runtime.power import Moment, Power
from tests.integration.runtime.processes import JobRuns
from tests.integration.runtime.shapes import FILES, ROWS, SHAPES, Gates
from tests.integration.runtime.stories import Story, Way

from streamjob.job.loading.load import load_job
from streamjob.job.planning.plan import plan
from streamjob.protocol.manifests.stored_manifests import MANIFEST_NAME
from streamjob.snapshot.record import RecordKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MIXED = "a bounded source and an unbounded one"
KILLED: dict[tuple[str, Way], Moment | None] = {
    ("one chain", Way.END): Moment.FINAL,
    ("one chain", Way.STOP): Moment.MANIFEST,
    ("one chain", Way.SAVEPOINT): Moment.RECORD,
    ("one chain", Way.KILL): Moment.COMMIT,
    ("one chain", Way.DRAIN): None,
    (MIXED, Way.END): None,
    (MIXED, Way.STOP): Moment.RECORD,
    (MIXED, Way.SAVEPOINT): Moment.COMMIT,
    (MIXED, Way.KILL): Moment.MANIFEST,
    (MIXED, Way.DRAIN): Moment.FINAL,
    ("fan-out", Way.END): Moment.MANIFEST,
    ("fan-out", Way.STOP): Moment.COMMIT,
    ("fan-out", Way.SAVEPOINT): Moment.FINAL,
    ("fan-out", Way.KILL): Moment.RECORD,
    ("fan-out", Way.DRAIN): None,
    ("depth of four", Way.END): Moment.RECORD,
    ("depth of four", Way.STOP): Moment.FINAL,
    ("depth of four", Way.SAVEPOINT): None,
    ("depth of four", Way.KILL): None,
    ("depth of four", Way.DRAIN): Moment.MANIFEST,
    ("sessions and timers", Way.END): Moment.COMMIT,
    ("sessions and timers", Way.STOP): None,
    ("sessions and timers", Way.SAVEPOINT): Moment.MANIFEST,
    ("sessions and timers", Way.KILL): None,
    ("sessions and timers", Way.DRAIN): Moment.COMMIT,
    ("outer join", Way.END): None,
    ("outer join", Way.STOP): None,
    ("outer join", Way.SAVEPOINT): None,
    ("outer join", Way.KILL): Moment.FINAL,
    ("outer join", Way.DRAIN): Moment.RECORD,
}

LEFT = {Moment.MANIFEST: (0, 0), Moment.RECORD: (1, 0), Moment.COMMIT: (1, 1)}
"""Numbers of manifests and records of completions that a kill during a snapshot leaves."""


@pytest.fixture(scope="module")
def batches() -> dict[str, dict[str, Counter[Any]]]:
    """The batch results for each shape's input, computed once."""
    return {}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "way", "moment"),
    core(
        [(*cell, moment) for cell, moment in KILLED.items()],
        ("one chain", Way.KILL, Moment.COMMIT),
        (MIXED, Way.DRAIN, Moment.FINAL),
        kept=[
            (*cell, moment)
            for cell, moment in KILLED.items()
            if cell[0] in ("sessions and timers", "outer join") or cell[1] is Way.SAVEPOINT
        ],
    ),
    ids=["-".join(f"{name} {way} {moment or ''}".split()) for (name, way), moment in KILLED.items()],
)
def test_however_a_job_ends_its_output_is_that_of_a_batch(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batches: dict[str, dict[str, Counter[Any]]],
    name: str,
    way: Way,
    moment: Moment | None,
) -> None:
    shape = SHAPES[name]
    life = shape.life(tmp_path, bounded=way is not Way.DRAIN)
    assert len(plan(load_job(life.file).spec).chains) == shape.chains

    def expected() -> dict[str, Counter[Any]]:
        if name not in batches:
            batches[name] = shape.batch(spark, tmp_path)
        return batches[name]

    def is_done() -> bool:
        return all(found >= expected()[operator] for operator, found in shape.rows(tmp_path).items())

    endless = bool(shape.ending) or way is Way.DRAIN
    story = Story(
        spark,
        life,
        Gates(shape, tmp_path),
        Power(monkeypatch),
        endless=endless,
        finished=shape.finished,
        is_done=is_done,
    )
    runs = JobRuns(life.file, Path(life.location), "job")

    rows = FILES * ROWS * len(shape.sources)
    match way:
        case Way.END:
            story.go_on_to_the_end(moment)
        case Way.DRAIN:
            story.drain(rows, moment)
        case _ if moment is Moment.FINAL:
            # A job that continues from there is killed at its end.
            story.end_at_the_gates(way, None)
            story.go_on_to_the_end(moment)
        case _:
            story.end_at_the_gates(way, moment)

    kinds = [record.kind for record in runs.completions()]
    if moment in LEFT:
        earlier = 0 if way is Way.END else 1
        found = (len(list(runs.root.rglob(MANIFEST_NAME))) - earlier, len(kinds) - earlier)
        assert found == LEFT[moment], "killed at another moment"
    elif moment is Moment.FINAL:
        assert RecordKind.FINAL not in kinds

    if way is Way.DRAIN:
        if moment is Moment.COMMIT:
            story.rest()
        elif moment is not None:
            story.drain(rows)
    elif way is not Way.END or moment is not None:
        story.go_on_to_the_end()

    for operator, published in shape.rows(tmp_path).items():
        assert not difference(expected()[operator], published), operator
    kinds = [record.kind for record in runs.completions()]
    assert kinds.count(RecordKind.FINAL) == (0 if endless else 1)


def test_every_shape_ends_in_every_way_and_every_way_meets_every_kill() -> None:
    assert KILLED.keys() == set(product(SHAPES, Way))
    for way in Way:
        assert {KILLED[name, way] for name in SHAPES} >= set(Moment)
