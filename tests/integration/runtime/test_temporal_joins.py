"""Joins with versions give what an oracle finds for the whole of both streams, across kills, restores and rescaling."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import jobs
from tests.integration.core import core, thorough
from tests.integration.runtime.embedded import Life, finish, life_in, running
from tests.integration.runtime.graphs import BEGIN, job, output, rows_of
from tests.integration.runtime.power import Power
from tests.integration.runtime.purchases import add_file, write_job
from tests.integration.runtime.stories import NEVER, killed_and_finished
from tests.jobs import sql

from streamjob.comparison.graphs import compare
from streamjob.comparison.refusals import StateChanged
from streamjob.comparison.verdicts import Comparison
from streamjob.errors import ExitCode, InvalidInput
from streamjob.job.loading.load import load_job
from streamjob.job.planning.plan import plan
from streamjob.protocol.log.records import JobId
from streamjob.stored.start_snapshot import opened
from streamjob_runtime.process.checking.start_check import judged
from streamjob_runtime.process.checking.validation import validate_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES = 6
SECONDS = 10
"""Seconds of event time in a file."""
DELAY = 20
VALID = 7.5
CURRENCIES = ("EUR", "USD", "CHF")
SCHEMAS = {
    "orders": "id INT, currency STRING, region STRING, at TIMESTAMP, note STRING",
    "rates": "code STRING, rate INT, since TIMESTAMP",
}
PLAIN = "SELECT id, currency, rate FROM priced"
WINDOWS = (
    "SELECT unix_seconds(window.start) AS begin, count(*) AS n, count(rate) AS known FROM priced "
    "GROUP BY window(at, '20 seconds')"
)


@dataclass(frozen=True, slots=True)
class Form:
    """A form of the join: whether versions are changes, whether it is a query, and its fields."""

    changes: bool = False
    sql: bool = False
    join: str = "left"
    valid_for: float | None = None
    key: str = "currency"

    def operator(self) -> dict[str, Any]:
        if self.sql:
            options = f"/*+ OPTIONS('validFor' = '{self.validity()}') */ " if self.valid_for is not None else ""
            query = f"SELECT o.*, r.rate FROM orders o {self.join} {JOIN.replace('FOR', f'{options}FOR')}"
            query = query.replace("o.currency", f"o.{self.key}")
            return sql("priced", ["orders", "rates"], query)
        return {"name": "priced", "inputs": ["orders", "rates"], "temporalJoin": self.joined()}

    def joined(self) -> dict[str, Any]:
        valid = {} if self.valid_for is None else {"validFor": self.validity()}
        return {"on": [f"{self.key} = code"], "select": ["rate"], "join": self.join, **valid}

    def validity(self) -> str:
        return f"{round((self.valid_for or 0) * 1000)}ms"


JOIN = "JOIN rates FOR SYSTEM_TIME AS OF o.at AS r ON o.currency = r.code"
FORMS = {
    "appended versions": Form(),
    "appended versions, inner": Form(join="inner"),
    "changes": Form(changes=True),
    "changes, by a query": Form(changes=True, sql=True),
    "appended versions, inner, by a query": Form(join="inner", sql=True),
    "versions that expire": Form(valid_for=VALID),
    "changes that expire, inner": Form(changes=True, join="inner", valid_for=VALID),
    "changes that expire, by a query": Form(changes=True, sql=True, valid_for=VALID),
}
BY_QUERY = ["changes that expire, by a query"]


def text(second: float) -> str:
    return (BEGIN + timedelta(seconds=second)).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True)
class Streams:
    """Rows and versions by file; no two versions of a key have the same time, and none comes late."""

    orders: list[list[dict[str, Any]]]
    rates: list[list[dict[str, Any]]]

    @staticmethod
    def random(seed: int, form: Form, files: int = FILES, note: str | None = None) -> Streams:
        chance = random.Random(seed)
        orders: list[list[dict[str, Any]]] = []
        rates: list[list[dict[str, Any]]] = []
        ids, taken = iter(range(10_000)), set[tuple[str, float]]()
        for file in range(files):
            begin = file * SECONDS

            def time(begin: int = begin) -> float:
                # Few instants, so that rows and versions often meet, also in the same millisecond.
                return begin + chance.randrange(-8, SECONDS) + chance.choice([0, 0, 0.5, 0.0002, 0.0007])

            orders.append(
                [
                    {
                        "id": next(ids),
                        "currency": chance.choice([*CURRENCIES, "XXX", None]),
                        "at": text(time()),
                        "note": note,
                    }
                    for _ in range(30)
                ]
            )
            found: list[dict[str, Any]] = []
            for _ in range(8):
                code, since = chance.choice(CURRENCIES), time()
                if (code, since) in taken:
                    continue
                taken.add((code, since))
                version = {"code": code, "rate": len(taken), "since": text(since)}
                if not form.changes:
                    found.append(version)
                elif chance.random() < 0.3:
                    found.append({**version, "_change_type": "delete"})
                else:
                    found.append({**version, "rate": 0, "_change_type": "update_preimage"})
                    found.append({**version, "_change_type": "update_postimage"})
            rates.append(found)
        return Streams(orders, rates)

    def write(self, directory: Path) -> None:
        for name, files in (("orders", self.orders), ("rates", self.rates)):
            (directory / name).mkdir(exist_ok=True)
            for number, rows in enumerate(files):
                add_file(directory / name, number, rows)

    def expected(self, form: Form) -> Counter[Any]:
        """Return what a search through all versions finds for each row, by its definition."""
        versions = [each for file in self.rates for each in file if each.get("_change_type") != "update_preimage"]
        found: Counter[Any] = Counter()
        for order in (each for file in self.orders for each in file):
            before = [each for each in versions if each["code"] == order["currency"] and each["since"] <= order["at"]]
            latest = max(before, key=lambda each: each["since"], default=None)
            if latest is not None and latest.get("_change_type") == "delete":
                latest = None
            if latest is not None and form.valid_for is not None:
                age = datetime.fromisoformat(order["at"]) - datetime.fromisoformat(latest["since"])
                latest = latest if age < timedelta(seconds=form.valid_for) else None
            if latest is not None or form.join == "left":
                found[order["id"], order["currency"], latest and latest["rate"]] += 1
        return found

    def windows(self, form: Form) -> Counter[Any]:
        times = {each["id"]: datetime.fromisoformat(each["at"]) for file in self.orders for each in file}
        counts: dict[int, list[int]] = {}
        for number, _, rate in self.expected(form):
            begin = int(times[number].timestamp() // 20) * 20
            count = counts.setdefault(begin, [0, 0])
            count[0] += 1
            count[1] += rate is not None
        return Counter((begin, n, known) for begin, (n, known) in counts.items())


def source(
    directory: Path, name: str, column: str, *, schema: str = "", delay: int = DELAY, **changes: Any
) -> dict[str, Any]:
    (directory / name).mkdir(exist_ok=True)
    usual: dict[str, Any] = {"bounded": True, "watermark": {"column": column, "delay": f"{delay}s"}}
    return jobs.files(name, directory / name, SCHEMAS[name] + schema, **usual | changes)


def shop(
    directory: Path, form: Form, outputs: tuple[str, ...] = ("plain",), delay: int = DELAY, **changes: Any
) -> Life:
    """Write a job that joins orders with rates, and perhaps counts them in windows behind."""
    sources = [
        source(directory, "orders", "at", delay=delay),
        source(directory, "rates", "since", schema=", _change_type STRING" * form.changes, delay=delay),
    ]
    behind = {"plain": PLAIN, "known": f"{PLAIN} WHERE rate IS NOT NULL", "windows": WINDOWS}
    operators = [
        form.operator(),
        *(sql(name, ["priced"], behind[name]) for name in outputs),
    ]
    spec = job(directory, sources, operators, outputs, **{"checkpointing": {"interval": "1h"}, **changes})
    return life_in(directory, spec)


@pytest.mark.parametrize(
    "form",
    [
        *core(list(FORMS)[:4], "changes, by a query"),
        *thorough(list(FORMS)[4:], "versions that expire", *BY_QUERY),
    ],
)
def test_each_row_gets_the_version_of_its_time_after_a_kill(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    streams = Streams.random(1, FORMS[form])
    streams.write(tmp_path)

    killed_and_finished(spark, shop(tmp_path, FORMS[form]), Power(monkeypatch))

    assert rows_of(output(tmp_path, "plain")) == streams.expected(FORMS[form])


def test_many_large_rows_wait_for_many_batches_and_get_the_versions_of_their_times(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = FORMS["changes"]
    # Some 7 kB for a key in a batch: more than waits with its version, and less than stays apart from later rows.
    streams = Streams.random(9, form, files=24, note="x" * 1_000)
    streams.write(tmp_path)

    killed_and_finished(spark, shop(tmp_path, form, delay=18 * SECONDS), Power(monkeypatch))

    assert rows_of(output(tmp_path, "plain")) == streams.expected(form)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("outputs", [("windows",), ("plain", "windows")], ids=["fused", "split"])
def test_windows_behind_a_join_count_its_rows(
    spark: SparkSession, tmp_path: Path, seed: int, outputs: tuple[str, ...]
) -> None:
    form = list(FORMS.values())[seed % len(FORMS)]
    streams = Streams.random(seed, form)
    streams.write(tmp_path)

    finish(spark, shop(tmp_path, form, outputs))

    assert rows_of(output(tmp_path, "windows")) == streams.windows(form)


@pytest.mark.thorough
def test_state_is_rewritten_for_another_number_of_partitions(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, power = FORMS["versions that expire"], Power(monkeypatch)
    streams = Streams.random(7, form)
    streams.write(tmp_path)
    with running(spark, replace(shop(tmp_path, form), restarts=NEVER)) as first:
        first.wait_for_batches(3)
        first.checkpoint()
        power.cut(first, lambda: None)
        first.wait()
    power.comes_back()

    finish(spark, shop(tmp_path, form, maxParallelism=3))

    assert rows_of(output(tmp_path, "plain")) == streams.expected(form)


@pytest.mark.parametrize("name", thorough(["versions that expire", "changes that expire, by a query"], *BY_QUERY))
def test_a_changed_job_continues_its_join_but_not_by_another_key_or_with_versions_that_are_gone(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    form = FORMS[name]
    streams = Streams.random(9, form)
    streams.write(tmp_path)
    with running(spark, replace(shop(tmp_path, form), restarts=NEVER)) as first:
        first.wait_for_batches(3)
        first.checkpoint()
        assert first.stop() is ExitCode.OK

    refused = {
        "versions were valid for 7.5 s, and are to be valid for 8 s": replace(form, valid_for=8),
        "versions were valid for 7.5 s, and are to be valid until the next one": replace(form, valid_for=None),
        "its key was currency = code, and is region = code": replace(form, key="region"),
    }
    for number, (words, changed) in enumerate(refused.items()):
        life = shop(tmp_path, changed)
        (error,) = checked(spark, tmp_path / f"check-{number}", life).refusals
        assert isinstance(error, StateChanged)
        assert words in str(error)
        with running(spark, life) as other, pytest.raises(StateChanged, match=re.escape(words)):
            other.wait()

    life = shop(tmp_path, form, outputs=("plain", "known"))
    said = {each.uid: each.verdict.value for each in checked(spark, tmp_path / "check", life).findings}
    assert said["priced"] == "restored"
    finish(spark, life)

    assert rows_of(output(tmp_path, "plain")) == streams.expected(form)


def checked(spark: SparkSession, directory: Path, life: Life) -> Comparison:
    """Return what `streamjob check` says of a job that starts from the newest snapshot."""
    loaded = load_job(life.file)
    with opened(loaded, "latest", life.location, "default", life.name) as found:
        assert found is not None
        compared = compare(loaded.spec, plan(loaded.spec), found.manifest, found.uri, False)
        assert compared.refusals == ()
        spark.conf.set("spark.sql.shuffle.partitions", compared.max_parallelism)
        job_id = JobId("default", life.name)
        return judged(spark, directory, loaded, found, compared, False, job_id).compared


@pytest.mark.parametrize(
    ("operators", "words"),
    [
        ([{"on": ["currency = cod"]}], ["its input 'rates' has no column 'cod'", "did you mean 'code'?"]),
        ([{"on": ["id = code"]}], ["is of type INT, and 'code' of the versions STRING"]),
        ([{"select": ["code AS currency"]}], ["its rows have a column 'currency' already"]),
        ([{}, "SELECT id, currency FROM orders"], ["the rows of 'cut' have no event time"]),
        ([{}, "SELECT *, 'insert' AS _change_type FROM orders"], ["joins versions with the changes of rows"]),
        (
            [{}, "SELECT window, currency FROM orders GROUP BY currency, window(at, '1 minute')"],
            ["of type STRUCT", "window_time"],
        ),
    ],
)
def test_columns_that_cannot_be_joined_are_refused_at_the_start(
    spark: SparkSession, tmp_path: Path, operators: list[Any], words: list[str]
) -> None:
    first = ["cut" if len(operators) > 1 else "orders", "rates"]
    joined = {"name": "priced", "inputs": first, "temporalJoin": {**FORMS["changes"].joined(), **operators[0]}}
    before = [sql("cut", ["orders"], each) for each in operators[1:]]
    sources = [source(tmp_path, "orders", "at"), source(tmp_path, "rates", "since")]
    spec = job(tmp_path, sources, [*before, joined], ["priced"])

    with pytest.raises(InvalidInput) as refused:
        validate_with(spark, tmp_path / "scratch", load_job(write_job(tmp_path / "job", spec)))

    for word in words:
        assert word in str(refused.value)


@pytest.mark.thorough
def test_a_query_may_join_versions_twice_and_count_in_windows(spark: SparkSession, tmp_path: Path) -> None:
    form = FORMS["appended versions"]
    streams = Streams.random(8, form)
    streams.write(tmp_path)
    query = """
        SELECT unix_seconds(window.start) AS begin, count(*) AS n, count(rate) AS known, count(again) AS more
        FROM (
          SELECT o.at, r.rate, other.rate AS again FROM (SELECT *, currency AS other FROM orders WHERE id >= 0) o
          LEFT JOIN rates FOR SYSTEM_TIME AS OF o.at r ON r.code = o.currency
          LEFT JOIN rates FOR SYSTEM_TIME AS OF at AS other ON o.other = other.code
        ) GROUP BY window(at, '20 seconds')
    """
    sources = [source(tmp_path, "orders", "at"), source(tmp_path, "rates", "since")]
    spec = job(tmp_path, sources, [sql("windows", ["orders", "rates"], query)], ["windows"])
    life = life_in(tmp_path, spec)

    finish(spark, life)

    expected = Counter((begin, n, known, known) for begin, n, known in streams.windows(form))
    assert rows_of(output(tmp_path, "windows")) == expected


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            f"SELECT o.* FROM (SELECT *, at + INTERVAL 1 DAY AS other FROM orders) o {JOIN.replace('o.at', 'o.other')}",
            ["AS OF o.other", "the event time of the rows is 'at'"],
        ),
        (f"SELECT o.id FROM orders o {JOIN} AND r.rate > 1", ["on a condition that is no key"]),
        (
            f"SELECT o.id FROM orders o {JOIN.replace('o.currency', 'o.id')}",
            ["of type INT", "'code' of the versions STRING"],
        ),
        (f"WITH x AS (SELECT o.id FROM orders o {JOIN}) SELECT * FROM x", ["in WITH"]),
        (f"SELECT o.idd FROM orders o {JOIN}", ["idd"]),
    ],
)
def test_a_query_that_cannot_join_versions_is_refused_at_the_start(
    spark: SparkSession, tmp_path: Path, query: str, words: list[str]
) -> None:
    sources = [source(tmp_path, "orders", "at"), source(tmp_path, "rates", "since")]
    spec = job(tmp_path, sources, [sql("priced", ["orders", "rates"], query)], ["priced"])

    with pytest.raises(InvalidInput) as refused:
        validate_with(spark, tmp_path / "scratch", load_job(write_job(tmp_path / "job", spec)))

    for word in words:
        assert word in str(refused.value)
