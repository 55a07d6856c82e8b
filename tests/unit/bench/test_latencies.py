"""When a record counts as seen."""

from __future__ import annotations

from typing import Any

import pytest
from bench import batch_latency
from bench.batch_latency import KEYS, WINDOW_SECONDS, Newest

NEXT_WINDOW = WINDOW_SECONDS * 10**9


def test_a_record_is_seen_with_the_first_row_of_its_key_and_window_that_is_not_older(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, other_key, later = 1, 1 + KEYS, 2, 1 + NEXT_WINDOW
    rows = [[], [first], [first, second, later], [other_key]]
    monkeypatch.setattr(batch_latency, "values", lambda _: rows.pop(0))
    consumer: Any = None
    see = Newest(consumer)
    sent = [first, second, other_key]

    assert see(sent) == []
    assert see(sent) == [first]
    assert see([*sent, later]) == [second, later]
    assert see([*sent, later]) == [other_key]
