"""The first job of the README runs when its commands are typed as they are printed."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from tests.architecture.documents import blocks

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def hours(directory: Path) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the number of flights and the longest delay by airport and hour, as a batch computes them."""
    delays: dict[tuple[str, str], list[int | None]] = defaultdict(list)
    for file in directory.glob("*.csv"):
        with file.open(newline="") as lines:
            for row in csv.DictReader(lines):
                delay = int(row["dep_delay"]) if row["dep_delay"] else None
                delays[row["origin"], row["scheduled"][:13]].append(delay)
    return {key: (len(each), max(delay for delay in each if delay is not None)) for key, each in delays.items()}


def test_the_commands_of_the_readme_write_a_job_run_it_and_show_its_output(tmp_path: Path) -> None:
    (commands,) = [
        each.text
        for each in blocks()
        if each.document == "README.md" and each.language == "sh" and "streamjob init" in each.text
    ]
    (tmp_path / ".venv").symlink_to(sys.prefix)

    ended = subprocess.run(["bash", "-ec", commands], cwd=tmp_path, capture_output=True, text=True, timeout=200)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    found = {(row["origin"], row["window"]["start"][:13]): (row["flights"], row["longest"]) for row in rows}
    assert len(rows) == len(found)
    assert found == hours(tmp_path / "departures" / "data" / "flights")
