"""Pairs of queries that chance makes: the second one gives the rest of what a batch gives, or it does not start."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from tests.integration.migrations.events import State, state_by_chance
from tests.integration.migrations.lives import Lives, difference, final, published
from tests.integration.migrations.queries import BASES, Query, windows
from tests.integration.runtime.embedded import running

from streamjob.comparison.refusals import StateChanged

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

POOL = (
    "count(*)",
    "count({v})",
    "sum({v})",
    "avg({v})",
    "max({v})",
    "min({v})",
    "sum({x})",
    "count({x})",
    "avg({x})",
    "max({x})",
    "sum({m})",
    "min({w})",
    "max_by({w}, id)",
    "max_by({v}, id, 2)",
    "size(collect_list({v}))",
    "sort_array(collect_set({w}))",
    "round(stddev({x}), 6)",
)
"""Aggregates. No two read columns of one type with one function."""
DERIVED = {
    "avg({v})": {"sum({v})", "count({v})"},
    "avg({x})": {"sum({x})", "count({x})"},
    "sum({x})": {"avg({x})"},
    "count({x})": {"avg({x})"},
    "sum({v})": {"avg({v})"},
    "count({v})": {"avg({v})"},
}
"""Aggregates whose state follows from that of others."""
OPERATORS = ["window", "session", "grouped without window"]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Query, Query, State]:
    """Return a query, another one, and the input."""
    operator = draw(st.sampled_from(OPERATORS))
    base = BASES[operator]
    before, after = (draw(st.lists(st.sampled_from(POOL), min_size=1, max_size=6, unique=True)) for _ in "ab")
    # Most of it stays, as in life.
    after = draw(st.permutations(list(dict.fromkeys([*draw(st.sets(st.sampled_from(before))), *after[:2]]))))
    then = base.with_aggregates({f"r{number}": text for number, text in enumerate(before)})
    gaps = [
        f"s{number}"
        for number, text in enumerate(after)
        if text not in before and not DERIVED.get(text, {""}) <= set(before)
    ]
    now = base.with_aggregates({f"s{number}": text for number, text in enumerate(after)}, *gaps)
    if operator == "window" and draw(st.booleans()):
        now = replace(now, body=windows("5 minutes", {}).body)
    for column, name in draw(st.sets(st.sampled_from([("i", "j"), ("f", "ff"), ("v", "vv"), ("x", "xx")]))):
        now = now.renamed(column, name)
    now = replace(now, fields={"renames": dict(now.names)} if now.names else {})
    wider = [
        ("i", "BIGINT"),
        ("f", "DOUBLE"),
        ("day", "TIMESTAMP"),
        ("v", "BIGINT"),
        ("x", "DOUBLE"),
        ("m", "DECIMAL(9,3)"),
    ]
    for column, kind in draw(st.sets(st.sampled_from(wider))):
        now = now.widened(column, kind)
    return then, now, state_by_chance(random.Random(draw(st.integers(0, 1 << 30))))


@settings(
    max_examples=10,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(pairs())
def test_a_random_query_gives_the_rest_of_what_a_batch_gives_or_does_not_start(
    lives: Lives, made: tuple[Query, Query, State]
) -> None:
    then, now, state = made
    stopped = lives.before(then, state)
    place = stopped.directory / f"after-{next(lives.numbers)}"
    life = lives.after(stopped, place, now)
    compared = lives.check(life, stopped, place)
    event("refused" if compared.refusals else "carried over")
    if compared.refusals:
        with running(lives.spark, life) as job, pytest.raises(StateChanged):
            job.wait()
        return
    lives.run(life)

    found = final(now, published(place, now))
    assert difference(lives.expected(stopped, now), found) == "", made
