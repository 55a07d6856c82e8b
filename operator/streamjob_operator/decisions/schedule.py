"""When the next scheduled savepoint is due: a duration after the last one, or cron's five fields in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dateutil.rrule import DAILY, rrule, rruleset  # type: ignore[import-untyped]

from streamjob.durations import parse_duration

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_HORIZON = timedelta(days=366 * 8)
"""The 29th of February is never further away than this."""


class BadSchedule(ValueError):
    """The text is neither a duration nor five fields of cron; says which part is wrong."""


def next_time(schedule: str, last: float) -> float | None:
    """Return when a schedule is due next; None for one that never is, such as the 31st of February.

    As in cron, a day is one of the month's days or one of the week's days, where both are given.

    Args:
        schedule: a duration like `6h`, or `minute hour day-of-month month day-of-week`.
        last: when it was last acted on, in seconds since 1970.

    Raises:
        BadSchedule: it is neither.
    """
    fields = schedule.split()
    if len(fields) == 1:
        return last + parse_duration(schedule)
    if len(fields) != 5:
        raise BadSchedule(f"schedule {schedule!r} has {len(fields)} fields; cron has five")
    minutes, hours = _field(fields[0], 0, 59), _field(fields[1], 0, 23)
    month_days, months = _field(fields[2], 1, 31), _field(fields[3], 1, 12, _MONTHS, first=1)
    # Sunday is 0 and 7 in cron, and the last day of the week for dateutil.
    week_days = {(day - 1) % 7 for day in _field(fields[4], 0, 7, _DAYS)}
    after = datetime.fromtimestamp(last, UTC).replace(tzinfo=None)
    start = after.replace(hour=0, minute=0, second=0, microsecond=0)

    def rule(by_month_day: set[int] | None, by_week_day: set[int] | None) -> rrule:
        return rrule(
            DAILY,
            dtstart=start,
            until=start + _HORIZON,
            bymonth=sorted(months),
            bymonthday=None if by_month_day is None else sorted(by_month_day),
            byweekday=None if by_week_day is None else sorted(by_week_day),
            byhour=sorted(hours),
            byminute=sorted(minutes),
            bysecond=0,
        )

    rules = rruleset()
    any_month_day, any_week_day = fields[2].startswith("*"), fields[4].startswith("*")
    if any_month_day or any_week_day:
        rules.rrule(rule(month_days, week_days))
    else:
        rules.rrule(rule(month_days, None))
        rules.rrule(rule(None, week_days))
    due = rules.after(after)
    return None if due is None else due.replace(tzinfo=UTC).timestamp()


def _field(text: str, lowest: int, highest: int, names: tuple[str, ...] = (), first: int = 0) -> set[int]:
    values: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            low, high = lowest, highest
        else:
            start, dash, end = span.partition("-")
            low = _value(start, names, first)
            high = _value(end, names, first) if dash else highest if step else low
        if not (lowest <= low <= high <= highest) or (step and not (step.isdecimal() and int(step) > 0)):
            raise BadSchedule(f"{part!r} is not within {lowest} to {highest}")
        values.update(range(low, high + 1, int(step or 1)))
    return values


def _value(text: str, names: tuple[str, ...], first: int) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + first
    if not text.isdecimal():
        raise BadSchedule(f"{text!r} is no number" + (f" and none of {', '.join(names)}" if names else ""))
    return int(text)
