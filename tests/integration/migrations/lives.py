"""A job before the change of its query and behind it, and what both have published."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import jobs
from tests.integration.migrations.events import SCHEMA, Row, State
from tests.integration.migrations.queries import OUT, SHOWN, Family, Query
from tests.integration.runtime import graphs
from tests.integration.runtime.embedded import Life, life_in, running
from tests.integration.runtime.purchases import add_file
from tests.integration.runtime.stories import NEVER

from streamjob.comparison.graphs import compare
from streamjob.comparison.verdicts import Comparison
from streamjob.errors import ExitCode
from streamjob.job.loading.load import load_job
from streamjob.job.planning.plan import plan
from streamjob.protocol.log.records import JobId
from streamjob.protocol.log.restore import ClaimMode
from streamjob.stored.start_snapshot import opened
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.process.checking.start_check import judged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Found = dict[str, Any]


@dataclass(frozen=True)
class Stopped:
    """A job that was stopped at the change of its query.

    Args:
        query: the query that it had.
        state: its input.
        directory: where its input is.
        uri: its snapshot.
        published: its rows.
    """

    query: Query
    state: State
    directory: Path
    uri: str
    published: Sequence[Found]


@dataclass
class Lives:
    """The jobs before a change, of which each is run once for all changes of its query.

    Args:
        spark: the session.
        directory: where they are.
    """

    spark: SparkSession
    directory: Path
    stopped: dict[str, Stopped] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def before(self, query: Query, state: State) -> Stopped:
        """Return the job with a query, stopped in a state; its further input is there."""
        key = f"{query} {state}"
        if key not in self.stopped:
            place = self.directory / str(next(self.numbers))
            self._add(place, query, 0, state.first)
            life = self.life(place, place, query)
            self.run(life)
            self._add(place, query, len(state.first), (behind(query, state)[0], *state.rest[1:]))
            root = place / "snapshots" / "default" / "job"
            newest = graphs.manifests(root)[-1]
            uri = (root / f"checkpoints/{newest.epoch}-{newest.id}/manifest.json").as_uri()
            self.stopped[key] = Stopped(query, state, place, uri, published(place, query))
        return self.stopped[key]

    def life(
        self, input_: Path, place: Path, query: Query, restore_from: RestoreFrom | None = None, partitions: int = 2
    ) -> Life:
        """Return the life of a job with a query."""
        sources = [
            jobs.files(
                name, input_ / name, SCHEMA, bounded=False, watermark={"column": "at", "delay": f"{query.delay}s"}
            )
            for name in query.inputs
        ]
        operators = query.operators()
        job = graphs.job(place, sources, operators, [operators[-1]["name"]], checkpointing={"interval": "1h"})
        job |= {"name": "job", "parallelism": 2, "maxParallelism": partitions}
        if query.updates:
            job["sinks"][0]["delivery"] = "at-least-once"
        if query.migrate:
            job["migrate"] = {OUT: {"sql": query.migrate}}
        return life_in(place, job, restore_from=restore_from or RestoreFrom(), restarts=NEVER)

    def after(self, stopped: Stopped, place: Path, query: Query, *, partitions: int = 2, strict: bool = False) -> Life:
        """Return the life of the job behind the change."""
        start = RestoreFrom(stopped.uri, ClaimMode.NO_CLAIM, strict=strict)
        return self.life(stopped.directory, place, query, start, partitions)

    def run(self, life: Life) -> None:
        """Run a job up to what is there."""
        with running(self.spark, replace(life, available_now=True)) as job:
            assert job.wait() is ExitCode.OK

    def check(self, life: Life, stopped: Stopped, scratch: Path) -> Comparison:
        """Return what `streamjob check` says of a start."""
        loaded = load_job(life.file)
        with opened(loaded, stopped.uri, str(scratch / "none")) as found:
            assert found is not None
            compared = compare(loaded.spec, plan(loaded.spec), found.manifest, found.uri, False)
            if not compared.refusals:
                self.spark.conf.set("spark.sql.shuffle.partitions", compared.max_parallelism)
                job = JobId("default", "job")
                compared = judged(
                    self.spark, scratch / "check", loaded, found, compared, False, job, strict=life.restore_from.strict
                ).compared
            return compared

    def expected(self, stopped: Stopped, query: Query) -> list[Found]:
        """Return what the new query makes of all rows as a batch, less what was published before the change."""
        first = [row for batch in stopped.state.first for row in batch]
        rest = behind(query, stopped.state, late=query.late)[0]
        whole = self.batch(query, [*first, *rest])
        alone = self.batch(query, rest) if query.gaps or query.family is Family.UPDATING else []
        identity = query.identity()
        match query.family:
            case Family.CLOSING:
                closed = max((row["ended"] for row in stopped.published), default=0)
                whole = [row for row in whole if row["ended"] > closed]
                identity = ("ended", *identity)
            case Family.UPDATING:
                touched = {_values(row, identity) for row in alone}
                whole = [row for row in whole if _values(row, identity) in touched]
            case Family.ONCE:
                gone = {_values(row, query.keys) for row in stopped.published}
                # A row that has been published with its partner is not published without one as well.
                gone |= {(row["id"], None) for row in stopped.published if row.get("other") is not None}
                whole = [row for row in whole if _values(row, query.keys) not in gone]
        if query.gaps:
            counted = {_values(row, identity): row for row in alone}
            nothing = self._of_no_rows(query)
            whole = [
                {**row, **{name: counted.get(_values(row, identity), nothing)[name] for name in query.gaps}}
                for row in whole
            ]
        return whole

    def batch(self, query: Query, rows: Iterable[Row]) -> list[Found]:
        """Return what Spark makes of rows as a batch."""
        return self._shown(query, rows, "SELECT * FROM shown")

    def _of_no_rows(self, query: Query) -> Found:
        if not query.aggregates:
            return {}
        (row,) = self._shown(query, (), SHOWN.format(f"({query.of_no_rows()})"))
        return row

    def _shown(self, query: Query, rows: Iterable[Row], text: str) -> list[Found]:
        session = self.spark.newSession()
        lines = [json.dumps(row) for row in rows]
        for name in query.inputs:
            texts = session.createDataFrame([(line,) for line in lines], "text STRING")
            read = texts.selectExpr(f"from_json(text, '{SCHEMA}') AS row").select("row.*")
            read.createOrReplaceTempView(name)
        for name, view in query.batch().items():
            session.sql(view).createOrReplaceTempView(name)
        return [json.loads(row["row"]) for row in session.sql(text).collect()]

    @staticmethod
    def _add(place: Path, query: Query, number: int, batches: Iterable[Sequence[Row]]) -> None:
        for more, rows in enumerate(batches):
            for name in query.inputs:
                add_file(place / name, number + more, [dict(row) for row in rows])


def behind(query: Query, state: State, *, late: bool = True) -> list[tuple[Row, ...]]:
    """Return the rows behind the change, with the late ones or without them."""
    more = (*state.rest[0], *(state.late if late else ()))
    tells = query.family is Family.ONCE and query.inputs == ("events",)
    return [(*more, *(state.repeated if tells else ())), *state.rest[1:]]


def published(place: Path, query: Query) -> list[Found]:
    """Return what a job has published, in order."""
    last = query.operators()[-1]["name"]
    return [json.loads(row[0]) for _, rows in graphs.output(place, last) for row in rows]


def final(query: Query, rows: Iterable[Found]) -> list[Found]:
    """Return the rows that count: the last one of a key, if the query publishes each change."""
    if query.family is not Family.UPDATING:
        return list(rows)
    return list({_values(row, query.identity()): row for row in rows}.values())


def difference(expected: Iterable[Found], found: Iterable[Found]) -> str:
    """Return what is lost and what is there too often, in a few words; empty if nothing is."""
    wanted, had = (Counter(json.dumps(row) for row in rows) for rows in (expected, found))
    lost, surplus = wanted - had, had - wanted
    if not lost and not surplus:
        return ""
    return f"{lost.total()} lost: {sorted(lost)[:3]}; {surplus.total()} surplus: {sorted(surplus)[:3]}"


def _values(row: Found, names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def files_of(directory: Path) -> dict[Path, tuple[int, int]]:
    """Return the files of a directory, with what changes when they are written."""
    return {each: (each.stat().st_mtime_ns, each.stat().st_size) for each in directory.rglob("*") if each.is_file()}
