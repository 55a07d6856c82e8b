"""Each sink with each type at its edges: readers find the same value, or no row is staged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.integration.core import core
from tests.integration.matrix.attempts import Attempt, Columns, column_of, differences, frame_of
from tests.integration.matrix.refused import REFUSED_NAMES, REFUSED_TYPES, REFUSED_VALUES
from tests.integration.matrix.targets import TARGETS, World
from tests.integration.matrix.values import NAMES, TYPES, labelled

from streamjob.errors import StreamJobError
from streamjob.job.query.quoting import quoted

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

Worlds = Callable[[], World]


@pytest.fixture
def worlds(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Worlds:
    """Return what makes an empty place for a sink."""
    numbers = iter(range(1000))

    def made() -> World:
        directory = tmp_path / str(next(numbers))
        directory.mkdir()
        return World(spark, directory, request.getfixturevalue)

    return made


def accepted(target: str) -> Columns:
    refused = REFUSED_VALUES.get(target, {})
    return {
        kind: {label: value for label, value in labelled(kind).items() if label not in refused.get(kind, {})}
        for kind in TYPES
        if kind not in REFUSED_TYPES.get(target, {})
    }


@pytest.mark.parametrize("target", core(TARGETS, "json"))
def test_every_reader_finds_every_value_as_it_is(target: str, worlds: Worlds) -> None:
    world, columns = worlds(), accepted(target)
    attempt = Attempt(world, target, frame_of(world, columns))
    attempt.write()

    assert list(differences(target, attempt, columns)) == []


@pytest.mark.parametrize("target", [target for target in TARGETS if REFUSED_TYPES.get(target)])
def test_a_type_that_a_sink_cannot_hold_is_refused_before_the_first_batch(target: str, worlds: Worlds) -> None:
    for kind, words in REFUSED_TYPES[target].items():
        world = worlds()
        attempt = Attempt(world, target, frame_of(world, {kind: labelled(kind)}))
        with pytest.raises(StreamJobError, match=words) as raised:
            attempt.check()
        assert column_of(kind) in str(raised.value)


@pytest.mark.parametrize("target", [target for target in TARGETS if REFUSED_VALUES.get(target)])
def test_a_value_that_a_sink_cannot_hold_is_refused_before_a_row_is_staged(target: str, worlds: Worlds) -> None:
    for kind, values in REFUSED_VALUES[target].items():
        for label, words in values.items():
            world = worlds()
            attempt = Attempt(world, target, frame_of(world, {kind: {label: labelled(kind)[label]}}))
            with pytest.raises((StreamJobError, PySparkException), match=words) as raised:
                attempt.write()
            assert column_of(kind) in str(raised.value)
            assert "out" in str(raised.value)
            assert list(attempt.store.objects) == []


@pytest.mark.parametrize("target", TARGETS)
def test_columns_may_have_any_name(target: str, worlds: Worlds) -> None:
    world, names = worlds(), [name for name in NAMES if name not in REFUSED_NAMES.get(target, {})]
    columns = ", ".join(f"{number} AS {quoted(name)}" for number, name in enumerate(names))
    attempt = Attempt(world, target, world.spark.sql(f"SELECT {columns}").coalesce(1))
    attempt.write()

    for reader, rows in attempt.rows():
        assert rows == [{name: number for number, name in enumerate(names)}], reader


@pytest.mark.parametrize("target", TARGETS)
def test_two_names_that_differ_in_case_only_are_refused_before_the_first_batch(target: str, worlds: Worlds) -> None:
    world = worlds()
    rows = world.spark.createDataFrame([(1, 2, 3)], "id int, twin int, Twin int")

    with pytest.raises(StreamJobError) as raised:
        Attempt(world, target, rows).check()
    assert "twin" in str(raised.value).lower()


@pytest.mark.parametrize("target", [target for target in TARGETS if REFUSED_NAMES.get(target)])
def test_names_that_a_sink_cannot_hold_are_refused_before_the_first_batch(target: str, worlds: Worlds) -> None:
    for name, words in REFUSED_NAMES[target].items():
        world = worlds()
        attempt = Attempt(world, target, world.spark.sql(f"SELECT 1 AS id, 2 AS {quoted(name)}"))
        with pytest.raises(StreamJobError, match=words) as raised:
            attempt.check()
        assert name in str(raised.value)
