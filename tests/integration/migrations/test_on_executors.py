"""A query changes, and its job goes on with two executors: another process migrates its state on one disk first."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.core import thorough
from tests.integration.migrations.cells import BY_NAME
from tests.integration.migrations.events import STATES
from tests.integration.migrations.lives import Lives, difference, files_of, final, published
from tests.integration.runtime.processes import job_runs

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[3]
ON_TWO = ("--executors", "2", "--executor-memory", "600m")
LONG = 300.0
CHOSEN = (
    "window: all of it at once",
    "grouped without window: a key is removed, with a query",
    "outer join: a key: `DATE` to `TIMESTAMP`",
    "`applyInPandasWithState`: a state variable gets another type, with a query",
    "`transformWithState`: a state variable is removed",
)


@pytest.mark.parametrize("name", thorough(CHOSEN, "outer join: a key: `DATE` to `TIMESTAMP`"))
def test_a_changed_query_goes_on_with_two_executors(lives: Lives, tmp_path: Path, name: str) -> None:
    cell = BY_NAME[name]
    stopped = lives.before(cell.then, STATES["half full"])
    file = lives.after(stopped, tmp_path, cell.now).file
    before = files_of(stopped.directory)

    with job_runs(file, tmp_path / "snapshots", "job") as runs:
        start = ("--from", stopped.uri, "--claim-mode", "no-claim", "--available-now")
        last = runs.start(*start, *ON_TWO, environment={"PYTHONPATH": str(ROOT)})
        assert last.wait(LONG) == 0, last.output()
        assert "Migrated the state of 'out'" in last.output()

    assert files_of(stopped.directory) == before
    assert difference(lives.expected(stopped, cell.now), final(cell.now, published(tmp_path, cell.now))) == ""
