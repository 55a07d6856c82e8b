"""A real process of a job: steered over its control API, stopped by a signal, gone on with, started once too often."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.integration.runtime.processes import PROGRAM, JobRuns
from tests.integration.runtime.purchases import Rows, line_rows, table_rows

from streamjob.client.client import ControlClient
from streamjob.client.discovery import Endpoint, find_endpoint
from streamjob.client.models import CheckpointingChanges, JobReport
from streamjob.snapshot.record import RecordKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def streamjob(*arguments: str) -> dict[str, Any]:
    """Call the command line; return the last JSON object that it printed."""
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def no_java(directory: Path) -> tuple[dict[str, str], Path]:
    """Return an environment in which every try to find a Java leaves a mark."""
    mark = directory / "java-was-started"
    java = directory / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch '{mark}'\nexit 1\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(java.parent.parent)}, mark


def unpublish(runs: JobRuns) -> None:
    """Reset the sinks to their state between the log's last record and its publication."""
    manifest = runs.manifest(runs.completions()[-1])
    assert manifest is not None
    for sink in manifest.sinks:
        root = runs.file.parent / sink.uid
        number = 0
        for committable in sink.committables:
            assert isinstance(committable, dict)
            for file in committable["files"]:  # type: ignore[union-attr]
                name = Path(file["path"]).name  # type: ignore[index, call-overload, arg-type]
                suffixes = "".join(Path(name).suffixes)
                visible = root / f"part-{manifest.id}-{number}-{committable['id']}{suffixes}"
                staged = root / str(committable["directory"]) / name
                staged.parent.mkdir(parents=True, exist_ok=True)
                visible.rename(staged)
                number += 1
        (root / "_streamjob" / "published" / f"{manifest.id}.json").unlink()
        assert number, "nothing was published last: the test proves nothing"


def all_of_the_job(endpoint: Endpoint, trigger: str) -> JobReport:
    """Return the control API's complete report about the job in one response."""
    answer = httpx.get(
        f"{endpoint.url}/v1/job?include=checkpoints,checkpointing&trigger={trigger}",
        headers={"Authorization": f"Bearer {endpoint.token}"},
        trust_env=False,
    )
    return JobReport.model_validate_json(answer.content)


@pytest.mark.timeout(600)
def test_a_job_is_steered_stopped_by_a_signal_and_goes_on_from_there(
    runs: JobRuns, expected: Rows, spark: SparkSession, tmp_path: Path
) -> None:
    directory = runs.file.parent
    workdir = str(directory / "work")

    first = runs.start("--set", "checkpointing.interval=1h")
    runs.wait(lambda: (directory / "work" / "control.json").exists(), "control file", first)
    endpoint = find_endpoint(workdir=directory / "work")
    with ControlClient(endpoint.url, endpoint.token) as client:
        runs.wait(lambda: client.job().chains != () and client.job().chains[0].batch >= 1, "batches", first)
        assert client.patch_checkpointing(CheckpointingChanges(numRetained=5)).num_retained == 5  # type: ignore[call-arg]
        assert runs.completions() == []
        asked = streamjob("checkpoint", "--workdir", workdir, "--json")
        assert len(runs.completions()) == 1
        assert asked["state"] == "COMPLETED"
        status = streamjob("status", "--workdir", workdir, "--json")
        assert (status["state"], status["lastCheckpoint"]["id"]) == ("RUNNING", runs.completions()[0].id)
        report = all_of_the_job(endpoint, asked["triggerId"])
        assert (report.state, report.checkpoints, report.checkpointing) == (
            "RUNNING",
            client.checkpoints(),
            client.patch_checkpointing(CheckpointingChanges()),
        )
        assert report.triggers == {asked["triggerId"]: client.trigger(asked["triggerId"])}
        client.patch_checkpointing(CheckpointingChanges(interval=0.3))
        runs.wait(lambda: len(runs.completions()) >= 3, "periodic checkpoints", first)
        first.send(signal.SIGTERM)
        assert first.wait() == 0, first.output()
    assert not (directory / "work" / "control.json").exists()
    last = runs.records()[-1]
    assert last.kind is RecordKind.CHECKPOINT
    cut = runs.manifest(last)
    assert cut is not None
    assert cut.chains[0].batch < 15

    hasty = runs.start()
    runs.wait_for_claim(1, hasty)
    hasty.send(signal.SIGTERM)
    assert hasty.wait() == 0, hasty.output()
    assert runs.completions()[-1] == last

    second = runs.start("--set", "checkpointing.interval=500ms")
    runs.wait(lambda: bool(runs.completions(3)), "checkpoint", second)
    restored = streamjob("status", "--workdir", workdir, "--json")["restoredFrom"]
    assert restored["id"] == last.id
    stopping = streamjob("stop", "--workdir", workdir, "--json")
    assert second.wait() == 0, second.output()
    assert stopping["state"] == "COMPLETED"
    behind = runs.manifest(runs.records()[-1])
    assert behind is not None
    assert behind.chains[0].batch >= cut.chains[0].batch

    third = runs.start("--set", "checkpointing.interval=1h")
    assert third.wait() == 0, third.output()
    assert runs.records()[-1].kind is RecordKind.FINAL
    assert table_rows(spark, directory / "table") == expected

    environment, mark = no_java(tmp_path)
    unpublish(runs)
    assert table_rows(spark, directory / "table") != expected
    fourth = runs.start(environment=environment)
    assert fourth.wait() == 0, fourth.output()
    assert not mark.exists()
    assert [record.kind for record in runs.records()[-2:]] == [RecordKind.FINAL, RecordKind.CLAIM]
    assert table_rows(spark, directory / "table") == expected
    assert line_rows(spark, directory / "lines") == expected
