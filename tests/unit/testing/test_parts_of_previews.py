"""The part of a job that a preview runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.examples.flights import FLIGHTS

from streamjob.job.loading.load import LoadedJob, load_job
from streamjob_runtime.testing.errors import UnknownPart
from streamjob_runtime.testing.preview import part_of


@pytest.fixture(scope="module")
def flights() -> LoadedJob:
    return load_job(FLIGHTS / "job.yaml")


def names(loaded: LoadedJob) -> list[str]:
    return [each.name for each in loaded.spec.nodes()]


def test_a_preview_runs_what_the_operator_depends_on(flights: LoadedJob) -> None:
    assert names(part_of(flights, "departures")) == ["flights", "weather", "departures", "_preview"]
    assert names(part_of(flights, "weather")) == ["weather", "_preview"]


def test_the_input_of_the_only_sink_is_shown_by_default(flights: LoadedJob) -> None:
    assert part_of(flights, None).spec.sinks[0].input == "hours"


def test_a_loop_is_part_of_a_preview_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        """
name: loop
sources:
- {name: seeds, format: json, schema: n INT, options: {path: seeds}}
- {name: others, format: json, schema: n INT, options: {path: others}}
operators:
- name: step
  inputs: [seeds, {from: next, feedback: true, schema: n INT}]
  sql: SELECT n FROM seeds UNION ALL SELECT n FROM next
- {name: next, inputs: [step], sql: SELECT n + 1 AS n FROM step WHERE n < 3}
sinks:
- {name: out, input: step, format: json, options: {path: out}}
- {name: rest, input: others, format: json, options: {path: rest}}
"""
    )

    assert names(part_of(load_job(tmp_path / "job.yaml"), "step")) == ["seeds", "step", "next", "_preview"]


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("hour", (), "no operator or source 'hour'\n  fix: did you mean 'hours'?"),
        ("hours", ("flight",), "no source 'flight'\n  fix: did you mean 'flights'?"),
    ],
)
def test_an_unknown_name_is_refused(flights: LoadedJob, name: str, given: tuple[str, ...], message: str) -> None:
    with pytest.raises(UnknownPart) as error:
        part_of(flights, name, given)

    assert message in str(error.value)
