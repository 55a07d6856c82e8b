"""Measures sources in a bucket against plain Spark's source and s3a: `python -m bench.buckets --help`.

All sides read from one server, with the same settings of Spark and the same modules of s3a. Requests are those of the
server's access log.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import unquote, urlsplit

from bench.buckets_data import (
    ROWS,
    Bucket,
    ModelBucket,
    as_json,
    as_parquet,
    keys_in_folders,
    say_it_was_read,
)
from bench.entry import Benchmark, parser, run
from bench.object_store import ObjectStore, object_store
from bench.processes import RunFailed, locked, measure, started
from bench.results import Page, Records, Row, head
from bench.running import JOBS, command, manifests, settings
from bench.tables import Table, goal_list, interleaved, loads, longest, mid, per_million, quantile, spread

from streamjob_runtime.discovery.known import Known
from streamjob_runtime.discovery.objects import Found, Lister
from streamjob_runtime.discovery.patterns import SourceFiles
from streamjob_runtime.discovery.rereading import changed_since
from streamjob_runtime.discovery.s3_lister import S3Lister
from streamjob_runtime.discovery.search import Search

JOB = JOBS / "buckets.yaml"
OURS, PLAIN, MODEL = "streamjob", "plain Spark with s3a", "streamjob, a listing without a server"
FORMS = {"parquet": as_parquet, "json": as_json}
NEW = 10
"""Objects that a check is to find."""
_FEW = 2
_LINE = b'{"id": 1}\n'
_SOURCE, _PATH = "sources.events.", "sources.events.options.path"
_POLL_SECONDS = 0.02


class ReadRun(Row):
    """One run of a side over all objects below a prefix; `cpu` are the CPU seconds of its process tree."""

    side: str
    form: str
    round: int
    records: int
    bytes: int
    wall: float
    cpu: float
    load_before: float


class Figure(Row):
    """A figure of a side, of a source that knows so many objects."""

    what: str
    side: str
    objects: int
    value: float
    load_before: float


READS = Records("buckets-reads", ReadRun)
FIGURES = Records("buckets", Figure)


@dataclass
class Sides:
    """Runs both sides against a server, one process at a time.

    Args:
        store: the server.
        bucket: its bucket.
        work: directory for the runs.
        options: the command line.
    """

    store: ObjectStore
    bucket: Bucket
    work: Path
    options: argparse.Namespace

    def place(self, name: str) -> Path:
        """Return a new directory for a run."""
        made = self.work / f"{name}-{sum(1 for _ in self.work.iterdir())}"
        made.mkdir()
        return made

    def arguments(self, side: str, place: Path, changes: dict[str, object], **more: object) -> list[str]:
        """Return the command of a side with some fields of the job changed; `more` are options of its own."""
        own = [word for name, value in more.items() for word in (f"--{name}", str(value))]
        if side == OURS:
            return [*command(JOB, str(place / "snapshots"), place / "work", changes), *own]
        # A process that goes on has the checkpoint of the one before, and nothing else of it.
        shutil.rmtree(place / "scratch", ignore_errors=True)
        (place / "report.json").unlink(missing_ok=True)
        own += ["--checkpoint", str(place / "checkpoint"), "--scratch", str(place / "scratch")]
        own += ["--report", str(place / "report.json")]
        return [sys.executable, "-m", "bench.buckets_plain", str(JOB), *own, *settings(changes)]

    @contextmanager
    def going(self, arguments: list[str], place: Path) -> Iterator[Callable[[Callable[[], bool]], None]]:
        """Run a process while the block runs, and yield what waits for a condition."""
        log = place / "log.txt"
        with started(arguments, log) as process:

            def until(condition: Callable[[], bool]) -> None:
                deadline = time.monotonic() + self.options.timeout
                while not condition():
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise RunFailed.told_by(log, "it got no further")
                    time.sleep(_POLL_SECONDS)

            yield until

    def checkpoint(self, keys: Iterable[str]) -> Path:
        """Return a place with the checkpoint of a query of Spark that has read what the keys name."""
        place = self.place("made")
        # At its start, Spark asks for each object of the last batch; so there is one behind that with all of them.
        one_each = {_SOURCE + "options.maxFilesPerTrigger": 1}
        changes: dict[str, object] = {_SOURCE + "bounded": "true", _PATH: self.bucket.uri("seed"), **one_each}
        measure(self.arguments(PLAIN, place, changes), place, self.options.timeout)
        say_it_was_read(place / "checkpoint", map(self.bucket.uri, keys))
        return place


def read(sides: Sides, side: str, form: str, number: int, prefix: str) -> ReadRun:
    """Read all objects below a prefix. Raises RunFailed if one was not asked for."""
    place, store = sides.place("read"), sides.store
    changes: dict[str, object] = {
        _SOURCE + "format": form,
        _SOURCE + "bounded": "true",
        _SOURCE + "options.maxBytesPerTrigger": sides.options.batch * 1_000_000,
        _PATH: sides.bucket.uri(prefix),
    }
    objects = int(prefix.rpartition("-")[2])
    position = store.position()
    used = measure(sides.arguments(side, place, changes), place, sides.options.timeout)
    if store.since(position).requests.get("GetObject", 0) < objects:
        raise RunFailed.told_by(place / "log.txt", f"{side} has not read all of {objects} objects")
    return ReadRun(
        side=side,
        form=form,
        round=number,
        records=objects * ROWS,
        bytes=objects * len(FORMS[form]()),
        wall=used.wall,
        cpu=used.cpu,
        load_before=used.load_before,
    )


def check(lister: Lister, counted: Callable[[], int], put: Callable[[], None]) -> tuple[int, float]:
    """Return requests and seconds of a check for new objects behind one that knows all others.

    What compares the objects of the batch with the bucket, after it has read them, counts as well.
    """
    search, known = Search(), Known()

    def look() -> list[Found]:
        found: list[Found] = []
        for part in search.check(lister, known, time.time()):
            for each in part.new:
                known.add(each)
            found += part.new
        return found

    look()
    put()
    before, begun = counted(), time.monotonic()
    found = look()
    if len(found) != NEW or changed_since(lister, found) is not None:
        raise RunFailed(f"{len(found)} of {NEW} objects were found")
    return counted() - before, time.monotonic() - begun


def checks(sides: Sides) -> Iterator[Figure]:
    """Let both sides, and ours without a server for many objects, find new ones in the newest directory."""
    options, bucket, store = sides.options, sides.bucket, sides.store
    keys = list(keys_in_folders("in", options.objects, options.folders))

    def put(to: str = "") -> None:
        for number in range(NEW):
            bucket.put(f"{keys[-1]}-{to}{number}.json", _LINE)

    def told(side: str, objects: int, requests: int, seconds: float, load: float) -> Iterator[Figure]:
        for what, value in (("check requests", requests), ("check seconds", seconds)):
            yield Figure(what=what, side=side, objects=objects, value=value, load_before=load)

    load, of = os.getloadavg()[0], SourceFiles(bucket.uri("in"), {})
    lister = S3Lister(bucket.connection, of.base.split("/")[2], of.prefix, of.is_of_source, of.named)
    yield from told(OURS, options.objects, *check(lister, lambda: lister.requests, put), load)

    # Those that our side has found are known, too.
    load, new = os.getloadavg()[0], (f"{keys[-1]}-{number}.json" for number in range(NEW))
    place = sides.checkpoint([*keys, *new])
    put("b")
    report = place / "report.json"

    def batch() -> list[dict[str, dict[str, int]]]:
        told = json.loads(report.read_text())["batches"] if report.exists() else []
        return [each for each in told if each["numInputRows"]]

    # The first batch comes at once, and the next one much later.
    with sides.going(sides.arguments(PLAIN, place, {_PATH: bucket.uri("in")}, trigger=3600), place) as until:
        until(lambda: bool(batch()))
        position = json.loads(report.read_text())["position"]
        requests = store.since(position).requests["ListObjectsV2"]
    yield from told(PLAIN, options.objects, requests, batch()[0]["durationMs"]["latestOffset"] / 1000, load)

    keys = list(keys_in_folders("in", options.known, max(1, options.known // 1000)))
    model, load = ModelBucket(keys), os.getloadavg()[0]

    def put_into_model() -> None:
        for number in range(NEW):
            model.put(f"{keys[-1]}-{number}.json")

    yield from told(MODEL, options.known, *check(model, lambda: model.requests, put_into_model), load)


def lives(sides: Sides) -> Iterator[Figure]:
    """Let both sides be idle with many known objects, kill them, and start them again; then with few objects."""
    for prefix, known in (("in", sides.options.known), ("seed", _FEW)):
        place = sides.checkpoint(keys_in_folders(prefix, known, max(1, known // 1000)))
        for side in (OURS, PLAIN):
            yield from two_lives(sides, side, place, prefix, known)


def two_lives(sides: Sides, side: str, place: Path, prefix: str, known: int) -> Iterator[Figure]:
    """Take over what was read, be idle, read an object, be killed, and read another one."""
    options, store, load, key = sides.options, sides.store, os.getloadavg()[0], f"{prefix}/day=99999/{len(side)}"
    changes: dict[str, object] = {_PATH: sides.bucket.uri(prefix)}
    first: dict[str, object] = {"from": f"spark:{place / 'checkpoint'}"} if side == OURS else {"trigger": 60}
    begun = store.position()
    with sides.going(sides.arguments(side, place, changes, **first), place) as until:
        until(lambda: "ListObjectsV2" in store.since(begun).requests)
        if known > _FEW and options.idle:
            time.sleep(options.cooling if side == OURS else 0)
            position = store.position()
            time.sleep(options.idle)
            value = store.since(position).total * 60 / options.idle
            yield Figure(what="idle requests", side=side, objects=known, value=value, load_before=load)
        sides.bucket.put(f"{key}-a.json", _LINE)
        until(lambda: store.has_read(f"{key}-a.json", begun))
        until(lambda: side == PLAIN or bool(manifests(str(place / "snapshots"), "buckets")))
    sides.bucket.put(f"{key}-b.json", _LINE)
    killed, clock = store.position(), time.monotonic()
    with sides.going(sides.arguments(side, place, changes), place) as until:
        until(lambda: store.has_read(f"{key}-b.json", killed))
        value = time.monotonic() - clock
    yield Figure(what="start seconds", side=side, objects=known, value=value, load_before=load)


def latencies(sides: Sides, side: str) -> Iterator[Figure]:
    """Put objects at random moments, and wait until a reader of the sink's directory has the row of each."""
    options, load = sides.options, os.getloadavg()[0]
    place, prefix = sides.place("live"), f"live-{len(side)}"
    out, chance = place / "out", random.Random(39)
    changes: dict[str, object] = {
        _PATH: sides.bucket.uri(prefix),
        "sinks.report.format": "json",
        "sinks.report.options.path": str(out),
        **({_SOURCE + "options.checkInterval": "5s"} if side == OURS else {}),
    }
    put, seen = dict[int, float](), dict[int, float]()

    def look() -> bool:
        for number in published(out, of_spark=side == PLAIN):
            seen.setdefault(number, time.monotonic())
        return seen.keys() >= put.keys()

    def arrive(number: int) -> None:
        sides.bucket.put(f"{prefix}/{number:06}.json", b'{"id": %d}\n' % number)
        put[number] = time.monotonic()

    arrive(-1)
    with sides.going(sides.arguments(side, place, changes), place) as until:
        until(look)
        for number in range(options.arrivals):
            until_then = time.monotonic() + chance.uniform(1, 4)
            until(lambda over=until_then: (look(), time.monotonic() > over)[1])  # type: ignore[misc]
            arrive(number)
        until(look)
    taken = [seen[number] - put[number] for number in range(options.arrivals)]
    for what, share in (("latency median", 0.5), ("latency p95", 0.95)):
        value = quantile(taken, share)
        yield Figure(what=what, side=side, objects=options.arrivals, value=value, load_before=load)


