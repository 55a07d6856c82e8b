"""Jobs under test, on a real Spark with real checkpoints: what a user's own tests rely on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamjob import Job
from streamjob.testing import JobTest
from streamjob_runtime.testing.errors import InvalidRows, JobUnderTestFailed, NoEventTime, UnknownPart
from streamjob_runtime.testing.feeds import Feed, Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FLIGHTS = Path(__file__).resolve().parents[3] / "examples" / "flights"
UnderTest = Callable[..., JobTest]


def counts(*, chain: bool = True, timed_by_operator: bool = False) -> Job:
    """Return a job that counts clicks in windows of a minute; `chain=False` puts a channel before the operator."""
    job = Job("counts")
    clicks = job.source(
        "clicks",
        format="kafka",
        options=KAFKA,
        columns=["CAST(value AS STRING) AS user", "timestamp AS at"],
        watermark=None if timed_by_operator else ("at", "10s"),
    )
    parsed = job.sql(
        "parsed",
        inputs=[clicks],
        chain=chain,
        watermark=("at", "10s") if timed_by_operator else None,
        sql="SELECT user, at FROM clicks",
    )
    per_minute = job.sql(
        "per_minute",
        inputs=[parsed],
        sql="SELECT user, window.start AS minute, count(*) AS clicks FROM parsed GROUP BY user, window(at, '1 minute')",
    )
    job.sink(
        "report", input=per_minute, format="kafka", options={**SERVERS, "topic": "counts"}, delivery="at-least-once"
    )
    return job


SERVERS = {"kafka.bootstrap.servers": "nowhere:9092"}
KAFKA = {**SERVERS, "subscribe": "clicks"}


def click(user: str, at: str) -> dict[str, str]:
    return {"value": user, "timestamp": f"2026-01-01T{at}Z"}


def count(user: str, at: str, clicks: int) -> dict[str, object]:
    return {"user": user, "minute": f"2026-01-01T{at}Z", "clicks": clicks}


@pytest.mark.parametrize("file", ["job.yaml", "job.py", "job.sql"])
def test_flights_meet_the_weather_of_their_hour(streamjob_job: UnderTest, file: str) -> None:
    job = streamjob_job(FLIGHTS / file)
    job.feed("flights", [{"origin": "EWR", "scheduled": "2013-01-01T10:15:00Z", "dep_delay": 40}])
    job.feed("weather", [{"origin": "EWR", "observed": "2013-01-01T10:00:00Z", "temp": 39.0}])
    job.finish()
    job.expect("report", [{"airport": "EWR", "hour": "2013-01-01T10:00:00Z", "flights": 1, "temperature": 39.0}])


@pytest.mark.parametrize("chain", [True, False], ids=["one chain", "two chains"])
def test_a_window_fires_when_event_time_has_passed_it_and_not_before(streamjob_job: UnderTest, chain: bool) -> None:
    job = streamjob_job(counts(chain=chain))
    job.feed("clicks", [click("ann", "12:00:10"), click("ann", "12:00:50"), click("bob", "12:01:00")])
    job.expect("report", [])

    job.advance("2026-01-01T12:01:00Z")
    job.expect("report", [count("ann", "12:00:00", 2)])

    job.feed("clicks", [click("ann", "12:00:59"), click("bob", "12:01:01")])
    job.finish()
    job.expect("report", [count("bob", "12:01:00", 2)])


@pytest.mark.parametrize("chain", [True, False], ids=["one chain", "two chains"])
def test_event_time_that_an_operator_declares_advances_like_that_of_a_source(
    streamjob_job: UnderTest, chain: bool
) -> None:
    job = streamjob_job(counts(chain=chain, timed_by_operator=True))
    job.feed("clicks", [click("ann", "12:00:10"), click("bob", "12:01:00")])
    job.expect("report", [])

    job.advance("2026-01-01T12:01:00Z", of="parsed")
    job.expect("report", [count("ann", "12:00:00", 1)])

    job.feed("clicks", [click("ann", "12:00:59")])
    job.advance("2026-01-01T12:02:00Z")
    job.expect("report", [count("bob", "12:01:00", 1)])


@pytest.mark.core
def test_a_killed_job_continues_from_its_last_checkpoint_and_repeats_only_what_came_later(
    streamjob_job: UnderTest,
) -> None:
    job = streamjob_job(counts())
    job.feed("clicks", [click("ann", "12:00:10")])
    job.process()
    job.feed("clicks", [click("ann", "12:00:20"), click("bob", "12:02:30")])
    job.process(checkpoint=False)
    job.kill()
    assert job.rows("report") == []

    job.process()
    job.expect("report", [count("ann", "12:00:00", 2)])
    job.kill()
    job.finish()
    job.expect("report", [count("bob", "12:02:00", 1)])


def test_rows_of_several_sources_arrive_in_one_batch(streamjob_job: UnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark asks one source after the other, and a batch could see the rows of one only."""
    add = Feed.add

    def slowly(feed: Feed, rows: Sequence[Row]) -> None:
        add(feed, rows)
        # An idle query looks for rows every 50 ms: a batch that could begin now would begin.
        time.sleep(0.3 if rows else 0)

    monkeypatch.setattr(Feed, "add", slowly)
    job = Job("both")
    sources = [job.source(name, format="json", schema="n INT", options={"path": name}) for name in ("left", "right")]
    batches = job.operator(inputs=sources)(_union)
    job.sink("out", input=batches, format="json", options={"path": "out"})
    test = streamjob_job(job)
    for number in range(2):
        test.feed("left", [{"n": number}])
        test.feed("right", [{"n": number + 100}])
        test.process()

    # Every batch has both rows.
    assert [sorted(row["n"] for row in batch) for batch in test._collected["out"].batches()] == [
        [number, number + 100] for number in range(2)
    ]


