from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamjob_operator.decisions.schedule import BadSchedule, next_time


def after(schedule: str, last: str) -> str | None:
    due = next_time(schedule, datetime.fromisoformat(last).replace(tzinfo=UTC).timestamp())
    return None if due is None else datetime.fromtimestamp(due, UTC).strftime("%Y-%m-%d %H:%M:%S")


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


def test_a_day_that_does_not_exist_is_never_due() -> None:
    assert after("0 0 31 2 *", "2026-11-21 00:00:00") is None


@pytest.mark.parametrize("schedule", ["60 * * * *", "* 24 * * *", "* * 0 * *", "a * * * *", "* * * *", "*/0 * * * *"])
def test_what_is_no_schedule_is_refused_with_the_part_that_is_wrong(schedule: str) -> None:
    with pytest.raises(BadSchedule):
        next_time(schedule, 0)
