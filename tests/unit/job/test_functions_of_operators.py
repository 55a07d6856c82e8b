"""Functions of operators are looked at before they are called, and without importing them."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from tests.unit.job.texts import SINK, SOURCE, job, messages

from streamjob.errors import InvalidJob
from streamjob.job.loading.load import load_job

MODULE = """
import functools
from os.path import join as joined


def one(a):
    return a


def any_number(*frames):
    return frames


def two(a, b):
    return a


def with_a_default(a, b=None):
    return a


def marked(a):
    return a.withWatermark("t", "1 hour")


def decorate(function):
    return lambda *frames: function


@decorate
def decorated():
    return None


assigned = functools.partial(one)
"""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("one", []),
        ("any_number", []),
        ("with_a_default", []),
        ("decorated", []),
        ("assigned", []),
        ("joined", []),
        ("marked", ["its function sets a watermark"]),
        ("oen", ["functions.py has no function 'oen'\n    fix: did you mean 'one'?"]),
    ],
)
def test_a_function_beside_the_file_is_looked_at_without_importing_it(
    tmp_path: Path, function: str, said: list[str]
) -> None:
    (tmp_path / "functions.py").write_text(MODULE, encoding="utf-8")
    operator = f"{{name: b, inputs: [a], python: 'functions:{function}'}}"

    found = messages(tmp_path, job(operators=operator, sinks=SINK.replace("input: a", "input: b")))

    assert len(found) == len(said)
    assert all(words in message for words, message in zip(said, found, strict=True))


def test_a_function_takes_as_many_frames_as_the_operator_has_inputs(tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(MODULE, encoding="utf-8")
    operator = "{name: b, inputs: [a, r], python: 'functions:one'}"
    text = job(
        sources=f"{SOURCE}, {{name: r, format: rate}}", operators=operator, sinks=SINK.replace("input: a", "input: b")
    )

    assert messages(tmp_path, text) == [
        (
            "operator 'b': has 2 inputs, but its function takes 1 argument\n    fix: give the function a DataFrame "
            "for each input, in their order"
        ),
    ]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("one", []),
        ("two", ["source 'a': its function takes 2 arguments, and a source has one, its rows"]),
        ("marked", ["source 'a': its function sets a watermark"]),
        ("oen", ["source 'a': functions.py has no function 'oen'\n    fix: did you mean 'one'?"]),
    ],
)
def test_a_function_of_a_source_takes_its_rows(tmp_path: Path, function: str, said: list[str]) -> None:
    (tmp_path / "functions.py").write_text(MODULE, encoding="utf-8")
    source = SOURCE.replace("options", f"python: 'functions:{function}', options")

    found = messages(tmp_path, job(sources=source))

    assert len(found) == len(said)
    assert all(words in message for words, message in zip(said, found, strict=True))


def test_a_function_in_a_python_job_is_looked_at_too(tmp_path: Path) -> None:
    text = """
    from streamjob import Job

    job = Job("marked")
    a = job.source("a", format="rate")
    r = job.source("r", format="rate")


    @job.operator(inputs=[a, r])
    def b(a):
        def inner():
            return a.withWatermark("t", "1 hour")
        return inner()


    job.sink("out", input=b, format="noop")
    """
    file = tmp_path / "marked_job.py"
    file.write_text(textwrap.dedent(text), encoding="utf-8")

    with pytest.raises(InvalidJob) as caught:
        load_job(file)

    assert [str(each).split(";")[0].splitlines()[0] for each in caught.value.problems] == [
        "operator 'b': has 2 inputs, but its function takes 1 argument",
        "operator 'b': its function sets a watermark",
    ]
