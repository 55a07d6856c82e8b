"""A job is changed between two lives: what `check` says of each change is what becomes of it, with exact output."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.core import core
from tests.integration.runtime.embedded import life_in, running
from tests.integration.runtime.graphs import Row, add_rows, job, manifests, numbered, output, rows_of, source
from tests.jobs import sql

from streamjob.comparison.graphs import compare
from streamjob.comparison.refusals import NewStateInOldChain, NonRestoredState, StateChanged
from streamjob.comparison.verdicts import Comparison
from streamjob.errors import CannotRestore, ExitCode
from streamjob.job.loading.load import load_job
from streamjob.job.planning.plan import plan
from streamjob.protocol.log.records import JobId
from streamjob.protocol.log.restore import ClaimMode
from streamjob.stored.start_snapshot import opened
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.process.checking.start_check import judged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.thorough]

Operator = dict[str, Any]

WINDOWS = (
    "SELECT {key} AS k, max(at) AS at, unix_seconds(window.start) - 1767268800 AS start, count(*) AS rows "
    "FROM {of} GROUP BY {key}, window(at, '1 minute')"
)
LISTS = WINDOWS.replace("count(*)", "size(collect_list(struct({what})))")
CUT, ROWS = 80, 180
"""How many of the rows, a second apart, the first life reads, and how many there are."""
ALL = Counter({(f"k{key}", start, 20): 1 for key in range(3) for start in (0, 60, 120)})
BEHIND_THE_CUT = Counter(
    {
        (f"k{key}", start, rows): 1
        for start, counts in ((60, (13, 13, 14)), (120, (20, 20, 20)))
        for key, rows in enumerate(counts)
    }
)


def clean(of: str = "events", **fields: Any) -> Operator:
    return sql("clean", [of], f"SELECT k, n, at FROM {of}") | fields


def counts(of: str = "clean", key: str = "k", **fields: Any) -> Operator:
    return sql("counts", [of], WINDOWS.format(of=of, key=key)) | fields


def loud(of: str = "counts", **fields: Any) -> Operator:
    return sql("loud", [of], f"SELECT * FROM {of}") | fields


@dataclass(frozen=True)
class Change:
    """A change of the job, and what is to become of it.

    Args:
        then: the operators of the first life.
        now: those of the second.
        verdicts: what becomes of some parts, by uid.
        outputs: the operator whose rows are recorded, of the first life and of the second.
        refused: why the second life is refused.
        rows: what both lives publish together.
        allow: state may be given up.
        sources: more sources of the second life.
        had: more sources of the first.
        delay: the delay of the second life's watermark.
    """

    then: tuple[Operator, ...]
    now: tuple[Operator, ...]
    verdicts: dict[str, str]
    outputs: tuple[str, str] = ("counts", "counts")
    refused: type[CannotRestore] | None = None
    rows: Counter[Any] = field(default_factory=lambda: ALL)
    allow: bool = False
    sources: tuple[str, ...] = ()
    had: tuple[str, ...] = ()
    delay: str = "0s"


FUSED = (clean(), counts())
SPLIT = (clean(), counts(chain=False))
UNION = sql("clean", ["events", "others"], "SELECT k, n, at FROM events UNION ALL SELECT k, n, at FROM others")
UNION_OF_TWO = (UNION, counts())

CHANGES = {
    "nothing": Change(FUSED, FUSED, {"events": "restored", "clean": "restored", "counts": "restored"}),
    "an operator without state is added": Change(
        FUSED,
        (clean(), sql("few", ["clean"], "SELECT * FROM clean"), counts("few")),
        {"few": "new", "counts": "restored"},
    ),
    "an operator without state is removed": Change(
        FUSED, (counts("events"),), {"clean": "dropped", "counts": "restored"}
    ),
    "an operator is renamed and keeps its uid": Change(
        FUSED,
        (clean(), counts(name="numbers", uid="counts")),
        {"counts": "restored"},
        outputs=("counts", "numbers"),
    ),
    "an operator is added behind the last one": Change(
        FUSED, (*FUSED, loud()), {"loud": "new", "counts": "restored"}, outputs=("counts", "loud")
    ),
    "a source is added before the one that was there": Change(
        FUSED, UNION_OF_TWO, {"others": "new", "events": "rewritten", "counts": "rewritten"}, sources=("others",)
    ),
    "a source is removed": Change(
        UNION_OF_TWO, FUSED, {"others": "refused"}, refused=NonRestoredState, had=("others",)
    ),
    "a source is given up": Change(
        UNION_OF_TWO,
        FUSED,
        {"others": "dropped", "events": "rewritten", "counts": "rewritten"},
        allow=True,
        had=("others",),
    ),
    "a chain is split before its state": Change(
        FUSED, SPLIT, {"events": "rewritten", "counts": "rewritten", "clean -> counts": "new"}
    ),
    "two chains are fused": Change(
        SPLIT, FUSED, {"events": "rewritten", "counts": "rewritten", "clean -> counts": "dropped"}
    ),
    "the delay of the watermark is changed": Change(FUSED, FUSED, {"counts": "restored"}, delay="5s"),
    "state gets another uid": Change(
        FUSED, (clean(), counts(uid="other")), {"counts": "refused", "other": "refused"}, refused=NewStateInOldChain
    ),
    "state is given up": Change(
        FUSED,
        (clean(), counts(uid="other", chain=False)),
        {"counts": "dropped", "other": "new", "events": "rewritten"},
        rows=BEHIND_THE_CUT + Counter({(f"k{key}", 0, 20): 1 for key in range(3)}),
        allow=True,
    ),
    "one of two operators with state is given up": Change(
        (sql("clean", ["events"], "SELECT DISTINCT k, n, at FROM events"), counts()),
        (sql("plain", ["events"], "SELECT k, n, at FROM events"), counts("plain")),
        {"clean": "dropped", "plain": "new", "counts": "rewritten"},
        rows=ALL,
        allow=True,
    ),
    "state is without a place": Change(
        FUSED, (clean(),), {"counts": "refused"}, outputs=("counts", "clean"), refused=NonRestoredState
    ),
    "another column is the key": Change(
        FUSED, (clean(), counts(key="string(n)")), {"counts": "refused"}, refused=StateChanged
    ),
    "another function of the same type aggregates": Change(
        FUSED,
        (clean(), counts(sql=WINDOWS.format(of="clean", key="k").replace("count(*)", "max(n)"))),
        {"counts": "refused"},
        refused=StateChanged,
    ),
    "an aggregate more": Change(
        FUSED,
        (clean(), counts(sql=WINDOWS.format(of="clean", key="k").replace("count(*)", "sum(n) AS s, count(*)"))),
        {"counts": "refused"},
        refused=StateChanged,
    ),
    "an aggregate of another type": Change(
        FUSED,
        (clean(), counts(sql=WINDOWS.format(of="clean", key="k").replace("max(at)", "max(double(at))"))),
        {"counts": "refused"},
        refused=StateChanged,
    ),
    "a window is longer": Change(
        FUSED,
        (clean(), counts(sql=WINDOWS.format(of="clean", key="k").replace("'1 minute'", "'2 minutes'"))),
        {"counts": "refused"},
        refused=StateChanged,
    ),
    "a list collects other things": Change(
        (clean(), counts(sql=LISTS.format(of="clean", key="k", what="n"))),
        (clean(), counts(sql=LISTS.format(of="clean", key="k", what="k, n"))),
        {"counts": "refused"},
        refused=StateChanged,
    ),
    "a list collects another type that is made before": Change(
        (clean(), counts(sql=LISTS.format(of="clean", key="k", what="n"))),
        (
            clean(sql="SELECT k, string(n) AS n, at FROM events"),
            counts(sql=LISTS.format(of="clean", key="k", what="n")),
        ),
        {"counts": "refused"},
        refused=StateChanged,
    ),
    "an operator with state is added to a chain": Change(
        FUSED,
        (sql("clean", ["events"], "SELECT DISTINCT k, n, at FROM events"), counts()),
        {"clean": "refused"},
        refused=NewStateInOldChain,
    ),
}


@dataclass
class Lives:
    """The first lives of the jobs, one for each set of operators."""

    spark: SparkSession
    directory: Path
    stopped: dict[str, Path] = field(default_factory=dict)

    def first(self, change: Change) -> Path:
        """Return the directory of a job that was stopped in the middle of its input, the rest of which is there."""
        key = str(change.then)
        if key not in self.stopped:
            place = self.directory / str(len(self.stopped))
            add_rows(place / "events", 0, numbered(0, CUT))
            for each in change.had:
                add_rows(place / each, 0, [Row("end", 0, 9999)])
            spec = self.job(place, place, change.then, change.outputs[0], sources=change.had)
            with running(self.spark, life_in(place, spec)) as first:
                first.wait_for(lambda: rows_of(output(place, "counts")).total() == 3, "the first window")
                assert first.stop() is ExitCode.OK
            add_rows(place / "events", 1, [*numbered(CUT, ROWS - CUT), Row("end", 0, 9999)])
            self.stopped[key] = place
        return self.stopped[key]

    def job(self, input_: Path, place: Path, operators: tuple[Operator, ...], out: str, **more: Any) -> dict[str, Any]:
        names = ("events", *more.get("sources", ()))
        # Sources before the first life's own: their order counts nothing.
        sources = [source(name, input_ / name, delay=more.get("delay", "0s")) for name in reversed(names)]
        return job(place, sources, list(operators), [out])


@pytest.fixture(scope="module")
def lives(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lives:
    return Lives(spark, tmp_path_factory.mktemp("lives"))


def checked(spark: SparkSession, file: Path, uri: str, change: Change, scratch: Path) -> Comparison:
    """Return what `streamjob check` says."""
    loaded = load_job(file)
    with opened(loaded, uri, str(scratch / "none")) as found:
        assert found is not None
        compared = compare(loaded.spec, plan(loaded.spec), found.manifest, found.uri, change.allow)
        if not compared.refusals:
            spark.conf.set("spark.sql.shuffle.partitions", compared.max_parallelism)
            compared = judged(
                spark, scratch / "check", loaded, found, compared, change.allow, JobId("default", "job")
            ).compared
        return compared


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", core(CHANGES, "two chains are fused", "one of two operators with state is given up"))
def test_what_check_says_of_a_change_is_what_becomes_of_it(
    spark: SparkSession, lives: Lives, tmp_path: Path, name: str
) -> None:
    change = CHANGES[name]
    before = lives.first(change)
    for each in change.sources:
        add_rows(before / each, 0, [Row("end", 0, 9999)])
    spec = lives.job(before, tmp_path, change.now, change.outputs[1], sources=change.sources, delay=change.delay)
    root = before / "snapshots" / "default" / "job"
    newest = manifests(root)[-1]
    uri = (root / f"checkpoints/{newest.epoch}-{newest.id}/manifest.json").as_uri()

    restore_from = RestoreFrom(uri, ClaimMode.NO_CLAIM, allow_non_restored_state=change.allow)
    life = life_in(tmp_path, spec, restore_from=restore_from)
    compared = checked(spark, life.file, uri, change, tmp_path)
    said = {each.uid: each.verdict.value for each in compared.findings}

    assert {uid: said[uid] for uid in change.verdicts} == change.verdicts
    if change.refused is not None:
        assert change.refused in {type(error) for error in compared.refusals}
        with running(spark, life) as second, pytest.raises(type(compared.refusals[0])):
            second.wait()
        return
    assert compared.refusals == ()
    with running(spark, life) as second:
        out = change.outputs[1]
        second.wait_for(lambda: has(output(tmp_path, out), ("k2", 120, 20)), "the last window")
        assert second.stop() is ExitCode.OK
    published = windows(output(before, change.outputs[0])) + windows(output(tmp_path, out))
    assert published == change.rows


def has(batches: Any, row: tuple[Any, ...]) -> bool:
    return windows(batches)[row] > 0


def windows(batches: Any) -> Counter[Any]:
    """Return the windows of some batches without their times."""
    found: Counter[Any] = Counter()
    for row, times in rows_of(batches).items():
        found[row[0], row[2], row[3]] += times
    return found
