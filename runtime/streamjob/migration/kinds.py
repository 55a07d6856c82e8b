"""Plans the migration of joins of streams, and of the state that Python functions keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

from pydantic import JsonValue

from streamjob.comparison.state_forms import differences
from streamjob.migration.aggregates import is_same_expression
from streamjob.migration.by_name import Columns, Fitted, fit, matched
from streamjob.migration.state import EQUALS, Column, Family, FamilyMigration, KeptState, Migration, NotCarried
from streamjob.migration.variables import WITH_VARIABLES, Variable, is_of_timers, variables_of
from streamjob.migration.widening import cast, rounded_keys, widens
from streamjob.snapshot.state_form import StateForm

_ON = "on"
_TIMEOUT = "timeoutTimestamp"
_NO_TIMEOUT = "NoTimeout"


def continues(before: KeptState, after: KeptState) -> bool:
    """Return whether the variables of a Python operator are those of its former state.

    Spark accepts more: it leaves the tables of variables that are gone, and compares no names of their columns.
    """
    return set(before.families) == set(after.families)


@dataclass
class Tables:
    """The tables of the new state, and what is said of them, each sentence once."""

    renames: Mapping[str, str]
    families: list[FamilyMigration] = field(default_factory=list)
    said: dict[str, None] = field(default_factory=dict)
    gaps: dict[str, None] = field(default_factory=dict)

    def fit(self, what: str, target: Family, source: Family, may: Columns) -> None:
        """Add a table whose columns follow by their names; `what` has those of its values."""
        key = self.key(target, source)
        self.add(target, source, key, fit(what, source.value, target.value, "value.v{}", self.renames, may))

    def key(self, target: Family, source: Family) -> Fitted:
        """Return how the columns of its key follow by their names."""
        return fit("its key", source.key, target.key, "key.k{}", self.renames, Columns.SAME)

    def add(self, target: Family, source: Family, key: Fitted, value: Fitted, merged: tuple[str, ...] = ()) -> None:
        """Add a table; `merged` is that of its `FamilyMigration`."""
        expressions = tuple(key.expressions), tuple(value.expressions)
        self.families.append(FamilyMigration(target, source, *expressions, merged))
        for each in (key, value):
            self.said |= dict.fromkeys(each.said)
            self.gaps |= dict.fromkeys(each.gaps)

    def migration(self) -> Migration:
        """Return the migration that has all of them."""
        return Migration(tuple(self.families), tuple(self.said), tuple(self.gaps))


def join(before: KeptState, after: KeptState, renames: Mapping[str, str]) -> Migration:
    """Return how the four tables of a join of streams follow: for each side the rows, and how many each key has.

    With narrower bounds rows stay as they are: Spark drops what is too old in the first batch, and compares the times
    of each pair.

    Raises:
        NotCarried: the rows of a side lack a column, or rows have been dropped that the join needs.
    """
    was, now = forms(before, after)
    for reason in differences(*(each.model_copy(update={"parameters": _without_keys(each)}) for each in (was, now))):
        raise NotCarried(reason)
    places = _places_of_keys(was, now, renames)
    former, tables = {(each.store, each.name): each for each in before.families}, Tables(renames)
    for target in after.families:
        source = former.get((target.store, target.name))
        if source is None:
            raise NotCarried(f"it has no state of the kind {target.store!r}")
        side = f"the rows of its {target.store.partition('-')[0]} side"
        key = _key_of_join(source, target, places)
        tables.add(target, source, key, fit(side, source.value, target.value, "value.v{}", renames, Columns.FEWER))
    return tables.migration()


def _without_keys(form: StateForm) -> dict[str, JsonValue]:
    return {name: each for name, each in form.parameters.items() if name != _ON}


def _places_of_keys(was: StateForm, now: StateForm, renames: Mapping[str, str]) -> list[int]:
    """Return the former places of the keys' columns, which Spark calls by their numbers only; none if they stay."""
    former, present = was.parameters.get(_ON), now.parameters.get(_ON)
    if not isinstance(former, list) or not isinstance(present, list):
        return []
    free, places = dict(enumerate(map(str, former))), []
    for each in map(str, present):
        place = next((number for number, had in free.items() if _is_same(had, each, renames)), None)
        if place is None or len(former) != len(present):
            raise NotCarried(f"its key was {former}, and is {present}")
        places.append(place)
        del free[place]
    return places


def _is_same(former: str, present: str, renames: Mapping[str, str]) -> bool:
    """Return whether two pairs of equal columns are the same; a column may have another name on one side only."""
    was, now = former.split(EQUALS), present.split(EQUALS)
    return len(was) == len(now) and all(
        is_same_expression(had, each, {}) or is_same_expression(had, each, renames)
        for had, each in zip(was, now, strict=True)
    )


