"""Functions in place of a sink's format: how they are named, and what is refused."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.unit.job.texts import SINK, job, messages

from streamjob import Job
from streamjob.errors import InvalidJob
from streamjob.job.loading.load import load_dsl, load_job
from streamjob.job.planning.drawing import as_text
from streamjob.job.planning.plan import plan

MODULE = """
def write(batch, batch_id):
    return None


def configured(batch, batch_id, url="jdbc:"):
    return None


def alone(batch):
    return None
"""
IN_PYTHON = f"""
from streamjob import Job
{MODULE}
job = Job("test")
rows = job.source("a", format="rate")
job.sink("out", input=rows, function=write)
"""
NAMES = "name one of them: function: module:function, or a format"


def write(batch: Any, batch_id: int) -> None:
    raise AssertionError("nothing calls it")


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ("function: 'writers:write'", []),
        ("function: 'writers:configured'", []),
        ("function: 'os.path:join'", []),
        (
            "function: 'writers:alone'",
            [
                (
                    "sink 'out': its function takes 1 argument, and a sink has two for it, the rows and the id of the "
                    "batch\n    fix: give the function two arguments: (batch, batch_id)"
                )
            ],
        ),
        (
            "function: 'writers:wirte'",
            ["sink 'out': writers.py has no function 'wirte'\n    fix: did you mean 'write'?"],
        ),
        (
            "function: 'writer:write'",
            ["sink 'out': there is no module 'writer'\n    fix: put writer.py next to the job file"],
        ),
        (
            "function: write",
            [
                (
                    "sink 'out': function cannot be 'write'\n    fix: write it as module:function, a function that its "
                    "module defines at the top with `def`"
                )
            ],
        ),
        (
            "function: 'writers:write', format: console",
            [f"sink 'out': has both format and function\n    fix: {NAMES}"],
        ),
        ("format: function", [f"sink 'out': has no function\n    fix: {NAMES}"]),
        (
            "function: 'writers:write', options: {url: x}",
            [
                (
                    "sink 'out': has options (url), and a function is not given any\n    fix: let the function have "
                    "them: as constants, or from the environment"
                )
            ],
        ),
        (
            "function: 'writers:write', delivery: exactly-once",
            [
                (
                    "sink 'out': cannot deliver exactly-once: a function may be called twice\n    fix: leave delivery "
                    "out, and let the function do nothing for a batch id that it has seen"
                )
            ],
        ),
    ],
)
def test_a_function_is_looked_at_without_importing_it(tmp_path: Path, sink: str, said: list[str]) -> None:
    (tmp_path / "writers.py").write_text(MODULE)

    found = messages(tmp_path, job(sinks=f"{{name: out, input: a, {sink}}}"))

    assert len(found) == len(said)
    assert all(message.startswith(words) for words, message in zip(said, found, strict=True))


def test_a_sink_without_format_and_function_lacks_a_format(tmp_path: Path) -> None:
    (found,) = messages(tmp_path, job(sinks=SINK.replace("format: parquet, ", "")))

    assert found.startswith("sink 'out': lacks 'format'")


def test_a_function_of_python_has_the_name_by_which_a_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "writing.py").write_text(IN_PYTHON)
    (sink,) = load_job(tmp_path / "writing.py").spec.sinks

    assert (sink.function, sink.format, sink.delivery) == ("writing:write", "function", "at-least-once")


@pytest.mark.parametrize("function", [lambda batch, batch_id: None, partial(write)])
def test_a_function_without_a_name_is_refused(function: Any) -> None:
    job = Job("test")
    job.sink("out", input=job.source("a", format="rate"), function=function)

    with pytest.raises(InvalidJob, match=r"sink 'out': function cannot be '.*<(lambda|partial)>'"):
        load_dsl(job)


def test_the_plan_names_the_function_and_its_delivery() -> None:
    job = Job("test")
    job.sink("out", input=job.source("a", format="rate"), function=write)
    spec = job.spec()

    assert (
        f"  sink      out  function {__name__}:write, at-least-once, from a" in as_text(spec, plan(spec)).splitlines()
    )
