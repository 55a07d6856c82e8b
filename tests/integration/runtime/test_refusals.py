"""Refused starts: each ends with a clear error and its own exit code, and changes nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import Life, running
from tests.integration.runtime.processes import PROGRAM, JobRuns
from tests.integration.runtime.purchases import Purchases, write_job

from streamjob.errors import ExitCode, StreamJobError
from streamjob.ids import Attempt, Owner
from streamjob.protocol.log.ownership import Identity, claim_log
from streamjob.protocol.log.records import JobId
from streamjob.snapshot.record import LogRecord
from streamjob.snapshot.sealing import CHECKSUM, sealed
from streamjob.store import LocalStore
from streamjob.store.effects import drive
from streamjob_runtime.checkpointing.ledger import RestoreFrom

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

INVALID, CANNOT_RESTORE, SUPERSEDED = 2, 3, 4


@pytest.fixture(scope="module")
def stopped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> JobRuns:
    """A job that was stopped on its way; all its checkpoints are kept."""
    directory = tmp_path_factory.mktemp("stopped")
    purchases = Purchases.write(directory / "input", files=12, rows=40)
    file = write_job(directory / "job", purchases.job())
    overrides = ("checkpointing.interval=1h", "checkpointing.numRetained=100")
    runs = JobRuns(file, directory / "snapshots", "purchases")
    life = Life(file=file, location=str(directory / "snapshots"), name="purchases", overrides=overrides)
    with running(spark, life) as job:
        for _ in range(2):
            job.wait_for_batches(2)
            job.checkpoint()
        job.wait_for_batches()
        assert job.stop() is ExitCode.OK
    return runs


@dataclass(frozen=True)
class Copy:
    """A copy of the stopped job's store and file, to be damaged."""

    root: Path
    file: Path
    location: Path

    @property
    def log(self) -> list[Path]:
        return sorted((self.root / "log").glob("*.json"))

    def completions(self) -> list[LogRecord]:
        records = [LogRecord.model_validate_json(file.read_bytes()) for file in self.log]
        return [record for record in records if record.completes]

    def manifest_file(self, position: int = -1) -> Path:
        return self.root / str(self.completions()[position].manifest)

    def manifest(self, position: int = -1) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.manifest_file(position).read_bytes())
        return content

    def pieces(self, position: int) -> set[tuple[str, int, int]]:
        """Return object, offset and length of the files that a checkpoint refers to; files of no bytes are left out."""
        files = [file for chain in self.manifest(position)["chains"] for file in chain["files"]]
        return {(file["object"], file.get("offset", 0), file["length"]) for file in files if file["length"]}

    def objects(self, position: int) -> set[str]:
        """Return the objects that a checkpoint refers to."""
        return {name for name, _, _ in self.pieces(position)}

    def only_in_newest(self) -> Path:
        """Return an object that the newest checkpoint needs, and no older one does."""
        older = {name for number in range(len(self.completions()) - 1) for name in self.objects(number)}
        return self.root / min(self.objects(-1) - older)

    def start(self, spark: SparkSession, **life: Any) -> tuple[int, str]:
        """Start the job, which must not get far; return the exit code and what is said."""
        given = {"file": self.file, "location": str(self.location), "name": "purchases", **life}
        with running(spark, Life(**given)) as job, pytest.raises(StreamJobError) as refused:
            job.wait()
        return int(refused.value.exit_code), str(refused.value)

    def run(self, *arguments: str) -> tuple[int, str]:
        """Start the job as a process; return its exit code and output."""
        places = ["--location", str(self.location), "--workdir", str(self.file.parent / "work")]
        command = [str(PROGRAM), "run", str(self.file), *places]
        done = subprocess.run(
            [*command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def copy(stopped: JobRuns, tmp_path: Path) -> Copy:
    location = tmp_path / "snapshots"
    shutil.copytree(stopped.root.parents[1], location)
    shutil.copytree(stopped.file.parent, tmp_path / "job", ignore=shutil.ignore_patterns("work"))
    return Copy(location / "default" / "purchases", tmp_path / "job" / "job.yaml", location)


def flip(file: Path, position: int | None = None) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2 if position is None else position] ^= 0xFF
    file.write_bytes(content)


def change(file: Path, **fields: Any) -> None:
    stored = json.loads(file.read_bytes())
    del stored[CHECKSUM]
    file.write_bytes(sealed({**stored, **fields}))


@pytest.mark.core
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda copy: copy.only_in_newest().unlink(), "does not exist"),
        (lambda copy: copy.manifest_file().unlink(), "does not exist"),
        (lambda copy: flip(copy.only_in_newest()), "unusable"),
        (lambda copy: copy.manifest_file().write_text("{}"), "unusable"),
    ],
    ids=["object missing", "manifest missing", "object changed", "manifest unreadable"],
)
def test_a_corrupt_newest_checkpoint_is_reported_with_the_older_one_that_is_whole(
    copy: Copy, spark: SparkSession, damage: Callable[[Copy], None], words: str
) -> None:
    newest, older = copy.completions()[-1], copy.completions()[-2]
    damage(copy)
    kept = copy.completions()

    code, output = copy.start(spark)

    assert code == CANNOT_RESTORE, output
    assert f"checkpoint {newest.id}" in output
    assert words in output
    assert f"checkpoint {older.id} is whole: start with --from {older.manifest}" in output
    assert copy.completions() == kept


