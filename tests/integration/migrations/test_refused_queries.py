"""An author's query that does not make the new state is refused, and nothing is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.migrations.events import STATES
from tests.integration.migrations.lives import Lives, files_of, published
from tests.integration.migrations.queries import BASES
from tests.integration.runtime.embedded import running

from streamjob_runtime.migrating.applying import KeysMerged
from streamjob_runtime.migrating.transforming import MigrationQueryRefused

pytestmark = [pytest.mark.spark, pytest.mark.slow]

THEN = BASES["grouped without window"]
NOW = replace(THEN, keys=THEN.keys[1:])
QUERIES = {
    "SELECT * EXCEPT (k, max_4) FROM state": "it returns (i, f, d, day, count, ",
    "SELECT * FROM state": "it returns (k, i, f, d, day, count, ",
    "SELECT * EXCEPT (k, count), count / 1 AS count FROM state": "its count is of type double",
    "SELECT * EXCEPT (keys) FROM state": "cannot be used: [",
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_that_returns_other_columns_is_refused(lives: Lives, tmp_path: Path, query: str) -> None:
    stopped = lives.before(THEN, STATES["half full"])
    life = lives.after(stopped, tmp_path, replace(NOW, migrate=query))

    with pytest.raises(MigrationQueryRefused) as refusal:
        lives.check(life, stopped, tmp_path)
    assert QUERIES[query] in str(refusal.value)
    with running(lives.spark, life) as job, pytest.raises(MigrationQueryRefused):
        job.wait()
    assert published(tmp_path, NOW) == []


def test_a_query_that_returns_two_rows_for_a_key_is_refused(lives: Lives, tmp_path: Path) -> None:
    stopped = lives.before(THEN, STATES["half full"])
    before = files_of(stopped.directory)
    twice = "SELECT * EXCEPT (k) FROM state UNION ALL SELECT * EXCEPT (k) FROM state"
    life = lives.after(stopped, tmp_path, replace(NOW, migrate=twice))

    with running(lives.spark, life) as job, pytest.raises(KeysMerged, match=r"6 rows .* were written, and 3 are there"):
        job.wait()
    assert files_of(stopped.directory) == before
    assert published(tmp_path, NOW) == []
