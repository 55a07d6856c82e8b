"""Sinks whose tables or topics were made again under their names."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.errors import ExitCode
from streamjob.ids import CheckpointId, Epoch, OperatorUid
from streamjob.sink import NO_TARGET
from streamjob.snapshot.manifest import Manifest, SinkState
from streamjob_runtime.job.targets import TargetMadeAgain, check_targets

REPORT = OperatorUid("report")
SINK = {"uid": REPORT, "format": "iceberg", "options": {"table": "db.report"}}


def snapshot(target: str | None) -> Manifest:
    return Manifest(
        job="job",
        namespace="default",
        id=CheckpointId(4),
        epoch=Epoch(1),
        kind="checkpoint",
        triggered=1.0,
        completed=2.0,
        graph={"sinks": [SINK]},
        sinks=(SinkState(uid=REPORT, target=target),),
    )


@pytest.mark.parametrize(("now", "found"), [("new", "another one, new, has its name"), (NO_TARGET, "it is gone")])
def test_a_job_does_not_write_on_to_another_table_of_the_same_name(now: str, found: str) -> None:
    with pytest.raises(TargetMadeAgain, match=f"sink report: checkpoint 4 .* the id old, and {found}") as error:
        check_targets(snapshot("old"), [SINK], {REPORT: now})

    assert error.value.exit_code is ExitCode.CANNOT_RESTORE


@pytest.mark.parametrize(
    ("before", "sink"),
    [
        ("new", SINK),
        # Older versions stored no ids.
        (None, SINK),
        ("old", {**SINK, "options": {"table": "db.other"}}),
        ("old", {**SINK, "uid": "another"}),
    ],
)
def test_the_same_table_and_another_sink_are_written_to(before: str | None, sink: dict[str, Any]) -> None:
    check_targets(snapshot(before), [sink], {REPORT: "new"})


def test_an_id_that_nobody_may_read_any_more_is_not_compared() -> None:
    check_targets(snapshot("old"), [SINK], {})


def test_a_snapshot_without_an_id_is_stored_as_by_older_versions() -> None:
    assert snapshot(None).stored_fields()["sinks"] == [{"uid": "report", "committables": []}]
