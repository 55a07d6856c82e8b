"""Formats numbers for people, in tables and the terminal view."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

ABSENT = "–"
UNKNOWN = "unknown"

_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_BLOCKS = "▁▂▃▄▅▆▇█"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 31_557_600
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_1_MS = -62_135_596_800_000
_END_OF_TIME_MS = 253_370_764_800_000  # the year 9999: the watermark of a drained or ended input


def first_line(text: str | None) -> str:
    """Return the first line of a message; empty for None."""
    return (text or "").strip().partition("\n")[0]


def count(number: float | None) -> str:
    """Return a whole number with thousands separators; a dash for None."""
    return ABSENT if number is None else f"{number:,.0f}"


def size(number: int) -> str:
    """Return a size in bytes with at most three digits: `980 B`, `1.2 MB`, `14 GB`."""
    value, power = float(number), 0
    while value >= 999.5 and power < len(_BYTE_UNITS) - 1:
        value, power = value / 1000, power + 1
    digits = 0 if power == 0 or value >= 9.95 else 1
    return f"{value:.{digits}f} {_BYTE_UNITS[power]}"


def duration(seconds: float) -> str:
    """Return seconds in a suitable unit: `420 ms`, `1.3 s`, `2m 14s`, `3h 02m`, `4d 6h`, `12.8 y`."""
    if seconds < 0.9995:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE:02d}m"
    if whole < _YEAR:
        return f"{whole // _DAY}d {whole % _DAY // _HOUR}h"
    return f"{whole / _YEAR:.1f} y"


def ago(seconds: float) -> str:
    """Return the time since an event: `just now`, `3 s ago`, `2m 14s ago`."""
    if seconds < 1:
        return "just now"
    return f"{int(seconds)} s ago" if seconds < _MINUTE else f"{duration(seconds)} ago"


def event_time(watermark_ms: int | None) -> str:
    """Return a watermark, in ms since 1970, as a time in UTC; one before the year 1, less a delay, as its beginning."""
    if watermark_ms is None:
        return ABSENT
    if watermark_ms >= _END_OF_TIME_MS:
        return "end of input"
    return f"{_EPOCH + timedelta(milliseconds=max(watermark_ms, _YEAR_1_MS)):%Y-%m-%d %H:%M:%S}"


def lag(lag_ms: int | None, watermark_ms: int | None) -> str:
    """Return a watermark's lag behind the clock, in ms; a dash if it is meaningless.

    It is meaningless for a missing watermark, for one at the end of time, and for one that lags a day or more, whose
    records come from an archive.
    """
    if lag_ms is None or lag_ms >= _DAY * 1000 or event_time(watermark_ms) in (ABSENT, "end of input"):
        return ABSENT
    return duration(lag_ms / 1000)


def percent(share: float) -> str:
    """Return a fraction as a percentage; anything above zero is at least 1 %."""
    return f"{max(1, round(share * 100)) if share > 0 else 0} %"


def bar(share: float, length: int) -> str:
    """Return a bar for a fraction from 0 to 1, padded to `length` characters."""
    filled = round(min(1.0, max(0.0, share)) * length)
    return ("━" * (max(1, filled) if share > 0 else 0)).ljust(length)


def clock_time(seconds: float) -> str:
    """Return seconds since 1970 as a time of day in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}"


def date_time(seconds: float) -> str:
    """Return seconds since 1970 as date and time in UTC."""
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}"


def sparkline(values: Sequence[float]) -> str:
    """Return one block character per value; its height is proportional to the largest value."""
    largest = max(values, default=0.0)
    if largest <= 0:
        return _BLOCKS[0] * len(values)
    return "".join(_BLOCKS[round(max(0.0, value) / largest * (len(_BLOCKS) - 1))] for value in values)
