"""`streamjob check` of a job that runs on meanwhile, and what it leaves for a supervisor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.jobs import job_spec, sql
from tests.unit.runtime.test_restoring import FUSED, snapshot
from tests.unit.stored.job import Job
from typer.testing import CliRunner

from streamjob.cli.main import app
from streamjob.comparison.starting import ComparedStart, compare_start
from streamjob.comparison.verdicts import Comparison
from streamjob.errors import CannotRestore
from streamjob.job.loading.load import LoadedJob, load_job
from streamjob.job.model.spec import JobSpec
from streamjob.protocol.log.records import JobId
from streamjob.stored.start_snapshot import Found

OWNER = JobId("default", "job")


def written(directory: Path, spec: JobSpec) -> Path:
    file = directory / "job.yaml"
    # JSON is YAML.
    file.write_text(json.dumps(spec.model_dump(mode="json", by_alias=True, exclude_unset=True)))
    return file


def completed(job: Job, number: int) -> None:
    manifest = snapshot(FUSED)
    files = job.upload(**{"state/0/0/7_a.zip": b"c" * 100, "offsets/6": b"offsets %d" % number})
    chains = tuple(chain.model_copy(update={"files": files}) for chain in manifest.chains)
    parts = {name: getattr(manifest, name) for name in ("graph", "operators", "sources", "sinks")}
    job.complete(number, chains=chains, **parts)


class Examiner:
    """Finds the first checkpoints gone, because the job has completed another one and deleted them meanwhile."""

    def __init__(self, running: Job, gone: int, completes: int) -> None:
        self._running = running
        self._gone = gone
        self._completes = completes
        self.asked: list[str] = []

    def __call__(
        self, loaded: LoadedJob, found: Found | None, compared: Comparison, allow: bool, job: JobId
    ) -> Comparison:
        assert found is not None
        self.asked.append(found.uri)
        if len(self.asked) <= self._completes:
            completed(self._running, len(self.asked) + 1)
        if len(self.asked) <= self._gone:
            raise CannotRestore(f"{found.uri} is gone")
        return compared


def started(tmp_path: Path, examiner: Examiner) -> ComparedStart:
    loaded = load_job(written(tmp_path, FUSED))
    return compare_start(loaded, "latest", str(tmp_path / "location"), OWNER, False, examiner)


@pytest.fixture
def running(tmp_path: Path) -> Job:
    running = Job(tmp_path / "location", OWNER)
    completed(running, 1)
    return running


def test_a_checkpoint_that_the_running_job_deletes_is_no_refusal_if_there_is_a_newer_one(
    tmp_path: Path, running: Job
) -> None:
    examiner = Examiner(running, gone=1, completes=1)

    result = started(tmp_path, examiner)

    assert result.uri == examiner.asked[-1]
    assert len(set(examiner.asked)) == 2
    assert not result.compared.refusals


@pytest.mark.parametrize(("completes", "tries"), [(0, 1), (1, 2), (9, 3)])
def test_a_start_that_is_refused_from_every_checkpoint_is_refused(
    tmp_path: Path, running: Job, completes: int, tries: int
) -> None:
    examiner = Examiner(running, gone=9, completes=completes)

    with pytest.raises(CannotRestore):
        started(tmp_path, examiner)

    assert len(examiner.asked) == tries


def test_a_supervisor_learns_how_the_check_ended(tmp_path: Path, running: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMJOB_TERMINATION_LOG", str(tmp_path / "termination"))

    def said(spec: JobSpec | None, *arguments: str) -> dict[str, Any]:
        file = tmp_path / "missing.yaml" if spec is None else written(tmp_path, spec)
        location = str(tmp_path / "location")
        command = ["check", str(file), "--no-spark", "--from", "latest", "--location", location, *arguments]
        done = CliRunner().invoke(app, command)
        found: dict[str, Any] = json.loads((tmp_path / "termination").read_text())
        assert done.exit_code == found["exitCode"]
        return found

    fits, unfit, unread = said(FUSED), said(job_spec(sql("clean", "events"))), said(None)

    assert (fits["state"], fits["exitCode"]) == ("FINISHED", 0)
    assert (unfit["state"], unfit["exitCode"]) == ("FAILED", 3)
    assert "fix: give the operators their old uid" in unfit["message"]
    assert (unread["state"], unread["exitCode"]) == ("FAILED", 2)
    assert "missing.yaml" in unread["message"]