def published(out: Path, *, of_spark: bool) -> Iterator[int]:
    """Yield the ids of the rows that a reader finds; of Spark's own sink, the files count that its log names."""
    files = [each for each in out.glob("*.json") if not each.name.startswith(".")]
    if of_spark:
        logs = [each for each in out.glob("_spark_metadata/*") if not each.name.startswith(".")]
        lines = [line for each in logs for line in each.read_text().splitlines()[1:]]
        files = [Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines]
    for file in files:
        for line in file.read_text().splitlines():
            yield json.loads(line)["id"]


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-buckets", __doc__, "one round of few objects")
    add = made.add_argument
    add("--rounds", type=int, default=3, metavar="N", help="rounds of reading by both sides (3)")
    add("--size", type=int, default=5000, metavar="MB", help="bytes of the long run of a format (5000)")
    add("--batch", type=int, default=256, metavar="MB", help="bytes of a batch (256)")
    add("--objects", type=int, default=100_000, metavar="N", help="objects on the server for a check (100,000)")
    add("--folders", type=int, default=100, metavar="N", help="directories that they are in (100)")
    add("--known", type=int, default=1_000_000, metavar="N", help="objects that a source has read (1,000,000)")
    add("--idle", type=float, default=300.0, metavar="S", help="seconds to count requests of an idle source (300)")
    add("--cooling", type=float, default=310.0, metavar="S", help="seconds before, since a source is idle (310)")
    add("--arrivals", type=int, default=40, metavar="N", help="objects whose way is measured (40)")
    add("--timeout", type=float, default=1800.0, metavar="S", help="seconds that one run may take (1800)")
    options = made.parse_args()
    if options.quick:
        options.rounds, options.size, options.objects, options.folders, options.known = 1, 40, 2000, 20, 20_000
        options.idle, options.cooling, options.arrivals = 5.0, 0.0, 3
    return options


