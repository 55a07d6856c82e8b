from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob.savepoint_schedule import BadSchedule, next_time


def after(schedule: str, last: str) -> str:
    due = next_time(schedule, datetime.fromisoformat(last).replace(tzinfo=UTC).timestamp())
    return datetime.fromtimestamp(due, UTC).strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("schedule", "last", "due"),
    [
        ("6h", "2026-11-21 05:00:00", "2026-11-21 11:00:00"),
        ("1h30m", "2026-11-21 05:00:00", "2026-11-21 06:30:00"),
        ("* * * * *", "2026-11-21 05:00:30", "2026-11-21 05:01:00"),
        ("* * * * *", "2026-11-21 05:01:00", "2026-11-21 05:02:00"),
        ("30 2 * * *", "2026-11-21 02:30:00", "2026-11-22 02:30:00"),
        ("*/15 9-17 * * mon-fri", "2026-11-20 17:45:00", "2026-11-23 09:00:00"),
        ("0 0 1,15 * *", "2026-11-02 00:00:00", "2026-11-15 00:00:00"),
        ("0 0 29 feb *", "2026-11-21 00:00:00", "2028-02-29 00:00:00"),
        ("0 0 * * 0", "2026-11-21 00:00:00", "2026-11-22 00:00:00"),
        ("0 0 * * 7", "2026-11-21 00:00:00", "2026-11-22 00:00:00"),
        ("0 0 13 * fri", "2026-11-14 00:00:00", "2026-11-20 00:00:00"),
        ("5/20 * * * *", "2026-11-21 05:25:00", "2026-11-21 05:45:00"),
    ],
)
def test_the_next_time_is_the_first_that_the_fields_allow(schedule: str, last: str, due: str) -> None:
    assert after(schedule, last) == due


@pytest.mark.parametrize("schedule", ["0 0 31 2 *", "0 0 30,31 feb *", "0 0 31 4,6,9,11 *", "0 0 */31 * mon#2"])
def test_a_schedule_that_never_fires_is_refused_as_such(schedule: str) -> None:
    with pytest.raises(BadSchedule, match="never fires"):
        next_time(schedule, 1_800_000_000)


@pytest.mark.parametrize(
    "schedule",
    [
        *("60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "a * * * *", "* * * *", "*/0 * * * *"),
        *("0 0 0 * * *", "5-3 * * * *", "1//2 * * * *", "999999999999d", "0", "0s", "often", "", "1,*" * 60),
    ],
)
def test_what_is_no_schedule_is_refused_with_the_part_that_is_wrong(schedule: str) -> None:
    with pytest.raises(BadSchedule):
        next_time(schedule, 0)


@given(st.lists(st.text("0123456789*/-,#LWmonfebsat", max_size=12), min_size=5, max_size=5), st.floats(0, 2.5e11))
def test_any_five_fields_are_due_later_or_refused(fields: list[str], last: float) -> None:
    with contextlib.suppress(BadSchedule):
        assert next_time(" ".join(fields), last) > last