def _union(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.union(right)


def test_a_new_version_of_a_job_continues_with_its_state(streamjob_job: UnderTest) -> None:
    job = streamjob_job(counts())
    job.feed("clicks", [click("ann", "12:00:10")])
    job.process()
    job.upgrade(counts(chain=False))
    job.feed("clicks", [click("ann", "12:00:20")])
    job.finish()
    job.expect("report", [count("ann", "12:00:00", 2)])


def test_a_row_that_does_not_fit_is_refused_with_its_column(streamjob_job: UnderTest) -> None:
    job = streamjob_job(FLIGHTS / "job.yaml")

    with pytest.raises(UnknownPart, match=r"no source 'flight'\n  fix: did you mean 'flights'\?"):
        job.feed("flight", [])
    with pytest.raises(InvalidRows) as error:
        job.feed("flights", [{"origin": "EWR"}, {"origin": "EWR", "delay": 1}, {"scheduled": "yesterday"}])

    assert str(error.value) == (
        "source 'flights': 2 of 3 rows do not fit its columns\n"
        "  - row 2: there is no column 'delay'\n"
        "    fix: did you mean 'dep_delay'?\n"
        "  - row 3: scheduled: 'yesterday' does not fit its type\n"
        "    fix: write a time like 2026-01-31T12:00:00Z"
    )


def test_other_rows_than_expected_are_shown_next_to_those(streamjob_job: UnderTest) -> None:
    job = Job("copies")
    rows = job.source("rows", format="json", schema="k STRING, n INT, at TIMESTAMP", options={"path": "rows"})
    job.sink("out", input=rows, format="json", options={"path": "out"})
    test = streamjob_job(job)
    test.feed("rows", [{"k": "a", "n": 1, "at": "2026-01-01T12:00:00Z"}, {"k": "b", "n": 2}])

    with pytest.raises(AssertionError) as error:
        test.expect("out", [{"k": "a", "n": 7, "at": "2026-01-01T13:00:00+01:00"}])

    assert str(error.value) == (
        "sink 'out': 1 row expected, 2 published\n"
        "  missing:    {k: a, n: 7, at: 2026-01-01T12:00:00Z}\n"
        "  unexpected: {k: a, n: 1, at: 2026-01-01T12:00:00Z}\n"
        "    n is 1, not 7\n"
        "  unexpected: {k: b, n: 2, at: null}"
    )


def test_a_job_that_fails_tells_its_test_why(streamjob_job: UnderTest) -> None:
    job = Job("fails")
    rows = job.source("rows", format="json", schema="n INT", options={"path": "rows"})
    ratios = job.sql("ratios", inputs=[rows], sql="SELECT 1 / n AS ratio FROM rows")
    job.sink("out", input=ratios, format="json", options={"path": "out"})
    test = streamjob_job(job)
    test.feed("rows", [{"n": 0}])

    with pytest.raises(JobUnderTestFailed, match=r"job 'fails' failed: a chain failed: chain ratios: .*DIVIDE_BY_ZERO"):
        test.process()


def test_event_time_needs_a_watermark_to_advance(streamjob_job: UnderTest) -> None:
    job = Job("timeless")
    rows = job.source("rows", format="json", schema="n INT", options={"path": "rows"})
    job.sink("out", input=rows, format="json", options={"path": "out"})

    with pytest.raises(NoEventTime, match="declare a watermark"):
        streamjob_job(job).advance("2026-01-01T12:00:00Z")
