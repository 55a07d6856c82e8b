"""Plans the migration of an operator's state: by inference from both forms, or by the author's query."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from streamjob.comparison.state_forms import arguments, differences
from streamjob.migration import kinds
from streamjob.migration.aggregates import match_aggregates, merged
from streamjob.migration.keys import MatchedKey, match_keys
from streamjob.migration.state import (
    Column,
    Family,
    FamilyMigration,
    KeptState,
    Migration,
    NotCarried,
    Wishes,
    columns_in_words,
)
from streamjob.migration.tables import tables_of
from streamjob.migration.variables import TTL
from streamjob.migration.widening import cast, rounded_keys
from streamjob.snapshot.state_form import StateForm

Planner = Callable[["_Change"], Migration]


@dataclass(frozen=True, slots=True)
class _Change:
    """The change of an operator's state.

    Args:
        watermark_us: up to which windows have been closed, in microseconds since 1970; None if none has been.
        alone: whether no other operator of its query keeps state.
    """

    before: KeptState
    after: KeptState
    wishes: Wishes
    watermark_us: int | None
    alone: bool

    @property
    def forms(self) -> tuple[StateForm, StateForm]:
        return kinds.forms(self.before, self.after)

    def keys(self) -> tuple[MatchedKey, ...]:
        before, after = self.forms
        keys = match_keys(before.keys, after.keys, self.wishes.renames, self.watermark_us)
        if not self.alone and any(each.window is not None for each in keys):
            raise NotCarried(
                "its windows are to be put together, and which of them are closed is only known in a query without "
                "other state"
            )
        return keys


def plan(
    before: KeptState, after: KeptState, wishes: Wishes, watermark_us: int | None, *, alone: bool = True
) -> Migration:
    """Return how the state of a changed operator follows from its former state.

    Args:
        before: the state in the snapshot.
        after: the state that the operator needs.
        wishes: what the author says about it.
        watermark_us: up to which windows have been closed, in microseconds since 1970; None if none has been.
        alone: whether no other operator of its query keeps state, so that the watermark is its own.

    Raises:
        NotCarried: it does not follow; the text says why.
    """
    given = wishes.sql if wishes.of in (None, before.fingerprint) else {}
    if given and (others := given.keys() - tables_of(after).keys()):
        tables = ", ".join(tables_of(after))
        raise NotCarried(f"the queries under `migrate` are to return {', '.join(sorted(others))}, and not its {tables}")
    stored = {each.name for each in after.families}
    for name in given:
        if any(TTL + each.target.name in stored for each in tables_of(after)[name].families):
            raise NotCarried(f"its {name} has a time to live, and no query returns what Spark keeps for that")
    was, now = (_without(each, given) for each in (before, after)) if given else (before, after)
    found = (
        _inferred(_Change(was, now, wishes, watermark_us, alone)) if now.families or not given else Migration((), ())
    )
    if wishes.sql and not given and found.gaps:
        raise NotCarried("; ".join(found.gaps))
    returned = tuple(FamilyMigration(each, None) for each in after.families if each not in now.families)
    said = tuple(f"its {name} is what the query under `migrate` makes of it" for name in given)
    return replace(found, families=(*found.families, *returned), said=(*said, *found.said), sql=given)


def _without(state: KeptState, tables: Collection[str]) -> KeptState:
    """Return state without some of its tables."""
    gone = [each.target for name, table in tables_of(state).items() if name in tables for each in table.families]
    return replace(state, families=tuple(each for each in state.families if each not in gone))


def _inferred(change: _Change) -> Migration:
    before, after = change.before, change.after
    if before.form is not None and after.form is not None and before.form.kind != after.form.kind:
        raise NotCarried(f"it is of the kind {before.form.kind}, and the operator keeps the kind {after.form.kind}")
    kind = "" if after.form is None else after.form.kind
    if kind not in _PLANNERS:
        raise NotCarried(f"state of the kind {kind or after.operator} is carried over only as it is")
    _check_renames(before, change.wishes.renames)
    return _PLANNERS[kind](change)


def _check_renames(before: KeptState, renames: Mapping[str, str]) -> None:
    """Refuse a rename to a key or an argument that the former state had as well: it was done before, and is left over.

    Other columns are matched by name in each table, of which several may have a column of one name.
    """
    there = {each.name.lower() for each in before.form.keys} if before.form else set()
    for aggregate in before.form.aggregates if before.form else ():
        there |= {word.lower() for each in arguments(aggregate) for word in re.findall(r"\w+", each)}
    for former, present in renames.items():
        if {former.lower(), present.lower()} <= there and present not in renames:
            raise NotCarried(
                f"`renames` says that {former!r} is called {present!r} now, and its former state has both: remove what "
                "is left of an earlier change"
            )


def _aggregation(change: _Change) -> Migration:
    before, after = change.forms
    source, target = _only(change.before), _only(change.after)
    keys = change.keys()
    buffers = match_aggregates(
        before.aggregates, after.aggregates, change.wishes.renames, lambda number: f"value.v{number}"
    )
    _check_columns(target.value, buffers.columns, change.after)
    united = any(each.window is not None for each in keys)
    family = FamilyMigration(
        target,
        source,
        tuple(_key(each, "key.k{}") for each in keys),
        tuple(buffers.columns),
        merged(after.aggregates) if united else (),
    )
    return Migration((family,), (*_said(keys), *buffers.said), (*_gaps(keys), *buffers.gaps))


def _sessions(change: _Change) -> Migration:
    before, after = change.forms
    source, target = _only(change.before), _only(change.after)
    keys = change.keys()
    if any(each.window is not None for each in keys):
        raise NotCarried("sessions cannot be put together")
    width = len(before.keys)
    buffers = match_aggregates(
        before.aggregates, after.aggregates, change.wishes.renames, lambda number: f"value.v{width + number}"
    )
    values = [_key(each, "value.v{}") for each in keys]
    _check_columns(target.value, [*values, *buffers.columns], change.after)
    # The key of a session is its other keys and its start.
    of_key = [value for each, value in zip(keys, values, strict=True) if each.after.window is None]
    start = f"key.k{len(source.key) - 1}"
    family = FamilyMigration(target, source, (*of_key, start), (*values, *buffers.columns))
    return Migration((family,), (*_said(keys), *buffers.said), (*_gaps(keys), *buffers.gaps))


def _deduplication(change: _Change) -> Migration:
    source, target = _only(change.before), _only(change.after)
    keys = change.keys()
    if [each.type for each in source.value] != [each.type for each in target.value]:
        raise NotCarried(f"its value was {columns_in_words(source.value)}, and is {columns_in_words(target.value)}")
    values = tuple(f"value.v{number}" for number in range(len(target.value)))
    family = FamilyMigration(target, source, tuple(_key(each, "key.k{}") for each in keys), values)
    return Migration((family,), _said(keys), _gaps(keys))


def _deduplication_within_watermark(change: _Change) -> Migration:
    was, now = (each.model_copy(update={"keys": ()}) for each in change.forms)
    for reason in differences(was, now):
        raise NotCarried(reason)
    return _deduplication(change)


def _join(change: _Change) -> Migration:
    return kinds.join(change.before, change.after, change.wishes.renames)


def _group_state(change: _Change) -> Migration:
    _check_no_windows(change.keys())
    return kinds.group_state(change.before, change.after, change.wishes.renames)


def _variables(change: _Change) -> Migration:
    _check_no_windows(change.keys())
    return kinds.variables(change.before, change.after, change.wishes.renames)


def _check_no_windows(keys: Sequence[MatchedKey]) -> None:
    if any(each.window is not None for each in keys):
        raise NotCarried("what a function keeps for several windows cannot be put together")


_PLANNERS: Mapping[str, Planner] = {
    "aggregation": _aggregation,
    "sessions": _sessions,
    "deduplication": _deduplication,
    "deduplicationWithinWatermark": _deduplication_within_watermark,
    "groupState": _group_state,
    "join": _join,
    "transformWithState": _variables,
}


def _only(state: KeptState) -> Family:
    if len(state.families) != 1:
        raise NotCarried(f"it has {len(state.families)} tables of state")
    return state.families[0]


def _key(key: MatchedKey, place: str) -> str:
    former = place.format(key.place)
    if key.window is None:
        return cast(former, key.before.type, key.after.type)
    size, start = key.window.size_us, key.window.start_us
    of_start = f"unix_micros({former}.start)"
    begin = f"{of_start} - pmod({of_start} - {start}, {size})"
    return f"named_struct('start', timestamp_micros({begin}), 'end', timestamp_micros({begin} + {size}))"


def _said(keys: Sequence[MatchedKey]) -> tuple[str, ...]:
    said = []
    for place, each in enumerate(keys):
        if each.before.name != each.after.name:
            said.append(f"its key {each.before.name!r} is called {each.after.name!r}")
        if each.before.type != each.after.type:
            said.append(f"its key {each.after.name!r} of type {each.before.type} becomes {each.after.type}")
        if each.window is not None:
            said.append(f"its windows are put together to windows of {each.window.size_us / 1_000_000:g} s")
        elif each.place != place:
            said.append(f"its key {each.after.name!r} moves from place {each.place + 1} to {place + 1}")
    return tuple(said)


def _gaps(keys: Sequence[MatchedKey]) -> tuple[str, ...]:
    return tuple(
        rounded_keys(f"its key {each.after.name!r}")
        for each in keys
        if (each.before.type, each.after.type) == ("float", "double")
    )


def _check_columns(columns: Sequence[Column], expressions: Sequence[str], state: KeptState) -> None:
    if len(columns) != len(expressions):
        raise NotCarried(
            f"Spark keeps {len(columns)} columns for its {state.operator}, and its form tells of {len(expressions)}"
        )
