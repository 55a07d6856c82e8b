"""Objects that were read go into an archive or are deleted, each once, and only when no checkpoint needs them."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.integration.runtime.killing import killer
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.test_names_of_files import write
from tests.integration.runtime.test_objects_that_arrive import OF_AN_OBJECT, Job, job_of, put
from tests.integration.sinks.buckets import Bucket

from streamjob.store.base import ObjectMissing

pytestmark = [pytest.mark.spark, pytest.mark.slow]

STEPS = ("_copy", "_delete", "__call__", "_delete")


def keys(bucket: Bucket, folder: str) -> dict[str, bytes]:
    """Return the objects below a folder; one may go between the listing and its reading."""
    found = {}
    for each in bucket.objects.list(folder):
        with contextlib.suppress(ObjectMissing):
            found[each.key.removeprefix(folder)] = bucket.objects.get(each.key)
    return found


def content(first: int) -> bytes:
    return "".join(f'{{"id": {each}}}\n' for each in range(first, first + OF_AN_OBJECT)).encode()


def retain(job: Job, checkpoints: int) -> None:
    described = json.loads(job.runs.file.read_text())
    described["checkpointing"]["numRetained"] = checkpoints
    job.runs.file.write_text(json.dumps(described))


@pytest.mark.server
@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_each_object_comes_into_the_archive_once_however_often_the_job_is_killed(
    bucket: Bucket, tmp_path: Path
) -> None:
    """Before a copy, between copy and deletion, before the look at an object, and at random."""
    chance = random.Random(7)
    environment = {**bucket.server.environment, **killer(tmp_path)}
    written: dict[str, bytes] = {}

    def arrive(job: Job) -> None:
        for _ in range(chance.randint(2, 6)):
            number = len(written)
            put(bucket, f"day={number % 3}/a b+{number}.json", number * OF_AN_OBJECT)
            written[f"day={number % 3}/a b+{number}.json"] = content(number * OF_AN_OBJECT)

    with job_of(bucket, tmp_path, "id BIGINT, day INT", archiveTo=f"{bucket.path}/done") as job:
        retain(job, 2)
        put(bucket, "day=0/a b+0.json", 0)
        written["day=0/a b+0.json"] = content(0)
        for step in (*STEPS, "", ""):
            at = f"streamjob_runtime.discovery.after_reading BucketRemover.{step} {chance.randint(0, 3)}"
            process = job.runs.start(environment={**environment, **({"KILLED_AT": at} if step else {})})
            arrive(job)
            if step:
                process.wait()
            else:
                job.wait_for_rows(OF_AN_OBJECT * (len(written) - 1), process)
                time.sleep(chance.uniform(0, 2))
            process.kill()
            there = keys(bucket, "in/")
            published = job.ids()
            # What is not published may not be read yet by a checkpoint.
            assert all(
                key in there for key, rows in written.items() if json.loads(rows.split(b"\n")[0])["id"] not in published
            )
        process = job.start()
        job.wait_for_rows(OF_AN_OBJECT * len(written), process)
        job.wait_for(lambda: not keys(bucket, "in/"), "an empty source", process)
        process.kill()
        assert keys(bucket, "done/") == written
        assert job.ids() == Counter(range(OF_AN_OBJECT * len(written)))


@pytest.mark.server
@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_start_from_the_oldest_retained_checkpoint_finds_all_that_it_has_not_read(
    bucket: Bucket, tmp_path: Path
) -> None:
    with job_of(bucket, tmp_path, archiveTo=f"{bucket.path}/done") as job:
        retain(job, 8)
        process = job.start()
        number = 0
        while number < 40 and (number < 12 or len(keys(bucket, "done/")) < 4):
            put(bucket, f"{number:03}.json", number * OF_AN_OBJECT)
            number += 1
            job.wait_for_rows(number * OF_AN_OBJECT, process)
        process.kill()
        archived = len(keys(bucket, "done/"))
        oldest, manifest = next(
            (each, found) for each in job.runs.completions() if (found := job.runs.manifest(each)) is not None
        )
        position = manifest.sources[0].position
        assert isinstance(position, dict)
        read = int(str(position["files"])) + 1
        assert 4 <= archived <= read < number
        (tmp_path / "other").mkdir()
        start = ["--from", f"{job.runs.root.as_uri()}/{oldest.manifest}", "--claim-mode", "no-claim"]
        with job_of(bucket, tmp_path / "other") as other:
            process = other.start(*start)
            other.wait_for_rows((number - read) * OF_AN_OBJECT, process)
            process.kill()
            assert other.ids() == Counter(range(read * OF_AN_OBJECT, number * OF_AN_OBJECT))


@pytest.mark.server
@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_objects_are_deleted_when_they_are_old_enough_and_a_job_that_finds_none_goes_on(
    bucket: Bucket, tmp_path: Path
) -> None:
    """Its first object after a start has directories like those that are gone."""
    put(bucket, "day=1/0.json", 0)
    with job_of(bucket, tmp_path, "id BIGINT, day INT", deleteAfter="2s") as job:
        process = job.start()
        for number in range(1, 4):
            job.wait_for_rows(number * OF_AN_OBJECT, process)
            put(bucket, f"day=1/{number}.json", number * OF_AN_OBJECT)
        job.wait_for(lambda: not keys(bucket, "in/"), "an empty source", process)
        process.kill()
        process = job.start()
        job.wait_for(lambda: bool(job.runs.completions(2)), "a checkpoint without an object", process)
        put(bucket, "day=2/4.json", 20)
        job.wait_for_rows(25, process)
        process.kill()
        assert job.ids() == Counter(range(25))
        assert {row["day"] for row in job.rows()} == {1, 2}


@pytest.mark.timeout(300)
def test_each_local_file_comes_into_the_archive_once_also_when_the_job_is_killed(tmp_path: Path) -> None:
    """Two checkpoints are retained. It is killed before it moves a file; a start finds the first directory empty."""
    source, archive, output = tmp_path / "in", tmp_path / "done", tmp_path / "out"
    described = {
        "name": "arrivals",
        "checkpointing": {"interval": "300ms", "numRetained": 2},
        "sources": [
            {
                "name": "rows",
                "format": "json",
                "schema": "n STRING, day INT",
                "options": {"path": "in", "archiveTo": "done"},
            }
        ],
        "sinks": [{"name": "out", "input": "rows", "format": "json", "options": {"path": "out"}}],
    }
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(described))
    names = [f"day={number % 2}/{number}.json" for number in range(8)]

    def archived() -> set[str]:
        return {str(each.relative_to(archive)) for each in archive.glob("*/*")}

    def published() -> Counter[str]:
        lines = (line for each in output.glob("*.json") for line in each.read_text().splitlines())
        return Counter(json.loads(line)["n"] for line in lines)

    with job_runs(file, tmp_path / "snapshots", "arrivals") as runs:
        write(source, *names[:4])
        at = "streamjob_runtime.discovery.after_reading DirectoryRemover._move 1"
        process = runs.start(environment={**killer(tmp_path), "KILLED_AT": at})
        for number, name in enumerate(names[4:], 4):

            def is_time(rows: int = number) -> bool:
                # Without further batches there is no further checkpoint.
                return len(published()) >= rows or process.exit_code is not None

            runs.wait(is_time, "rows", process)
            write(source, name)
        process.wait()
        assert len(archived()) < 4
        process = runs.start()
        runs.wait(lambda: archived() == set(names), "all files in the archive", process)
        process.kill()
        process = runs.start()
        write(source, "day=1/later.json")
        runs.wait(lambda: "day=1/later.json" in archived(), "a later file in the archive", process)
        process.kill()
        assert published() == Counter([*names, "day=1/later.json"])
        assert not list(source.glob("*/*"))
