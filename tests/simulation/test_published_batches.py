"""Batches that are published at once are there once, and are what a batch over all input gives, whatever crashes."""

from __future__ import annotations

import pytest
from tests.simulation.publishing import INPUTS, lives


@pytest.mark.parametrize("seed", range(300))
def test_each_row_is_published_once_whatever_crashes_sleeps_or_is_stopped(seed: int) -> None:
    world = lives(seed)
    assert sorted(world.target.rows) == [(number, number * (number + 1) // 2) for number in range(INPUTS)]