WHAT = {
    "check requests": ("a check for 10 new objects: requests", ",.0f"),
    "check seconds": ("… and seconds", ",.2f"),
    "start seconds": ("start after a kill until a new object is read, s", ",.1f"),
    "idle requests": ("requests a minute of an idle source", ",.1f"),
    "latency median": ("from an object to its rows, median s", ",.1f"),
    "latency p95": ("… p95 s", ",.1f"),
}
"""By figure: what the page calls it, and the form of its values."""

_TEXT = """\
One server (versitygw) on the same machine. Plain Spark runs the same query with its own source of files, all settings
that a job has, and the same modules of s3a. Load average before a figure: {load}.

- **A check** finds {new} new objects in the newest directory when all others are known. Requests are those of listings.
  Ours are those of the product's own classes, with the comparison of the {new} objects that follows their batch.
  "Without a server" is the same code with a listing in memory, of a thousand objects in each directory. Spark asks for
  each directory, and for each further thousand objects.
- **Start**: a process is killed, and an object is put into a new directory. The seconds are from the start of the next
  process until the server is asked for it. The first one had taken over the checkpoint of a query of Spark that names
  so many objects; {objects:,} of them exist.
- **Idle**: all requests to the server; our source with its defaults, and Spark with a trigger of 60 s.
- **From an object to its rows**: an object is put every 1 to 4 s. A check, or a trigger of Spark, and a checkpoint come
  every 5 s. The seconds are until a reader of the sink's directory finds the row.
"""

