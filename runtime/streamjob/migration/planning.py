"""Plans the migration of an operator's state: by inference from both forms, or by the author's query."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from streamjob.migration.aggregates import match_aggregates, merged, words
from streamjob.migration.by_name import Columns, Draft
from streamjob.migration.keys import MatchedKey, match_keys
from streamjob.migration.kinds import check_parameters, forms, group_state, join, variables
from streamjob.migration.state import Family, FamilyMigration, KeptState, Migration, NotCarried, Wishes
from streamjob.migration.tables import tables_of
from streamjob.migration.variables import TTL

_NOT_ALONE = (
    "its windows are to be put together, and which of them are closed is only known in a query without other state"
)
_OF_A_FUNCTION = "what a function keeps for several windows cannot be put together"


@dataclass(frozen=True, slots=True)
class _Change:
    """The change of an operator's state; for `watermark_us` and `alone` see `plan`."""

    before: KeptState
    after: KeptState
    watermark_us: int | None
    alone: bool
    draft: Draft

    def keys(self, apart: str | None = None) -> tuple[MatchedKey, ...]:
        """Return the former columns of the keys; `apart` says why windows cannot be put together, if so."""
        before, after = forms(self.before, self.after)
        keys = match_keys(before.keys, after.keys, self.draft.renames, self.watermark_us)
        refusal = apart if self.alone else _NOT_ALONE
        if refusal is not None and any(each.window is not None for each in keys):
            raise NotCarried(refusal)
        return keys

    def buffers(self, behind: int = 0) -> list[str]:
        """Return how the buffers of aggregates follow, which stand behind some other columns in the values."""
        before, after = forms(self.before, self.after)
        return match_aggregates(self.draft, before.aggregates, after.aggregates, behind)

    @property
    def table(self) -> tuple[Family, Family]:
        """The former and the new table of state that is one."""
        for state in (self.before, self.after):
            if len(state.families) != 1:
                raise NotCarried(f"it has {len(state.families)} tables of state")
        return self.before.families[0], self.after.families[0]

    def of_table(self, key: list[str], value: list[str], *merged: str) -> Migration:
        """Return how state follows that is one table."""
        source, target = self.table
        if len(target.value) != len(value):
            raise NotCarried(
                f"Spark keeps {len(target.value)} columns for its {self.after.operator}, and its form tells of "
                f"{len(value)}"
            )
        self.draft.add(target, source, key, value, *merged)
        return self.draft.migration()


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
    tables, stored = tables_of(after) if given else {}, {each.name for each in after.families}
    if others := ", ".join(sorted(given.keys() - tables.keys())):
        raise NotCarried(f"the queries under `migrate` are to return {others}, and not its {', '.join(tables)}")
    for name in given:
        if any(TTL + each.target.name in stored for each in tables[name].families):
            raise NotCarried(f"its {name} has a time to live, and no query returns what Spark keeps for that")
    was, now = (_without(each, given) for each in (before, after)) if given else (before, after)
    change = _Change(was, now, watermark_us, alone, Draft(wishes.renames))
    found = _inferred(change) if now.families or not given else Migration((), ())
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
    before, after, renames = change.before, change.after, change.draft.renames
    if before.form is not None and after.form is not None and before.form.kind != after.form.kind:
        raise NotCarried(f"it is of the kind {before.form.kind}, and the operator keeps the kind {after.form.kind}")
    _check_renames(before, renames)
    match None if after.form is None else after.form.kind:
        case "aggregation":
            return _aggregation(change)
        case "sessions":
            return _sessions(change)
        case "deduplication":
            return _deduplication(change)
        case "deduplicationWithinWatermark":
            check_parameters(*forms(before, after))
            return _deduplication(change)
        case "join":
            return join(before, after, renames)
        case "groupState":
            change.keys(_OF_A_FUNCTION)
            return group_state(before, after, renames)
        case "transformWithState":
            change.keys(_OF_A_FUNCTION)
            return variables(before, after, renames)
        case kind:
            raise NotCarried(f"state of the kind {kind or after.operator} is carried over only as it is")


def _check_renames(before: KeptState, renames: Mapping[str, str]) -> None:
    """Refuse a rename to a key or an argument that the former state had as well: it was done before, and is left over.

    Other columns are matched by name in each table, of which several may have a column of one name.
    """
    there = words(before.form.aggregates) | {each.name.lower() for each in before.form.keys} if before.form else set()
    for former, present in renames.items():
        if {former.lower(), present.lower()} <= there and present not in renames:
            raise NotCarried(
                f"`renames` says that {former!r} is called {present!r} now, and its former state has both: remove what "
                "is left of an earlier change"
            )


def _aggregation(change: _Change) -> Migration:
    keys, (_, after) = change.keys(), forms(change.before, change.after)
    united = any(each.window is not None for each in keys)
    merging = merged(after.aggregates) if united else ()
    return change.of_table(_expressions(change.draft, keys, "key.k"), change.buffers(), *merging)


def _sessions(change: _Change) -> Migration:
    (source, _), keys = change.table, change.keys("sessions cannot be put together")
    values = _expressions(change.draft, keys, "value.v")
    # The key of a session is its other keys and its start.
    of_key = [value for each, value in zip(keys, values, strict=True) if each.after.window is None]
    return change.of_table([*of_key, f"key.k{len(source.key) - 1}"], values + change.buffers(behind=len(keys)))


def _deduplication(change: _Change) -> Migration:
    (source, target), keys = change.table, change.keys()
    key = _expressions(change.draft, keys, "key.k")
    return change.of_table(key, change.draft.value("its value", source.value, target.value, Columns.SAME))


def _expressions(draft: Draft, keys: Sequence[MatchedKey], place: str) -> list[str]:
    """Return how the columns of a key follow, of which the former ones are called `place` with their numbers."""
    expressions = []
    for number, each in enumerate(keys):
        before, after, former = each.before, each.after, f"{place}{each.place}"
        if before.name != after.name:
            draft.said.append(f"its key {before.name!r} is called {after.name!r}")
        if each.window is not None:
            size, of_start = each.window.size_us, f"unix_micros({former}.start)"
            draft.said.append(f"its windows are put together to windows of {size / 1_000_000:g} s")
            begin = f"{of_start} - pmod({of_start} - {each.window.start_us}, {size})"
            parts = f"'start', timestamp_micros({begin}), 'end', timestamp_micros({begin} + {size})"
            expressions.append(f"named_struct({parts})")
            continue
        expressions.append(draft.widened(f"its key {after.name!r}", former, before.type, after.type, of_key=True))
        if each.place != number:
            draft.said.append(f"its key {after.name!r} moves from place {each.place + 1} to {number + 1}")
    return expressions
