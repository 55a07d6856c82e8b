"""A job whose log lost the record of its newest checkpoint, or holds a false one, never begins from nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.embedded import Life, finish, running
from tests.integration.runtime.processes import PROGRAM, JobRuns, job_runs
from tests.integration.runtime.purchases import Purchases, Rows, line_rows, table_rows, write_job

from streamjob.errors import ExitCode
from streamjob.snapshot import keys
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.names import RESERVED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CANNOT_RESTORE = 3


@dataclass(frozen=True)
class Crashed:
    """A job whose last process died right after its claim, in directories of its own."""

    directory: Path
    newest: LogRecord
    claim: LogRecord

    @property
    def file(self) -> Path:
        return self.directory / "job" / "job.yaml"

    @property
    def location(self) -> Path:
        return self.directory / "snapshots"

    def path(self, key: str) -> Path:
        return self.location / "default" / "purchases" / key

    def files(self) -> dict[str, bytes]:
        """Return all snapshots and all output, by path, but for what the killed process had begun to write."""
        roots = [self.location, self.directory / "job" / "table", self.directory / "job" / "lines"]
        files = [file for root in roots for file in root.rglob("*") if file.is_file() and RESERVED not in file.parts]
        return {str(file): file.read_bytes() for file in files}

    def streamjob(self, *arguments: str | Path) -> tuple[int, str]:
        """Run a command; return its exit code and output."""
        command = [PROGRAM, *arguments]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def run(self, *arguments: str) -> tuple[int, str]:
        places: list[str | Path] = ["--location", self.location, "--workdir", self.directory / "job" / "work"]
        return self.streamjob("run", self.file, *places, *arguments)


@pytest.fixture(scope="module")
def purchases(tmp_path_factory: pytest.TempPathFactory) -> Purchases:
    return Purchases.write(tmp_path_factory.mktemp("purchases") / "input", files=6, rows=30)


@pytest.fixture(scope="module")
def expected(spark: SparkSession, purchases: Purchases) -> Rows:
    return purchases.batch(spark)


@pytest.fixture(scope="module")
def original(spark: SparkSession, purchases: Purchases, tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    directory = tmp_path_factory.mktemp("crashed")
    file = write_job(directory / "job", purchases.job(checkpointing={"interval": "1h", "numRetained": 100}))
    location = directory / "snapshots"
    with running(spark, Life(file=file, location=str(location), name="purchases")) as job:
        for _ in range(2):
            job.wait_for_batches()
            job.checkpoint()
        assert job.stop() is ExitCode.OK
    with job_runs(file, location, "purchases") as runs:
        process, epoch = runs.start(), runs.epoch()
        runs.wait_for_claim(epoch, process)
        process.kill()
        return Crashed(directory, *_newest_and_claim(runs))


def _newest_and_claim(runs: JobRuns) -> tuple[LogRecord, LogRecord]:
    newest, last = runs.completions()[-1], runs.records()[-1]
    assert last.kind is RecordKind.CLAIM
    assert last.seq > newest.seq
    return newest, last


@pytest.fixture
def crashed(original: Crashed, tmp_path: Path) -> Crashed:
    shutil.copytree(original.directory, tmp_path / "copy")
    return Crashed(tmp_path / "copy", original.newest, original.claim)


def lose_the_newest_completion(crashed: Crashed) -> str:
    key = keys.log_record(crashed.newest.seq)
    crashed.path(key).unlink()
    return key


def lose_it_and_its_copy(crashed: Crashed) -> str:
    crashed.path(keys.record_copy(crashed.newest.seq)).unlink()
    return lose_the_newest_completion(crashed)


def alter_the_epoch_of_the_claim(crashed: Crashed) -> str:
    key = keys.log_record(crashed.claim.seq)
    file, epoch = crashed.path(key), crashed.claim.epoch
    text = file.read_text()
    altered = text.replace(f'"epoch":{epoch}', f'"epoch":{epoch + 1}').replace(
        f'"epoch": {epoch}', f'"epoch": {epoch + 1}'
    )
    assert altered != text
    file.write_text(altered)
    return key


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "damage", [lose_the_newest_completion, lose_it_and_its_copy, alter_the_epoch_of_the_claim], ids=lambda f: f.__name__
)
def test_nothing_starts_or_is_deleted_until_the_log_is_repaired_and_then_the_output_is_exact(
    crashed: Crashed, spark: SparkSession, expected: Rows, damage: Callable[[Crashed], str]
) -> None:
    damaged = damage(crashed)
    files = crashed.files()

    for code, output in (
        crashed.run(),
        crashed.run(),
        crashed.streamjob("snapshots", "list", crashed.location),
        crashed.streamjob("snapshots", "verify", crashed.location),
        crashed.streamjob("check", crashed.file, "--from", "latest", "--location", crashed.location),
    ):
        assert code == CANNOT_RESTORE, output
        assert "the log of job default/purchases is damaged" in output.lower()
        assert damaged in output
        assert "streamjob log repair" in output
        assert "Traceback" not in output
    assert crashed.files() == files

    known = ["--newest", str(crashed.newest.manifest)] if damage is lose_it_and_its_copy else []
    code, output = crashed.streamjob("log", "repair", crashed.location, "--yes", *known)
    assert code == 0, output
    assert {path: crashed.files()[path] for path in files if "/log" not in path} == {
        path: content for path, content in files.items() if "/log" not in path
    }

    finish(spark, Life(file=crashed.file, location=str(crashed.location), name="purchases"))
    assert table_rows(spark, crashed.file.with_name("table")) == expected
    assert line_rows(spark, crashed.file.with_name("lines")) == expected


@pytest.mark.timeout(400)
def test_a_job_whose_log_lost_its_newest_records_unnoticed_is_stopped_by_what_its_sinks_have_published(
    crashed: Crashed, spark: SparkSession, expected: Rows
) -> None:
    def committed() -> list[Path]:
        return list(crashed.file.parent.glob("*/_streamjob/committed/*.json"))

    life = Life(file=crashed.file, location=str(crashed.location), name="purchases")
    with running(spark, replace(life, overrides=("checkpointing.interval=400ms",))) as job:
        job.wait_for(lambda: bool(committed()), "published output")
        assert job.stop() is ExitCode.OK
    published = max(int(record.name.partition("-")[0]) for record in committed())
    records = sorted(crashed.path("log").iterdir())
    named = {
        fields["id"]: fields["manifest"] for fields in map(json.loads, map(Path.read_text, records)) if "id" in fields
    }
    for record in records:
        if json.loads(record.read_text())["lastId"] >= published:
            record.unlink()
            crashed.path(f"log-copies/{record.name}").unlink(missing_ok=True)
    output = {path: content for path, content in crashed.files().items() if "/log" not in path}

    for _ in range(2):
        code, told = crashed.run()
        assert code == CANNOT_RESTORE, told
        assert f"has published checkpoint {published}, and the log at " in told
        assert f"--newest {named[published]} --yes" in told
        assert {path: content for path, content in crashed.files().items() if "/log" not in path} == output

    code, told = crashed.streamjob("log", "repair", crashed.location, "--newest", named[published], "--yes")
    assert code == 0, told
    finish(spark, life)
    assert table_rows(spark, crashed.file.with_name("table")) == expected
    assert line_rows(spark, crashed.file.with_name("lines")) == expected
