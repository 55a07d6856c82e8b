"""`streamjob log repair`, and what the other commands say of a damaged log."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.stored.job import Job, Run, lines
from typer.testing import CliRunner, Result

from streamjob.cli.main import app
from streamjob.ids import LogSeq
from streamjob.protocol.log.records import JobId
from streamjob.snapshot import keys


@pytest.fixture
def crashed(job: Job) -> Job:
    """The job, whose process died after its second claim; the record of its newest checkpoint is lost."""
    job.claim_log()
    job.path(keys.log_record(LogSeq(3))).unlink()
    return job


def repair(job: Job, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["log", "repair", str(job.location), *arguments])


@pytest.mark.parametrize("command", ["list", "show", "verify", "inspect"])
def test_every_command_names_the_lost_record_and_the_way_out(crashed: Job, run: Run, command: str) -> None:
    result = run(command, crashed.location)

    assert result.exit_code == 3
    assert "the log of job default/departures is damaged: log/00000000000000000003.json does not exist" in result.stderr
    assert "streamjob log repair" in result.stderr


def test_nothing_is_deleted_by_hand_while_the_log_is_damaged(crashed: Job, run: Run) -> None:
    before = crashed.objects()

    assert run("delete", crashed.location, 1, "--fence").exit_code == 3
    assert crashed.objects() == before


def test_a_damaged_log_does_not_hide_the_other_jobs(crashed: Job, run: Run) -> None:
    other = Job(crashed.location, JobId("default", "arrivals"))
    other.complete(1, *other.upload(a=b"a"))
    last = Job(crashed.location, JobId("default", "zebra"))
    last.complete(1, *last.upload(a=b"a"))

    for command in ("list", "verify"):
        result = run(command, crashed.location, "--json")
        assert result.exit_code == 3
        assert "default/departures is damaged" in result.stderr
        assert len(lines(result)) == 2


def test_a_repair_shows_its_plan_and_does_nothing_without_yes(crashed: Job) -> None:
    before = crashed.objects()
    result = repair(crashed)

    assert result.exit_code == 3
    assert "- put log/00000000000000000003.json back from its copy" in result.stdout
    assert "nothing was changed: add --yes" in result.stdout
    assert crashed.objects() == before


def test_a_repair_makes_the_log_whole(crashed: Job, run: Run) -> None:
    assert repair(crashed, "--yes").exit_code == 0

    assert [each["id"] for each in lines(run("list", crashed.location, "--json"))] == [1, 2, 3]
    assert run("verify", crashed.location).exit_code == 0
    again = repair(crashed)
    assert (again.exit_code, "nothing to repair" in again.stdout) == (0, True)


def test_without_the_copy_the_plan_says_what_is_given_up(crashed: Job, run: Run) -> None:
    crashed.path(keys.record_copy(LogSeq(3))).unlink()
    result = repair(crashed)

    assert result.exit_code == 3
    assert "a process that still runs the job ends as superseded" in result.stdout
    assert "name checkpoint 2 again: checkpoints/1-2/manifest.json" in result.stdout
    assert "continues from checkpoint 2, and publishes later output again" in result.stdout
    assert "checkpoints/1-3/manifest.json can be read, and no readable record names it" in result.stdout

    (done,) = lines(repair(crashed, "--newest", "checkpoints/1-3", "--yes", "--json"))
    assert (done["done"], done["unnamed"]) == (True, [])
    assert [each["id"] for each in lines(run("list", crashed.location, "--json"))] == [1, 2, 3]
    assert run("verify", crashed.location).exit_code == 0


def test_one_of_several_jobs_is_named(crashed: Job) -> None:
    Job(crashed.location, JobId("default", "arrivals"))

    assert "there are several jobs" in repair(crashed, "--yes").stderr
    assert repair(crashed, "--yes", "--name", "departures").exit_code == 0


def test_a_place_without_a_job_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["log", "repair", str(tmp_path)])

    assert result.exit_code == 2
