"""Whatever a file holds, YAML or SQL, it is either a job or refused with problems; nothing else is ever raised."""

from __future__ import annotations

import copy
import textwrap
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streamjob.job.checks import Subject
from streamjob.job.checks.validate import examine
from streamjob.job.model.origins import Origins
from streamjob.job.model.problem import Problem
from streamjob.job.model.reading import read_spec
from streamjob.job.sql_job import read_sql

JOB: dict[str, Any] = {
    "name": "flights",
    "parallelism": 2,
    "checkpointing": {"interval": "10s", "mode": "aligned"},
    "sources": [
        {
            "name": "flights",
            "format": "csv",
            "schema": "origin STRING, departed TIMESTAMP",
            "options": {"path": "in", "header": True},
            "bounded": True,
            "watermark": {"column": "departed", "delay": "1h"},
        },
        {"name": "weather", "uid": "w", "format": "json", "schema": "a INT", "options": {"path": "w"}, "bounded": True},
    ],
    "operators": [
        {"name": "joined", "inputs": ["flights", {"from": "weather"}], "sql": "SELECT * FROM flights, weather"},
        {"name": "late", "inputs": ["joined"], "python": "module:function", "outputMode": "append"},
    ],
    "sinks": [{"name": "out", "input": "late", "format": "parquet", "options": {"path": "out"}, "partitionBy": ["a"]}],
    "sparkConf": {"spark.a": 1},
}

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(allow_nan=True), st.sampled_from(["", "x", "late", "10s"])
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "from", "path", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, each in below for place in places(each, (*at, key)))]


PLACES = [each for each in places(JOB) if each]


@st.composite
def spoiled_jobs(draw: st.DrawFn) -> Any:
    job = copy.deepcopy(JOB)
    for place in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=4)):
        around: Any = job
        try:
            for step in place[:-1]:
                around = around[step]
            if isinstance(around, dict) and draw(st.booleans()):
                around[draw(st.sampled_from(["x", 3, "nam", "options"]))] = draw(ANYTHING)
            elif draw(st.booleans()):
                around[place[-1]] = draw(ANYTHING)
            else:
                del around[place[-1]]
        except (KeyError, IndexError, TypeError):
            # An earlier change took the place away.
            continue
    return job


@settings(max_examples=300, deadline=None)
@given(spoiled_jobs() | ANYTHING)
def test_anything_is_read_into_a_job_or_problems(data: Any) -> None:
    before = copy.deepcopy(data)
    reading = read_spec(data)

    assert repr(data) == repr(before)
    assert reading.spec is not None or reading.problems
    assert all(isinstance(each, Problem) and each.where and each.what for each in reading.problems)
    if reading.spec is not None:
        found = examine(Subject(reading.spec, Path("/nowhere"), {}, unread=reading.unread, complete=reading.complete))
        assert all(isinstance(each, Problem) for each in found)


_WORDS = textwrap.dedent(
    r"""
    CREATE SOURCE VIEW SINK INSERT INTO SET WITH AS SELECT FROM WATERMARK FOR INTERVAL HOUR PARTITIONED BY JOIN ON OVER
    ( ) , ; = - 'a' 'format' 'uid' 'inputs' 'feedback.a' 'python' `a` a b c 1 1.5 1e5 10s true < > . * -- /* */ " ' `
    ${var:x} WINDOW EXPLAIN CALL SHOW COMMENT VALUES { } {{ }} {% %} [ ] @ # $ $$ % ? : :: -> => || é x'ab' r'a\d' \
    """
).split()
_soup = st.lists(st.sampled_from([*_WORDS, "\n", "\0"]), max_size=25).map(" ".join)
_begun = _soup.map(lambda rest: f"CREATE SOURCE a WITH ('format' = 'rate');\nCREATE VIEW b {rest}")


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40) | _soup | _begun)
def test_any_text_is_a_job_or_has_problems(text: str) -> None:
    read = read_sql(text, Origins())
    reading = read_spec(read.data)
    spec = reading.spec
    found = [*read.problems, *reading.problems]
    if spec is not None:
        unread, complete = reading.unread | read.unread, reading.complete and read.complete
        found += examine(Subject(spec, Path("/"), {}, None, unread, complete))

    lines = text.count("\n") + 1
    assert found
    assert all(1 <= each.place.line <= lines for each in read.problems if each.place is not None)
    assert all(each.place is not None or each.where == "job" for each in read.problems)