_READING = """\
Objects of {rows:,} rows with five columns, the same in both formats, {few:,.0f} and {many:,.0f} MB of each in a run, in
batches of {batch} MB, into a sink that keeps nothing, in two task slots. "A million" is the difference of the two runs,
so that starts and ends do not count; minimum and maximum are in brackets. CPU is that of the process tree, without the
server's. {rounds} {load}
"""


def figure_table(figures: Sequence[Figure]) -> Table:
    """Return all figures."""
    ordered = sorted(figures, key=lambda each: list(WHAT).index(each.what))
    return Table.of(
        ordered,
        ("", lambda each: WHAT[each.what][0]),
        ("side", lambda each: each.side),
        ("objects", lambda each: f"{each.objects:,}"),
        ("", lambda each: f"{each.value:{WHAT[each.what][1]}}"),
        ("load", lambda each: f"{each.load_before:.1f}"),
    )


def read_table(runs: Sequence[ReadRun]) -> Table:
    """Return what each side takes for a further million rows of each format."""

    def further(side: str, form: str, figure: Callable[[ReadRun], float]) -> list[float]:
        return list(per_million(_of(form, runs), side, figure).values())

    return Table.of(
        [(form, side) for form in FORMS for side in (OURS, PLAIN) if further(side, form, _wall)],
        ("", lambda each: f"{each[0]}, {each[1]}"),
        ("rows / s", lambda each: spread((1e6 / v for v in further(each[1], each[0], _wall)), ",.0f")),
        ("CPU s / million", lambda each: spread(further(each[1], each[0], _cpu), ".2f")),
        ("whole run s", lambda each: mid((run.wall for run in longest(_of(each[0], runs), each[1])), ".1f")),
        ("CPU s", lambda each: mid((run.cpu for run in longest(_of(each[0], runs), each[1])), ".1f")),
    )


def _of(form: str, runs: Iterable[ReadRun]) -> list[ReadRun]:
    return [run for run in runs if run.form == form]


def _wall(run: ReadRun) -> float:
    return run.wall


def _cpu(run: ReadRun) -> float:
    return run.cpu


