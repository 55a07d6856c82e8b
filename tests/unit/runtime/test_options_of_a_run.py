"""Options of `streamjob run` that exclude each other are refused before anything starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--available-now", "--standby"], "a standby is asked for with --available-now"),
        (["--available-now", "--with-standby"], "a standby is asked for with --available-now"),
        (["--executors", "2", "--standby"], "a standby is asked for with --executors"),
        (["--available-now", "--wait-for-start"], "--wait-for-start is given with --available-now"),
        (["--standby", "--wait-for-start"], "--wait-for-start is given with --available-now, --executors, --standby"),
        (["--executors", "2", "--parallelism", "4"], "--parallelism is given with --executors"),
    ],
)
def test_a_run_is_refused_whose_options_exclude_each_other(options: list[str], said: str) -> None:
    ran = subprocess.run(
        [Path(sys.executable).with_name("streamjob"), "run", "job.yaml", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert said in ran.stderr
