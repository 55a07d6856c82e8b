"""When the next scheduled savepoint is due: a duration after the last one, or cron's five fields in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from streamjob.durations import parse_duration

LONGEST = 128
"""Most characters of a schedule."""
_FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
_NEVER = "never fires within 50 years; name a day that its months have"
_BAD_DAY = "Bad day-of-month"


class BadSchedule(ValueError):
    """The text is neither a duration nor five fields of cron that fire; the message says which part is wrong."""


def next_time(schedule: str, last: float) -> float:
    """Return when a schedule is due next, in seconds since 1970. The search ends after 50 years, in milliseconds.

    As in cron, a day is one of the month's days or one of the week's days, where both are given.

    Args:
        schedule: a duration like `6h`, or `minute hour day-of-month month day-of-week`.
        last: when it was last acted on, in seconds since 1970.

    Raises:
        BadSchedule: it is neither, is longer than `LONGEST`, or never fires, such as on the 31st of February.
    """
    if len(schedule) > LONGEST:
        raise BadSchedule(f"the schedule has {len(schedule)} characters; the most is {LONGEST}")
    fields = schedule.split()
    if len(fields) == 1:
        return last + _duration(schedule)
    if len(fields) != len(_FIELDS):
        raise BadSchedule(f"schedule {schedule!r} has {len(fields)} fields; cron has five")
    try:
        due = next(CronSim(schedule, datetime.fromtimestamp(last, UTC)), None)
    except CronSimError as error:
        if str(error) == _BAD_DAY and _is_valid(f"* * {fields[2]} * *"):
            raise BadSchedule(f"schedule {schedule!r} {_NEVER}") from None
        raise BadSchedule(f"schedule {schedule!r}: {error}") from None
    except (OverflowError, OSError):
        raise BadSchedule(f"schedule {schedule!r} is not due before the year 10000") from None
    if due is None:
        raise BadSchedule(f"schedule {schedule!r} {_NEVER}")
    return due.timestamp()


def _duration(schedule: str) -> float:
    try:
        found = parse_duration(schedule)
    except ValueError as error:
        raise BadSchedule(str(error)) from None
    if found <= 0:
        raise BadSchedule(f"schedule {schedule!r} leaves no time between two savepoints; write it like 6h")
    return found


def _is_valid(schedule: str) -> bool:
    try:
        CronSim(schedule, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError:
        return False
    return True
