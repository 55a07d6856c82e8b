"""A query changes, and so does the number of partitions of its state: both at one start."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.migrations.cells import BY_NAME
from tests.integration.migrations.events import STATES
from tests.integration.migrations.lives import Lives, difference, final, published

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CHOSEN = (
    "window: all of it at once",
    "session: aggregates are added",
    "window: a key is removed, with a query",
    "`max_by` in a window: keys are reordered",
    "grouped without window: a key: `FLOAT` to `DOUBLE`",
    "`dropDuplicates`: a key: `INT` to `BIGINT`",
    "`dropDuplicatesWithinWatermark`: a key column is renamed, with `renames`",
    "stream-stream join: a value column is removed",
    "outer join: a key: `DATE` to `TIMESTAMP`",
    "`applyInPandasWithState`: a state variable is added",
    "`transformWithState`: a state variable is removed",
)


@pytest.mark.parametrize("partitions", [3, 5])
@pytest.mark.parametrize("name", CHOSEN)
def test_a_changed_query_goes_on_with_another_number_of_partitions(
    lives: Lives, tmp_path: Path, name: str, partitions: int
) -> None:
    cell = BY_NAME[name]
    stopped = lives.before(cell.then, STATES["half full"])
    lives.run(lives.after(stopped, tmp_path, cell.now, partitions=partitions))

    assert difference(lives.expected(stopped, cell.now), final(cell.now, published(tmp_path, cell.now))) == ""
