"""`streamjob migrate` of a snapshot with rows between its chains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.runtime.test_restoring import SPLIT, snapshot

from streamjob.comparison.graphs import compare
from streamjob.comparison.refusals import InFlightDataLost
from streamjob.job.loading.load import LoadedJob
from streamjob.job.planning.plan import plan
from streamjob.protocol.log.records import JobId
from streamjob.snapshot.manifest import ChannelEntry, ChannelSegment, EntryKind
from streamjob.stored.start_snapshot import Found
from streamjob_runtime.process.checking.migration import Migrator


def no_spark(*_: Any) -> Any:
    raise AssertionError("Spark is asked about a snapshot that is refused")


def test_a_snapshot_with_rows_in_flight_is_refused_before_spark_starts(tmp_path: Path) -> None:
    manifest = snapshot(SPLIT)
    segment = ChannelSegment(path="s/1", object="s/1", length=3, sha256="0", records=5)
    entries = (ChannelEntry(index=0, kind=EntryKind.DATA, segments=(segment,)),)
    (channel,) = manifest.channels
    flying = channel.model_copy(update={"entries": entries, "consumed": 0, "next": 1})
    found = Found(manifest.model_copy(update={"channels": (flying,)}), "file:///s/manifest.json", no_spark)
    migrator = Migrator(no_spark, None, None, write=True, strict=False, note=lambda text: None)
    compared = compare(SPLIT, plan(SPLIT), found.manifest, found.uri, False)
    assert compared.refusals == ()

    told = migrator(LoadedJob(SPLIT, tmp_path, "job.yaml"), found, compared, False, JobId("default", "job"))

    (refusal,) = told.refusals
    assert isinstance(refusal, InFlightDataLost)
    assert "has 5 records in flight from 'clean' to 'counts'" in refusal.what
    assert "savepoint" in (refusal.fix or "")
    assert migrator.report.savepoint is None
