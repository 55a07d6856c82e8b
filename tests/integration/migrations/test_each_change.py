"""Each change of each query in each state: state is carried over so that the output is right, or nothing starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.core import core, thorough
from tests.integration.migrations.cells import ATTEMPTS, BY_NAME, KEPT, Outcome
from tests.integration.migrations.events import STATES
from tests.integration.migrations.lives import Lives, Stopped, difference, files_of, final, published
from tests.integration.migrations.queries import BASES, OUT, Query
from tests.integration.runtime import graphs
from tests.integration.runtime.embedded import Life, running

from streamjob.comparison.refusals import StateChanged

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CORE = [("window: all of it at once", "half full"), ("session: a key is removed", "half full")]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("operator", thorough(BASES, "window", "outer join"))
def test_an_unchanged_query_goes_on_and_gives_the_rest_of_what_a_batch_gives(
    lives: Lives, tmp_path: Path, operator: str, state: str
) -> None:
    query = BASES[operator]
    stopped = lives.before(query, STATES[state])
    lives.run(lives.after(stopped, tmp_path, query))

    assert difference(lives.expected(stopped, query), final(query, published(tmp_path, query))) == ""


@pytest.mark.parametrize(("name", "state"), core(ATTEMPTS, *CORE, kept=KEPT))
def test_a_changed_query_gives_the_rest_of_what_a_batch_gives_or_does_not_start(
    lives: Lives, tmp_path: Path, name: str, state: str
) -> None:
    cell = BY_NAME[name]
    stopped = lives.before(cell.then, cell.states()[state])
    life = lives.after(stopped, tmp_path, cell.now)
    if cell.today is Outcome.REFUSED:
        assert_refused(lives, stopped, life, cell.now)
        return
    compared = lives.check(life, stopped, tmp_path)
    assert compared.refusals == (), compared.refusals
    verdicts = {each.uid: each.verdict.value for each in compared.findings}
    assert verdicts[OUT] == ("restored" if cell.outcome is Outcome.RESTORED else "migrated")
    lives.run(life)
    assert difference(lives.expected(stopped, cell.now), final(cell.now, published(tmp_path, cell.now))) == ""


@pytest.mark.parametrize("name", [name for name, cell in BY_NAME.items() if cell.today is Outcome.GAP])
def test_a_gap_is_refused_where_none_is_wanted(lives: Lives, tmp_path: Path, name: str) -> None:
    cell = BY_NAME[name]
    stopped = lives.before(cell.then, STATES["half full"])

    assert_refused(lives, stopped, lives.after(stopped, tmp_path, cell.now, strict=True), cell.now)


def assert_refused(lives: Lives, stopped: Stopped, life: Life, query: Query) -> None:
    """Check that both `check` and a start refuse a changed query, and that neither writes anything."""
    place, before = life.file.parent.parent, files_of(stopped.directory)
    compared = lives.check(life, stopped, place)
    assert {each.uid: each.verdict.value for each in compared.findings}[OUT] == "refused", compared.findings
    assert {type(each) for each in compared.refusals} == {StateChanged}
    with running(lives.spark, life) as job, pytest.raises(StateChanged):
        job.wait()
    assert files_of(stopped.directory) == before
    assert published(place, query) == []
    assert graphs.manifests(place / "snapshots" / "default" / "job") == []
