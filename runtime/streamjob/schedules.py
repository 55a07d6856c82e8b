"""Computes when something scheduled is due next, from a duration or from cron's five fields.

The controller asks, and takes savepoints (`streamjob_operator.decisions.shared.requests`) and begins runs
(`streamjob_operator.decisions.shared.runs`).
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from streamjob.durations import parse_duration

LONGEST = 128
"""Maximum length of a schedule in characters."""
_FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
_NEVER = "never fires within 50 years; name a day that its months have"
_BAD_DAY = "Bad day-of-month"


class BadSchedule(ValueError):
    """The text is neither a duration nor five cron fields that ever fire; the message names the wrong part."""


def next_time(schedule: str, last: float, time_zone: str | None = None) -> float:
    """Return when a schedule is due next, in seconds since 1970. Searches 50 years ahead, which takes milliseconds.

    As in cron, if both day fields are given, a day matches either of them.

    Args:
        schedule: a duration like `6h`, or `minute hour day-of-month month day-of-week`.
        last: when the schedule last fired, in seconds since 1970.
        time_zone: whose clock the fields mean, like `Europe/Berlin`; None for UTC.

    Raises:
        BadSchedule: it is neither, is longer than `LONGEST`, or never fires, such as on 31 February, or there is no
            such time zone.
    """
    if len(schedule) > LONGEST:
        raise BadSchedule(f"the schedule has {len(schedule)} characters; the most is {LONGEST}")
    fields = schedule.split()
    if len(fields) == 1:
        return last + _duration(schedule)
    if len(fields) != len(_FIELDS):
        raise BadSchedule(f"schedule {schedule!r} has {len(fields)} fields; cron has five")
    zone = _zone(time_zone)
    try:
        due = next(CronSim(schedule, datetime.fromtimestamp(last, zone)), None)
    except CronSimError as error:
        if str(error) == _BAD_DAY and _is_valid(f"* * {fields[2]} * *"):
            raise BadSchedule(f"schedule {schedule!r} {_NEVER}") from None
        raise BadSchedule(f"schedule {schedule!r}: {error}") from None
    except (OverflowError, OSError):
        raise BadSchedule(f"schedule {schedule!r} is not due before the year 10000") from None
    if due is None:
        raise BadSchedule(f"schedule {schedule!r} {_NEVER}")
    return due.timestamp()


def check_cron(cron: str, time_zone: str | None = None) -> None:
    """Check that a text is cron's five fields, as `next_time` takes them.

    Raises:
        BadSchedule: it is not, or is one that `next_time` refuses.
    """
    if len(cron.split()) != len(_FIELDS):
        raise BadSchedule(f"{cron!r} is not a time: write minute, hour, day of month, month and day of week")
    next_time(cron, 0.0, time_zone)


def _duration(schedule: str) -> float:
    try:
        found = parse_duration(schedule)
    except ValueError as error:
        raise BadSchedule(str(error)) from None
    if found <= 0:
        raise BadSchedule(f"schedule {schedule!r} leaves no time between two savepoints; write it like 6h")
    return found


def _zone(name: str | None) -> tzinfo:
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # A name may also be one of a directory, such as Europe.
        raise BadSchedule(f"there is no time zone {name!r}; write it like Europe/Berlin") from None


def _is_valid(schedule: str) -> bool:
    try:
        CronSim(schedule, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError:
        return False
    return True
