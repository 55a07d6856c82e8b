"""A job may have many parts, and not any number: one with too many is refused by one message that says how many."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.jobs import job_file, sink, source, sql
from typer.testing import CliRunner

from streamjob.cli.main import app
from streamjob.errors import ExitCode, InvalidJob
from streamjob.job.loading.load import load_job
from streamjob.job.model.spec import MOST_INPUTS, MOST_PARTITIONS, MOST_PARTS
from streamjob.job.planning.plan import plan
from streamjob.job.query.sql import NotAQuery, read_query

Data = dict[str, Any]


def fan(sources: int = 1, operators: int = 1, sinks: int = 1, **fields: Any) -> Data:
    """Return a job whose operators read all sources, and whose sinks read one of the operators each."""
    names = [f"s{each}" for each in range(sources)]
    query = f"SELECT * FROM {', '.join(names)}"
    return job_file(
        *(sql(f"o{each}", names, query) for each in range(operators)),
        sources=[source(each) for each in names],
        sinks=[sink(f"o{each % operators}", name=f"k{each}") for each in range(sinks)],
        **fields,
    )


def chain(operators: int) -> Data:
    """Return a job whose operators are in a row, the last one first."""
    made = fan(operators=operators)
    for number, each in enumerate(made["operators"]):
        read = f"o{number - 1}" if number else "s0"
        each |= {"inputs": [read], "sql": f"SELECT * FROM {read}"}
    made["operators"].reverse()
    made["sinks"][0]["input"] = f"o{operators - 1}"
    return made


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Data], Path]:
    def write(data: Data) -> Path:
        file = tmp_path / "job.yaml"
        file.write_text(json.dumps(data))
        return file

    return write


TOO_LARGE = {
    "sources": (fan(sources=MOST_PARTS + 1), "job: has 501 sources, and at most 500 are possible"),
    "operators": (chain(MOST_PARTS + 1), "job: has 501 operators, and at most 500 are possible"),
    "sinks": (fan(sinks=MOST_PARTS + 1), "job: has 501 sinks, and at most 500 are possible"),
    "inputs": (fan(sources=MOST_INPUTS + 1), "operator 'o0': has 101 inputs, and at most 100 are possible"),
    "parallelism": (fan(parallelism=MOST_PARTITIONS + 1), "job: parallelism must be at most 32768"),
    "maxParallelism": (fan(maxParallelism=MOST_PARTITIONS + 1), "job: maxParallelism must be at most 32768"),
}


@pytest.mark.parametrize("what", TOO_LARGE)
def test_a_job_with_too_much_of_something_is_refused(what: str, written: Callable[[Data], Path]) -> None:
    data, message = TOO_LARGE[what]

    done = CliRunner().invoke(app, ["validate", str(written(data))])

    assert done.exit_code == ExitCode.INVALID_INPUT
    assert message in done.output
    assert "split the job" in done.output or "must be at most" in message


def test_a_job_with_the_most_operators_in_a_row_is_one_chain(written: Callable[[Data], Path]) -> None:
    loaded = load_job(written(chain(MOST_PARTS)))

    (only,) = plan(loaded.spec).chains
    assert [each.name for each in only.operators] == [f"o{number}" for number in range(MOST_PARTS)]


def test_the_most_operators_that_share_a_source_are_planned(written: Callable[[Data], Path]) -> None:
    loaded = load_job(written(fan(operators=MOST_PARTS, sinks=MOST_PARTS)))

    assert len(plan(loaded.spec).channels) == MOST_PARTS


def test_the_default_of_max_parallelism_is_one_that_may_be_written(written: Callable[[Data], Path]) -> None:
    assert load_job(written(fan(parallelism=MOST_PARTITIONS))).spec.max_parallelism == MOST_PARTITIONS


def test_no_more_problems_are_told_than_anybody_reads(written: Callable[[Data], Path]) -> None:
    data = fan(operators=MOST_PARTS, sinks=1)
    for each in data["operators"]:
        each["inputs"] = [f"missing{number}" for number in range(MOST_INPUTS)]

    with pytest.raises(InvalidJob) as raised:
        load_job(written(data))

    assert len(raised.value.problems) == 1000


def test_joins_without_a_condition_are_limited_for_each_doubles_the_work() -> None:
    tables = [f"t{number}" for number in range(200)]

    with pytest.raises(NotAQuery, match="more than 8 joins without a condition: give each ON or USING"):
        read_query(f"SELECT * FROM {' JOIN '.join(tables)}")


def test_many_joins_that_have_a_condition_or_need_none_are_read() -> None:
    tables = [f"t{number}" for number in range(100)]
    with_condition = "".join(f" JOIN {each} ON t0.a = {each}.a" for each in tables[1:])
    with_columns = "".join(f" JOIN {each} USING (a)" for each in tables[1:])

    for query in (f"t0{with_condition}", f"t0{with_columns}", " CROSS JOIN ".join(tables), ", ".join(tables)):
        assert read_query(f"SELECT * FROM {query}").tables == frozenset(tables)