def test_a_manifest_of_an_unknown_version_is_refused(copy: Copy, spark: SparkSession) -> None:
    change(copy.manifest_file(), formatVersion=99)

    code, output = copy.start(spark)

    assert code == CANNOT_RESTORE, output
    assert "99" in output


def test_a_record_of_an_unknown_version_is_refused(copy: Copy, spark: SparkSession) -> None:
    change(copy.log[-1], formatVersion=99)

    code, output = copy.start(spark)

    assert code == CANNOT_RESTORE, output
    assert "99" in output
    assert copy.log[-1].name in output


def test_a_location_of_another_job_is_refused(copy: Copy, spark: SparkSession) -> None:
    copy.root.rename(copy.root.with_name("sales"))

    code, output = copy.start(spark, name="sales")

    assert code in (INVALID, CANNOT_RESTORE), output
    assert "default/purchases" in output
    assert "default/sales" in output


def test_the_output_of_another_job_is_refused(copy: Copy, spark: SparkSession) -> None:
    code, output = copy.start(spark, name="sales")

    assert code == INVALID, output
    assert "belongs to sink table of job default/purchases" in output


def test_state_without_a_place_is_refused_until_it_is_given_up(copy: Copy, spark: SparkSession) -> None:
    job = json.loads(copy.file.read_text())
    job["operators"][1]["uid"] = "sums"
    copy.file.write_text(json.dumps(job))

    code, output = copy.start(spark)

    assert code == CANNOT_RESTORE, output
    assert "has state for totals" in output
    assert "--allow-non-restored-state" in output


def test_a_snapshot_that_is_required_must_be_there(copy: Copy, spark: SparkSession, tmp_path: Path) -> None:
    required = RestoreFrom(require_snapshot=True)

    code, output = copy.start(spark, location=str(tmp_path / "empty"), restore_from=required)

    assert code == CANNOT_RESTORE, output
    assert "a snapshot is required" in output


def test_an_older_checkpoint_that_shares_the_damaged_object_is_not_offered(copy: Copy, spark: SparkSession) -> None:
    # An object may hold files of older checkpoints only, besides those that are shared.
    shared = min(copy.pieces(-1) & copy.pieces(-2))
    name, offset, length = shared
    flip(copy.root / name, offset + length // 2)
    whole = [n for n in range(len(copy.completions())) if shared not in copy.pieces(n)]
    offer = f"checkpoint {copy.completions()[whole[-1]].id} is whole" if whole else "no older completion is whole"

    code, output = copy.start(spark)

    assert code == CANNOT_RESTORE, output
    assert offer in output


def test_a_lower_attempt_than_the_last_claims_is_superseded(copy: Copy) -> None:
    job = JobId("default", "purchases")
    drive(LocalStore(copy.root), claim_log(Identity(job=job, owner=Owner("another"), attempt=Attempt(7)), 0.0))
    log = copy.log

    code, output = copy.run("--attempt", "6")

    assert code == SUPERSEDED, output
    assert "attempt 7" in output
    assert copy.log == log


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (
            "spark.driver.extraJavaOptions=-agentlib:nothing",
            "Java refuses its options: Could not find agent",
        ),
        ("spark.memory.fraction=much", "Spark refuses its settings: "),
    ],
)
def test_a_spark_that_cannot_start_is_invalid_input_without_a_restart(copy: Copy, setting: str, words: str) -> None:
    name, _, value = setting.partition("=")
    job = json.loads(copy.file.read_text())
    copy.file.write_text(json.dumps({**job, "sparkConf": {**job.get("sparkConf", {}), name: value}}))

    code, output = copy.run()

    assert code == INVALID, output
    assert words in output
    assert "The job failed" not in output


def test_a_package_that_no_repository_has_is_named_without_a_restart(copy: Copy, tmp_path: Path) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="empty"/><resolvers><filesystem name="empty" m2compatible="true">'
        f'<artifact pattern="{tmp_path}/[artifact]-[revision].[ext]"/></filesystem></resolvers></ivysettings>'
    )
    job = json.loads(copy.file.read_text())
    packages = {"spark.jars.packages": "no.group:none_2.13:1.0", "spark.jars.ivySettings": str(settings)}
    copy.file.write_text(json.dumps({**job, "sparkConf": {**job.get("sparkConf", {}), **packages}}))

    code, output = copy.run()

    assert code == INVALID, output
    assert "No repository has no.group:none_2.13:1.0" in output
    assert "memory" not in output.partition("fix:")[2]


def test_a_process_says_what_is_wrong_and_ends_with_the_code_of_it(copy: Copy) -> None:
    copy.only_in_newest().unlink()

    code, output = copy.run()

    assert code == CANNOT_RESTORE, output
    assert "does not exist" in output
    assert f"checkpoint {copy.completions()[-2].id} is whole" in output
    assert "Traceback" not in output
