"""A process that is killed while it migrates state leaves nothing harmful, and the next one does it again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.integration.core import thorough
from tests.integration.migrations.cells import BY_NAME
from tests.integration.migrations.events import STATES
from tests.integration.migrations.lives import Lives, difference, files_of, final, published
from tests.integration.runtime.killing import killer
from tests.integration.runtime.processes import job_runs

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[3]
STEPS = {
    "before it is planned": "streamjob_runtime.restoring.state_changes Changes.plan 0",
    "before it is written": "streamjob_runtime.migrating.applying _write 0",
    "before it is put in place": "streamjob_runtime.migrating.applying put_state 0",
    "before it is verified": "streamjob_runtime.migrating.applying _read 1",
}
"""The step before which the process is killed."""
WINDOW = "window: all of it at once"
CHOSEN = (WINDOW, "outer join: a key: `DATE` to `TIMESTAMP`", "`transformWithState`: a state variable is removed")
KILLS = [(name, step) for name in CHOSEN for step in STEPS]


@pytest.mark.parametrize(("name", "step"), thorough(KILLS, (WINDOW, "before it is verified")))
def test_a_start_that_is_killed_on_the_way_is_done_again(lives: Lives, tmp_path: Path, name: str, step: str) -> None:
    cell = BY_NAME[name]
    stopped = lives.before(cell.then, STATES["half full"])
    file = lives.after(stopped, tmp_path, cell.now).file
    before = files_of(stopped.directory)

    with job_runs(file, tmp_path / "snapshots", "job") as runs:
        start = ("--from", stopped.uri, "--claim-mode", "no-claim", "--available-now")
        paths = {"PYTHONPATH": os.pathsep.join((*killer(tmp_path).values(), str(ROOT)))}
        killed = runs.start(*start, environment={**paths, "KILLED_AT": STEPS[step]})
        assert killed.wait() == -signal.SIGKILL, killed.output()
        assert published(tmp_path, cell.now) == []
        again = runs.start(*start, environment=paths)
        assert again.wait() == 0, again.output()

    assert files_of(stopped.directory) == before
    assert difference(lives.expected(stopped, cell.now), final(cell.now, published(tmp_path, cell.now))) == ""