def _ratio(runs: Sequence[ReadRun], figure: Callable[[ReadRun], float]) -> float:
    """Return what a further million records takes, as a multiple of Spark's."""
    ours, plain = (per_million(runs, side, figure) for side in (OURS, PLAIN))
    return median(value / plain[number] for number, value in ours.items() if number in plain)


def goals(figures: Sequence[Figure], runs: Sequence[ReadRun]) -> Iterator[tuple[str, bool]]:
    """Yield each target with whether it was reached."""
    of = {(each.what, each.side): each.value for each in sorted(figures, key=lambda each: each.objects)}
    least = {each.side: each.value for each in figures if each.what == "start seconds" and each.objects == _FEW}
    yield "a check among a million objects takes at most 15 requests", of["check requests", MODEL] <= 15
    yield (
        "a check on the server takes at most 15 requests and 2 s",
        (of["check requests", OURS] <= 15 and of["check seconds", OURS] <= 2),
    )
    for form in FORMS:
        wall, cpu = (_ratio(_of(form, runs), figure) for figure in (_wall, _cpu))
        yield f"{form} is read at least as fast as by Spark ({1 / wall:.2f} times)", wall <= 1
        yield f"a row of {form} takes 10 % less CPU than with Spark ({1 - cpu:.0%} less)", cpu <= 0.9
    extra = of["start seconds", OURS] - least[OURS]
    yield f"a start with a million known objects takes at most 3 s more than with two ({extra:.1f} s)", extra <= 3
    yield "an idle source sends at most 2 requests a minute", of["idle requests", OURS] <= 2
    yield "95 % of new objects are published within 12 s", of["latency p95", OURS] <= 12


def _render() -> str:
    figures, reads = FIGURES.load(), READS.load()
    sizes = sorted(run.bytes / 1e6 for run in reads.runs if run.form == "parquet")
    used = [each.load_before for each in figures.runs]
    on_server = [each.objects for each in figures.runs if (each.what, each.side) == ("check requests", OURS)]
    text = _TEXT.format(load=f"{min(used):.1f} to {max(used):.1f}", new=NEW, objects=on_server[0])
    reading = _READING.format(
        rows=ROWS, few=sizes[0], many=sizes[-1], batch=256, rounds=interleaved(reads.runs), load=loads(reads.runs)
    )
    parts = [head("Reading from a bucket", "bench-buckets", "buckets.py", "as measured, misses included")]
    parts += [
        f"{figures.where}\n",
        goal_list(goals(figures.runs, reads.runs)),
        text,
        figure_table(figures.runs).markdown(),
    ]
    return "\n".join([*parts, "## Reading\n", f"{reads.where}\n", reading, read_table(reads.runs).markdown()])


PAGE = Page("BUCKETS", _render)


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results at the end of each part."""
    options, runs, figures = benchmark.options, list[ReadRun](), list[Figure]()
    with object_store(benchmark.work / "s3") as store:
        bucket = Bucket(store)
        sides = Sides(store, bucket, benchmark.work / "runs", options)
        sides.work.mkdir()
        bucket.fill(keys_in_folders("seed", _FEW, 1), _LINE)
        prefixes = []
        for form, content in FORMS.items():
            made = content()
            for share in (0.25, 1):
                prefix = f"{form}-{max(1, round(options.size * 1e6 * share / len(made)))}"
                suffix = ".json.gz" if form == "json" else ".parquet"
                bucket.fill((f"{prefix}/{n:06}{suffix}" for n in range(int(prefix.rpartition("-")[2]))), made)
                prefixes.append((form, prefix))
        for number, turn in benchmark.rounds((OURS, PLAIN)):
            for form, prefix in prefixes:
                for side in turn:
                    runs.append(read(sides, side, form, number, prefix))
                    benchmark.tell(runs[-1])
            benchmark.show(f"behind round {number + 1}", read_table(runs))
        # The page needs all parts, but what was measured is not lost with a part that fails.
        if not options.quick:
            READS.save(benchmark.where(), runs)
        benchmark.tell(f"{options.objects:,} objects")
        bucket.fill(keys_in_folders("in", options.objects, options.folders), _LINE)
        with locked(options.lock):
            for part in (checks(sides), latencies(sides, OURS), latencies(sides, PLAIN), lives(sides)):
                for each in part:
                    figures.append(each)
                    benchmark.tell(each)
        benchmark.show("figures", figure_table(figures))
        benchmark.keep(FIGURES, figures)


if __name__ == "__main__":
    run(arguments(), PAGE, bench)
