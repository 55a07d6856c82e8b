"""Matches the key columns of an operator with those of its former state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from streamjob.comparison.state_forms import window_in_words
from streamjob.migration.by_name import in_force
from streamjob.migration.state import NotCarried, columns_in_words
from streamjob.migration.widening import same_values, widens
from streamjob.snapshot.state_form import KeyForm, WindowForm

_WITHOUT_ZONE = "timestamp_ntz"


@dataclass(frozen=True, slots=True)
class MatchedKey:
    """A key column of the new state.

    Args:
        place: the place of the former column.
        before: the former column.
        after: the new column.
        window: the new windows if each is the union of several former ones; None if windows stay as they were.
    """

    place: int
    before: KeyForm
    after: KeyForm
    window: WindowForm | None = None


def match_keys(
    before: Sequence[KeyForm], after: Sequence[KeyForm], renames: Mapping[str, str], watermark_us: int | None
) -> tuple[MatchedKey, ...]:
    """Return the former column of each key column.

    Args:
        renames: the present name of a column by its former one.
        watermark_us: up to which windows have been closed, in microseconds since 1970; None if none has been.

    Raises:
        NotCarried: other columns, or other values of them, make up the key.
    """
    was, now = ([each.name.lower() for each in keys] for keys in (before, after))
    present = in_force({name.lower(): other.lower() for name, other in renames.items()}, was, now)
    names = [present.get(each, each) for each in was]
    # Also keys of one name, as Spark calls all expressions that have none.
    stay = names == now and len(set(names)) == len(set(was))
    if not stay and (sorted(names) != sorted(now) or len(set(names)) < len(names)):
        raise NotCarried(f"its keys were {columns_in_words(before)}, and are {columns_in_words(after)}")
    places = range(len(now)) if stay else map(names.index, now)
    return tuple(_matched(place, before, each, watermark_us) for place, each in zip(places, after, strict=True))


def _matched(place: int, former: Sequence[KeyForm], after: KeyForm, watermark_us: int | None) -> MatchedKey:
    before = former[place]
    if before.window is not None or after.window is not None:
        if before.window is None or after.window is None:
            raise NotCarried(f"its key {after.name!r} {'is now' if before.window is None else 'was'} a window")
        if before.window == after.window:
            return MatchedKey(place, before, after)
        if before.type != after.type or _WITHOUT_ZONE in after.type:
            raise NotCarried(
                f"its windows were of type {before.type}, and are other ones of type {after.type}: only those of a "
                "timestamp with a time zone are put together"
            )
        _check_union(before.window, after.window, watermark_us)
        return MatchedKey(place, before, after, after.window)
    if not widens(before.type, after.type):
        raise NotCarried(f"its key {after.name!r} was of type {before.type}, and is of type {after.type}")
    if before.of and after.of:
        _check_values(before, after)
    return MatchedKey(place, before, after)


def _check_values(before: KeyForm, after: KeyForm) -> None:
    """Refuse a key that has other values than its former column for one row of the input."""
    if not widens(before.of or "", after.of or ""):
        raise NotCarried(
            f"its key {after.name!r} was made of a column of type {before.of}, and is of one of type {after.of}"
        )
    changed = (before.of, before.type) != (after.of, after.type)
    if changed and all(each.plain and widens(each.of or "", each.type) for each in (before, after)):
        # Both are the column itself, cast to types that have all its values.
        return
    if before.of != after.of:
        raise NotCarried(
            f"its key {after.name!r} is computed from a column that was of type {before.of}, and is of type "
            f"{after.of}: whether its values are the same ones cannot be seen"
        )
    if before.samples and after.samples:
        if not same_values(before.type, after.type, before.samples, after.samples):
            was, now = next(each for each in zip(before.samples, after.samples, strict=False) if each[0] != each[1])
            raise NotCarried(f"its key {after.name!r} is computed in another way: where it was {was!r}, it is {now!r}")
    elif before.type != after.type:
        raise NotCarried(
            f"its key {after.name!r} was of type {before.type}, and is of type {after.type} although it is made of the "
            "same column: whether its values are the same ones cannot be seen"
        )


def _check_union(before: WindowForm, after: WindowForm, watermark_us: int | None) -> None:
    changed = f"its windows were {window_in_words(before)}, and are {window_in_words(after)}"
    tumbling = before.slide_us == before.size_us and after.slide_us == after.size_us
    if not tumbling or after.size_us % before.size_us or (after.start_us - before.start_us) % before.size_us:
        raise NotCarried(f"{changed}: only windows that are made up of former ones can follow from them")
    if watermark_us is None:
        return
    closed = watermark_us - (watermark_us - before.start_us) % before.size_us
    if (closed - after.start_us) % after.size_us:
        begin = closed - (closed - after.start_us) % after.size_us
        raise NotCarried(
            f"{changed}, and those from {_instant(begin)} to {_instant(closed)} are closed already: their rows would "
            "be missing in a new one. Take the snapshot while the watermark is in the first former window of a new one"
        )


def _instant(microseconds: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)).isoformat().replace("+00:00", "Z")
