"""The models read resources as people write them and Kubernetes stores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from streamjob.job.loading.load import load_job
from streamjob.job.model.reading import read_spec
from streamjob_operator.resources.base import SomeCpu, format_memory
from streamjob_operator.resources.parts import Savepoints
from streamjob_operator.resources.pods import DriverSpec, PodSettings
from streamjob_operator.resources.snapshot import SnapshotState, StreamSnapshot, StreamSnapshotSpec
from streamjob_operator.resources.status import LifecycleState, StreamJobStatus
from streamjob_operator.resources.streamjob import StreamJob, StreamJobSpec

RESOURCE = """\
apiVersion: streamjob.io/v1alpha1
kind: StreamJob
metadata: {name: departures, namespace: flights}
spec:
  parallelism: 3
  checkpointing: {interval: 5s, location: s3://snapshots/jobs}
  sparkConf: {spark.sql.session.timeZone: UTC}
  job:
    parallelism: 1
    checkpointing: {interval: 1m, timeout: 2m}
    sparkConf: {spark.sql.session.timeZone: CET, spark.sql.ansi.enabled: true}
    sources:
    - {name: numbers, format: rate, options: {rowsPerSecond: 5}}
    sinks:
    - {name: out, input: numbers, format: console}
"""
STORED: dict[str, Any] = {
    **yaml.safe_load(RESOURCE),
    "status": {
        "observedGeneration": 3,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Stable",
                "observedGeneration": 3,
                "lastTransitionTime": "2026-03-01T10:00:00Z",
            }
        ],
        "lifecycleState": "STABLE",
        "jobStatus": {"state": "RUNNING", "attempt": 7, "epoch": 2, "startTime": "2026-03-01T09:59:00Z"},
        "checkpoint": {"lastCompleted": {"id": 5, "kind": "checkpoint", "path": "s3://snapshots/jobs/m.json"}},
    },
}
STORED["metadata"] = {
    **STORED["metadata"],
    "uid": "4a6f",
    "resourceVersion": "17",
    "generation": 3,
    "creationTimestamp": "2026-03-01T09:00:00Z",
    "managedFields": [{"manager": "kubectl"}],
}


def test_a_stored_resource_is_read_whole() -> None:
    job = StreamJob.model_validate(STORED)

    assert (job.metadata.name, job.metadata.uid, job.metadata.generation) == ("departures", "4a6f", 3)
    assert job.spec.checkpointing.interval == 5.0
    assert job.status.lifecycle_state is LifecycleState.STABLE
    assert job.status.job_status.attempt == 7


def test_a_spec_is_written_back_as_it_was_read() -> None:
    assert StreamJob.model_validate(STORED).spec.to_dict() == STORED["spec"]


def test_the_job_file_of_a_resource_is_what_validate_reads_there(tmp_path: Path) -> None:
    (tmp_path / "departures.yaml").write_text(RESOURCE)
    file = StreamJob.model_validate(yaml.safe_load(RESOURCE)).job_file()

    assert read_spec(file).spec == load_job(tmp_path / "departures.yaml").spec


def test_an_application_has_no_job_file_in_the_resource() -> None:
    spec = {"mainApplicationFile": "local:///app/job.py"}

    assert StreamJob.model_validate({"metadata": {"name": "departures"}, "spec": spec}).job_file() is None


@pytest.mark.parametrize(
    ("written", "size"),
    [("512m", 512 * 1024**2), ("2g", 2 * 1024**3), ("2Gi", 2 * 1024**3), ("2GB", 2 * 1024**3), ("4096", 4096)],
)
def test_memory_is_written_as_for_spark_or_as_for_kubernetes(written: str, size: int) -> None:
    assert PodSettings.model_validate({"memory": written}).memory == size


@given(st.integers(min_value=1, max_value=2**50))
def test_memory_is_written_back_exactly(size: int) -> None:
    assert PodSettings.model_validate({"memory": format_memory(size)}).memory == size


@pytest.mark.parametrize("written", ["", "m", "1.5g", "-1g", "10x", "0"])
def test_what_is_no_amount_of_memory_is_refused(written: str) -> None:
    with pytest.raises(ValidationError):
        PodSettings.model_validate({"memory": written})


@pytest.mark.parametrize("written", ["6h", "1d", "0 3 * * *", "*/15 * * * 1-5", "0 0 1,15 * MON"])
def test_a_schedule_is_a_duration_or_has_five_fields(written: str) -> None:
    assert Savepoints.model_validate({"schedule": written}).schedule == written


@pytest.mark.parametrize("written", ["daily", "6", "0 3 * *", "0 3 * * * *", ""])
def test_what_is_no_schedule_is_refused(written: str) -> None:
    with pytest.raises(ValidationError):
        Savepoints.model_validate({"schedule": written})


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"paralelism": 2}, "paralelism"),
        ({"driver": {"env": [{"value": "b"}]}}, "name"),
        ({"driver": {"volumeMounts": [{"name": "data"}]}}, "mountPath"),
        ({"upgradeMode": "lastState"}, "last-state"),
        ({"checkpointing": {"location": "snapshots"}}, "checkpointing"),
        ({"mainApplicationFile": "http://example.org/job.py"}, "mainApplicationFile"),
        ({"parallelism": 2.5}, "parallelism"),
        ({"storage": {"endpoint": "https://name:secret@minio:9000"}}, "endpoint"),
    ],
)
def test_a_spec_that_cannot_be_used_says_where(spec: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        StreamJobSpec.model_validate(spec)


def test_null_stands_for_the_default() -> None:
    assert StreamJobSpec.model_validate({"upgradeMode": None, "driver": None}) == StreamJobSpec()


def test_a_status_reads_back_as_it_was_written() -> None:
    status = StreamJob.model_validate(STORED).status.replaced(selector="streamjob.io/name=departures", replicas=3)

    assert StreamJobStatus.model_validate(status.to_dict()) == status


def test_moments_are_whole_seconds_so_that_they_read_back_equal() -> None:
    reconciliation = StreamJobStatus().reconciliation.replaced(since=1_700_000_000.75)

    assert reconciliation.to_dict()["since"] == "2023-11-14T22:13:20Z"
    assert type(reconciliation).model_validate(reconciliation.to_dict()) == reconciliation


def test_a_status_of_a_newer_controller_can_be_read() -> None:
    assert StreamJobStatus.model_validate({"replicas": 2, "fromTheFuture": {"a": 1}}).replicas == 2


def test_a_changed_status_is_checked() -> None:
    with pytest.raises(ValidationError):
        StreamJobStatus().replaced(replicas=-1)
    with pytest.raises(KeyError, match="replica"):
        StreamJobStatus().replaced(replica=1)


def test_a_snapshot_is_read_whole() -> None:
    snapshot = StreamSnapshot.model_validate(
        {
            "apiVersion": "streamjob.io/v1alpha1",
            "kind": "StreamSnapshot",
            "metadata": {"name": "before-the-move", "namespace": "flights"},
            "spec": {"jobRef": {"name": "departures"}, "savepoint": {"location": "s3://snapshots/kept"}},
            "status": {"state": "Completed", "path": "s3://snapshots/kept/x/manifest.json", "sizeBytes": 12},
        }
    )

    assert snapshot.spec.savepoint is not None
    assert snapshot.spec.backoff_limit == -1
    assert snapshot.status.state.terminal


def test_a_checkpoint_is_asked_for_by_an_empty_mapping() -> None:
    spec = StreamSnapshotSpec.model_validate({"jobRef": {"name": "departures"}, "checkpoint": {}})

    assert spec.checkpoint is not None
    assert spec.to_dict() == {"jobRef": {"name": "departures"}, "checkpoint": {}}


def test_a_snapshot_ends_completed_failed_or_abandoned() -> None:
    assert {state for state in SnapshotState if state.terminal} == {"Completed", "Failed", "Abandoned"}


def test_a_driver_that_spark_would_not_start_in_is_refused() -> None:
    assert format_memory(DriverSpec.model_validate({"memory": "768m"}).memory) == "768Mi"
    with pytest.raises(ValidationError, match=r"640Mi are not enough for Spark.*768Mi"):
        DriverSpec.model_validate({"memory": "640m"})


CPU: TypeAdapter[str] = TypeAdapter(SomeCpu)


@pytest.mark.parametrize("cpu", ["1", "500m", "1m", "0.5", "0.05", "0.001", "0.100", "2.250", "10"])
def test_processors_for_a_slot_are_read(cpu: str) -> None:
    assert CPU.validate_python(cpu) == cpu


@pytest.mark.parametrize("cpu", ["0", "0.0", "0.000", "0m", "00", "-1", "0.0001", "1e3", ""])
def test_no_processors_for_a_slot_are_refused(cpu: str) -> None:
    with pytest.raises(ValidationError):
        CPU.validate_python(cpu)
