"""Plans the migration of joins of streams, and of the state that Python functions keep."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product

from streamjob.comparison.state_forms import differences
from streamjob.migration.aggregates import is_same_expression
from streamjob.migration.by_name import Columns, Draft, matched, paired
from streamjob.migration.state import EQUALS, Column, Family, FamilyMigration, KeptState, Migration, NotCarried
from streamjob.migration.variables import WITH_VARIABLES, Variable, is_of_timers, variables_of
from streamjob.snapshot.state_form import StateForm

_ON = "on"
_TIMEOUT = "timeoutTimestamp"
_NO_TIMEOUT = "NoTimeout"


def continues(before: KeptState, after: KeptState) -> bool:
    """Return whether the variables of a Python operator are those of its former state.

    Spark accepts more: it leaves the tables of variables that are gone, and compares no names of their columns.
    """
    return set(before.families) == set(after.families)


def join(before: KeptState, after: KeptState, renames: Mapping[str, str]) -> Migration:
    """Return how the four tables of a join of streams follow: for each side the rows, and how many each key has.

    With narrower bounds rows stay as they are: Spark drops what is too old in the first batch, and compares the times
    of each pair.

    Raises:
        NotCarried: the rows of a side lack a column, or rows have been dropped that the join needs.
    """
    was, now = forms(before, after)
    check_parameters(was, now)
    places = _places_of_keys(was, now, renames)
    former, draft = {(each.store, each.name): each for each in before.families}, Draft(renames)
    for target in after.families:
        source = former.get((target.store, target.name))
        if source is None:
            raise NotCarried(f"it has no state of the kind {target.store!r}")
        side = f"the rows of its {target.store.partition('-')[0]} side"
        key = _key_of_join(draft, source, target, places)
        draft.add(target, source, key, draft.value(side, source.value, target.value, Columns.FEWER))
    return draft.migration()


def check_parameters(was: StateForm, now: StateForm) -> None:
    """Refuse a former form whose parameters do not suit the present one, whatever the keys of both are."""

    def without_keys(form: StateForm) -> StateForm:
        parameters = {name: each for name, each in form.parameters.items() if name != _ON}
        return form.model_copy(update={"keys": (), "parameters": parameters})

    for reason in differences(without_keys(was), without_keys(now)):
        raise NotCarried(reason)


def _places_of_keys(was: StateForm, now: StateForm, renames: Mapping[str, str]) -> list[int]:
    """Return the former places of the keys' columns, which Spark calls by their numbers only; none if they stay."""
    former, present = was.parameters.get(_ON), now.parameters.get(_ON)
    if not isinstance(former, list) or not isinstance(present, list):
        return []
    places = paired([str(each) for each in former], [str(each) for each in present], partial(_is_same, renames))
    if not len(former) == len(present) == len(places):
        raise NotCarried(f"its key was {former}, and is {present}")
    return list(places.values())


def _is_same(renames: Mapping[str, str], former: str, present: str) -> bool:
    """Return whether two pairs of equal columns are the same; a column may have another name on one side only."""
    was, now = former.split(EQUALS), present.split(EQUALS)
    return len(was) == len(now) and all(
        is_same_expression(had, each, {}) or is_same_expression(had, each, renames)
        for had, each in zip(was, now, strict=True)
    )


def _key_of_join(draft: Draft, source: Family, target: Family, places: list[int]) -> list[str]:
    # Behind the key itself, the store of rows has their number.
    former = [*places, *range(len(places), len(source.key))]
    if len(former) != len(target.key):
        raise NotCarried(f"its key had {len(source.key)} columns, and has {len(target.key)}")
    return [
        draft.widened("its key", f"key.k{place}", source.key[place].type, column.type, of_key=True)
        for place, column in zip(former, target.key, strict=True)
    ]


def group_state(before: KeptState, after: KeptState, renames: Mapping[str, str]) -> Migration:
    """Return how the state of `applyInPandasWithState` follows.

    Raises:
        NotCarried: a column does not follow, or its timeouts are of another clock.
    """
    was, now = (str(each.parameters.get("timeout")) for each in forms(before, after))
    if was != now and _NO_TIMEOUT not in (was, now):
        raise NotCarried(f"its timeout was {was}, and is {now}: the times are those of another clock")
    (source,), (target,) = before.families, after.families
    draft = Draft(renames)
    key = draft.key(target, source)
    value = draft.value("its state", _timeless(source), _timeless(target), Columns.OTHERS)
    if len(_timeless(target)) < len(target.value):
        kept = len(_timeless(source)) < len(source.value)
        value.append("value.v1" if kept else "-1L")
    if was != now:
        what = "timeouts that are set are dropped" if now == _NO_TIMEOUT else "none is set in the state that is there"
        draft.said.append(f"its timeout was {was}, and is {now}: {what}")
    draft.add(target, source, key, value)
    return draft.migration()


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
    draft = Draft(renames)
    for name, variable in now.items():
        if name in former:
            _fit_variable(was[former[name]], variable, draft)
            continue
        draft.families += [FamilyMigration(each, None) for each in variable.families.values()]
        draft.gaps.append(f"its variable {name!r} is new, and has no value in the state that is there")
    draft.said += [f"its variable {each.name!r} is dropped" for each in gone]
    for family in after.families:
        if (had := timers.get(family.name)) is not None:
            draft.fit("its timers", family, had, Columns.SAME)
        elif is_of_timers(family):
            draft.families.append(FamilyMigration(family, None))
    return draft.migration()


def _fit_variable(before: Variable, after: Variable, draft: Draft) -> None:
    what = f"its variable {after.name!r}"
    if before.kind != after.kind:
        raise NotCarried(f"{what} was a {before.kind}, and is a {after.kind}")
    if before.name != after.name:
        draft.said.append(f"its variable {before.name!r} is called {after.name!r}")
    for prefix, target in after.families.items():
        draft.fit(what, target, before.families[prefix], Columns.OTHERS)


def forms(before: KeptState, after: KeptState) -> tuple[StateForm, StateForm]:
    """Return both forms, or raise `NotCarried`."""
    if before.form is None or after.form is None:
        raise NotCarried("the snapshot does not say in which form it keeps its state")
    return before.form, after.form