def _key_of_join(source: Family, target: Family, places: list[int]) -> Fitted:
    # Behind the key itself, the store of rows has their number.
    former = [*places, *range(len(places), len(source.key))]
    if len(former) != len(target.key):
        raise NotCarried(f"its key had {len(source.key)} columns, and has {len(target.key)}")
    found = Fitted()
    for place, column in zip(former, target.key, strict=True):
        had = source.key[place].type
        if not widens(had, column.type):
            raise NotCarried(f"its key was of type {had}, and is of type {column.type}")
        if had != column.type:
            found.said.append(f"its key of type {had} becomes {column.type}")
        if (had, column.type) == ("float", "double"):
            found.gaps.append(rounded_keys("its key"))
        found.expressions.append(cast(f"key.k{place}", had, column.type))
    return found


def group_state(before: KeptState, after: KeptState, renames: Mapping[str, str]) -> Migration:
    """Return how the state of `applyInPandasWithState` follows.

    Raises:
        NotCarried: a column does not follow, or its timeouts are of another clock.
    """
    was, now = (str(each.parameters.get("timeout")) for each in forms(before, after))
    if was != now and _NO_TIMEOUT not in (was, now):
        raise NotCarried(f"its timeout was {was}, and is {now}: the times are those of another clock")
    (source,), (target,) = before.families, after.families
    tables = Tables(renames)
    key = tables.key(target, source)
    value = fit("its state", _timeless(source), _timeless(target), "value.v{}", renames, Columns.OTHERS)
    if len(_timeless(target)) < len(target.value):
        kept = len(_timeless(source)) < len(source.value)
        value.expressions.append("value.v1" if kept else "-1L")
    if was != now:
        what = "timeouts that are set are dropped" if now == _NO_TIMEOUT else "none is set in the state that is there"
        value.said.append(f"its timeout was {was}, and is {now}: {what}")
    tables.add(target, source, key, value)
    return tables.migration()


def _timeless(family: Family) -> tuple[Column, ...]:
    return tuple(each for each in family.value if each.name != _TIMEOUT)


def variables(before: KeptState, after: KeptState, renames: Mapping[str, str]) -> Migration:
    """Return how the variables and timers of `transformWithState` follow.

    Raises:
        NotCarried: a variable is of another kind, a column of it does not follow, or nothing says whether it has only
            another name.
    """
    if {before.operator, after.operator} != {WITH_VARIABLES}:
        raise NotCarried(f"state of {after.operator} is carried over only as it is")
    modes = [str(each.parameters.get("timeMode")) for each in forms(before, after)]
    timers = {each.name: each for each in before.families if is_of_timers(each)}
    if modes[0] != modes[1] and timers:
        raise NotCarried(f"its time mode was {modes[0]}, and is {modes[1]}: its timers would not be the same")
    was, now = ({each.name: each for each in variables_of(state)} for state in (before, after))
    former = matched("it", list(was), list(now), renames)
    gone = [each for name, each in was.items() if name not in former.values()]
    added = [each for name, each in now.items() if name not in former]
    for lost, new in product(gone, added):
        if (lost.kind, lost.own.value) == (new.kind, new.own.value):
            raise NotCarried(
                f"its variable {lost.name!r} is gone, and {new.name!r} of its form is there: whether it is the same "
                "under another name, only you know"
            )
    tables = Tables(renames)
    for name, variable in now.items():
        if name not in former:
            tables.families += [FamilyMigration(each, None) for each in variable.families.values()]
            tables.gaps[f"its variable {name!r} is new, and has no value in the state that is there"] = None
            continue
        _fit_variable(was[former[name]], variable, tables)
    for each in gone:
        tables.said[f"its variable {each.name!r} is dropped"] = None
    for family in after.families:
        if (had := timers.get(family.name)) is not None:
            tables.fit("its timers", family, had, Columns.SAME)
        elif is_of_timers(family):
            tables.families.append(FamilyMigration(family, None))
    return tables.migration()


def _fit_variable(before: Variable, after: Variable, tables: Tables) -> None:
    what = f"its variable {after.name!r}"
    if before.kind != after.kind:
        raise NotCarried(f"{what} was a {before.kind}, and is a {after.kind}")
    if before.name != after.name:
        tables.said[f"its variable {before.name!r} is called {after.name!r}"] = None
    for prefix, target in after.families.items():
        tables.fit(what, target, before.families[prefix], Columns.OTHERS)


def forms(before: KeptState, after: KeptState) -> tuple[StateForm, StateForm]:
    """Return both forms, or raise `NotCarried`."""
    if before.form is None or after.form is None:
        raise NotCarried("the snapshot does not say in which form it keeps its state")
    return before.form, after.form
