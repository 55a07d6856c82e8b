from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob.schedules import BadSchedule, check_cron, next_time


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


@pytest.mark.parametrize(
    ("last", "due"),
    [
        ("2026-11-21 05:00:00", "2026-11-22 01:30:00"),
        ("2026-07-21 05:00:00", "2026-07-22 00:30:00"),
        # On the day on which 2:30 does not exist, and on that on which it comes twice.
        ("2027-03-27 12:00:00", "2027-03-28 01:00:00"),
        ("2026-10-24 12:00:00", "2026-10-25 00:30:00"),
        ("2026-10-25 00:30:00", "2026-10-26 01:30:00"),
    ],
)
def test_a_time_in_a_time_zone_is_one_of_its_clock(last: str, due: str) -> None:
    seconds = datetime.fromisoformat(last).replace(tzinfo=UTC).timestamp()

    found = datetime.fromtimestamp(next_time("30 2 * * *", seconds, "Europe/Berlin"), UTC)

    assert found.strftime("%Y-%m-%d %H:%M:%S") == due


@pytest.mark.parametrize("cron", ["6h", "* * * *", "0 0 31 2 *"])
def test_what_is_no_time_of_cron_is_refused(cron: str) -> None:
    with pytest.raises(BadSchedule):
        check_cron(cron)


@pytest.mark.parametrize("name", ["Europe", "Europe/Bonn", "../etc/passwd", "/etc/localtime", ""])
def test_a_time_zone_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(BadSchedule, match="there is no time zone"):
        next_time("* * * * *", 0, name)


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
