"""All files of a job's Java except its output are in the work directory, and disappear with a killed process."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

import pytest
from tests.integration.runtime.processes import JobRuns, members_of

from streamjob_runtime.spark import class_data
from streamjob_runtime.spark.process.java import find_java

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def mapped_files(process: int) -> set[Path]:
    """Return the files that a process has in its memory: libraries, archives, performance data."""
    found = set()
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith("/"):
                found.add(Path(fields[5].removesuffix(" (deleted)")))
    return found


@pytest.mark.timeout(600)
def test_a_killed_job_leaves_nothing_in_the_machines_directory_of_temporary_files(runs: JobRuns) -> None:
    own = runs.file.parent
    installed = Path(sys.prefix).resolve()
    shared = {Path(tempfile.gettempdir()).resolve(), Path("/tmp")}
    work = own / "a work directory"
    killed = runs.start(workdir=work.name)
    runs.wait_for_progress(-1, killed)

    mapped = {file for member in members_of(killed.pid) for file in mapped_files(member)}
    killed.kill()

    libraries = [file for file in mapped if file.name.startswith("librocksdbjni")]
    assert libraries
    assert all(file.is_relative_to(work) for file in libraries)
    assert not [
        file
        for file in mapped
        if not file.is_relative_to(own)
        and not file.is_relative_to(installed)
        and any(file.is_relative_to(directory) for directory in shared)
    ]
    archive = class_data.archive(find_java(os.environ, own / "java"), os.environ)
    assert archive in mapped or not archive.exists()
    last = runs.start(workdir=work.name)
    runs.wait_for_claim(1, last)
    assert [each.name for each in work.glob("process-*")] == [f"process-{last.pid}"]
