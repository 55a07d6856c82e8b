"""Changes of watermarks and output modes with kept state: the reports and the refusals."""

from __future__ import annotations

from typing import Any

import pytest
from tests.jobs import job_spec, sql, timed_source
from tests.unit.runtime.test_restoring import COUNTS, URI, snapshot

from streamjob.comparison.graphs import compare
from streamjob.comparison.refusals import OutputModeChanged
from streamjob.comparison.verdicts import Comparison
from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.dead_letters import with_dead_letters
from streamjob.job.planning.plan import plan

AT = {"column": "at", "delay": "0s"}


def counting(mode: str, watermark: dict[str, str] | None = AT, **fields: Any) -> JobSpec:
    """Return a job that counts in an output mode."""
    events = timed_source()
    if watermark is None:
        del events["watermark"]
    else:
        events["watermark"] = watermark
    operators = (sql("clean", "events"), sql("counts", "clean", COUNTS, outputMode=mode, **fields))
    spec = job_spec(*operators, sources=[events]).model_dump(mode="json", by_alias=True, exclude_unset=True)
    spec["sinks"] = [{**sink, "delivery": "at-least-once"} for sink in spec["sinks"]]
    return JobSpec.model_validate(spec)


def timed(watermark: dict[str, str] | None) -> JobSpec:
    """Return a job whose operator has the event time, and not its source."""
    spec = counting("append", None).model_dump(mode="json", by_alias=True, exclude_unset=True)
    spec["operators"][0] |= {} if watermark is None else {"watermark": watermark}
    return JobSpec.model_validate(spec)


def events(**fields: Any) -> JobSpec:
    """Return a job that counts the decoded records of a topic."""
    read = {
        "name": "events",
        "format": "kafka",
        "options": {"subscribe": "events"},
        "value": {"format": "json", "schema": "at TIMESTAMP, n INT"},
        "columns": ["value.*"],
        "watermark": AT,
        **fields,
    }
    spec = counting("append").model_dump(mode="json", by_alias=True, exclude_unset=True)
    return with_dead_letters(JobSpec.model_validate({**spec, "sources": [read]}))


def changed(then: JobSpec, now: JobSpec, *, allow: bool = False) -> Comparison:
    return compare(now, plan(now), snapshot(then), URI, allow)


def why(compared: Comparison, uid: str) -> str:
    return next(each.why for each in compared.findings if each.uid == uid)


@pytest.mark.parametrize(
    ("then", "now", "lost"),
    [
        ("append", "update", "groups that are still open would never be put out"),
        ("append", "complete", "groups that were already emitted are no longer in the state"),
        ("update", "complete", "groups that a watermark has closed are no longer in the state"),
    ],
)
def test_an_aggregation_that_would_lose_part_of_its_result_is_refused(then: str, now: str, lost: str) -> None:
    compared = changed(counting(then), counting(now))

    (error,) = compared.refusals
    assert isinstance(error, OutputModeChanged)
    assert lost in error.what
    assert "'counts' kept its state in the output mode" in error.what
    assert "--allow-non-restored-state" in error.fix


def test_an_aggregation_that_would_lose_results_starts_empty_where_that_is_allowed() -> None:
    compared = changed(counting("append"), counting("update"), allow=True)

    (found,) = (each for each in compared.findings if each.uid == "counts")
    assert (found.verdict.value, compared.refusals) == ("dropped", ())
    assert "it starts empty" in found.why
    assert "would never be put out" in found.why
    (origin,) = compared.origins.values()
    assert [*origin.empty] == ["counts"]


@pytest.mark.parametrize(
    ("then", "now", "follows"),
    [
        ("update", "append", "emits earlier results of open groups once more, as final"),
        ("complete", "append", "emits earlier results once more, as final"),
        ("complete", "update", "emits changes from here on"),
    ],
)
def test_another_output_mode_that_loses_nothing_is_told_with_what_follows(then: str, now: str, follows: str) -> None:
    compared = changed(counting(then), counting(now))

    assert compared.refusals == ()
    assert f"its output mode was {then}, and is {now}, which {follows}" in why(compared, "counts")


def test_without_a_watermark_all_groups_are_still_there_for_a_complete_result() -> None:
    assert changed(counting("update", None), counting("complete", None)).refusals == ()


def test_an_operator_that_begins_anew_may_have_any_output_mode() -> None:
    now = counting("update", chain=False, uid="other")
    compared = compare(now, plan(now), snapshot(counting("append")), URI, True)

    assert compared.refusals == ()


def test_the_output_mode_of_what_keeps_no_aggregation_does_not_matter() -> None:
    def selecting(mode: str) -> JobSpec:
        spec = job_spec(sql("clean", "events", outputMode=mode)).model_dump(
            mode="json", by_alias=True, exclude_unset=True
        )
        spec["sinks"] = [{**sink, "delivery": "at-least-once"} for sink in spec["sinks"]]
        return JobSpec.model_validate(spec)

    compared = changed(selecting("append"), selecting("update"))

    assert compared.refusals == ()
    assert compared.undecided == {}


def test_another_watermark_of_an_operator_is_told_and_asks_spark_about_the_state() -> None:
    compared = changed(timed(AT), timed({"column": "at", "delay": "5s"}))

    assert compared.refusals == ()
    assert "the delay of its watermark was 0s, and is 5s" in why(compared, "clean")
    assert compared.undecided


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        (AT, {"column": "at", "delay": "5s"}, "the delay of its watermark was 0s, and is 5s: late rows stay late"),
        (AT, {"column": "late", "delay": "0s"}, "its watermark was on 'at', and is on 'late'"),
        (AT, AT | {"idleTimeout": "30s"}, "the idleTimeout of its watermark was never, and is 30s"),
        (AT, AT | {"maxAhead": "1h"}, "the maxAhead of its watermark was 1d, and is 1h"),
        (AT, AT | {"perPartition": False}, "the perPartition of its watermark was True, and is False"),
        (AT, AT | {"nullEventTime": "drop"}, "the nullEventTime of its watermark was fail, and is drop"),
        (AT, None, "its watermark is removed: rows that waited for it are kept forever"),
        (None, AT, "it gets a watermark on 'at': from here on it releases waiting rows"),
        (AT, AT, "it continues from its position"),
    ],
)
def test_another_watermark_is_told_with_what_follows(
    then: dict[str, str] | None, now: dict[str, str] | None, told: str
) -> None:
    compared = changed(counting("update", then), counting("update", now))

    assert compared.refusals == ()
    assert why(compared, "events").endswith(told) or f"{told}:" in why(compared, "events")
    assert bool(compared.undecided) is (then != now)


@pytest.mark.parametrize("switched_on", [True, False])
def test_a_source_that_gets_or_loses_dead_letters_keeps_its_name_and_its_watermark(switched_on: bool) -> None:
    plain, dead = events(onError="fail"), events(onError="deadLetter")
    then, now = (plain, dead) if switched_on else (dead, plain)

    told = why(changed(then, now), "events")

    assert "its handling of errors has changed" in told
    assert "watermark" not in told
    assert "another name" not in told


def test_a_watermark_that_changes_with_dead_letters_is_told() -> None:
    later = {"column": "at", "delay": "5s"}

    told = why(changed(events(onError="fail"), events(onError="deadLetter", watermark=later)), "events")

    assert "the delay of its watermark was 0s, and is 5s" in told
