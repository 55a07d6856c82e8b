"""Matches the aggregates of an operator with those of its former state, and says how their buffers follow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from streamjob.comparison.state_forms import arguments, content, in_one_case
from streamjob.migration.by_name import Draft, in_force, paired
from streamjob.migration.state import NotCarried
from streamjob.migration.widening import DECIMAL, cast, widens
from streamjob.snapshot.state_form import AggregateForm

_REPEATED = re.compile(r"(.+) x (\d+)")
_WIDENING = re.compile(r"\bcast\((`?\w+`?) as (double|bigint|timestamp|decimal\(\d+, ?(\d+)\))\)")
_WORD = re.compile(r"'(?:[^'\\]|\\.)*'|\w+")
"""A text of an expression, or a name in it."""

_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_UNSCALED = re.compile(r"unscaledvalue\((.+)\) of scale (\d+)")
_EXACT = 2**53
"""Up to here every whole number is a double."""


def buffer_types(form: AggregateForm) -> list[str]:
    """Return the type of each column of an aggregate's buffer."""
    types: list[str] = []
    for each in form.buffer:
        repeated = _REPEATED.fullmatch(each)
        types += [each] if repeated is None else [repeated[1]] * int(repeated[2])
    return types


def places(forms: Sequence[AggregateForm]) -> list[int]:
    """Return the place of the first column of each aggregate's buffer, and the number of all columns."""
    return [0, *accumulate(len(buffer_types(each)) for each in forms)]


def match_aggregates(
    draft: Draft, before: Sequence[AggregateForm], after: Sequence[AggregateForm], behind: int = 0
) -> list[str]:
    """Return how the buffers of an operator's aggregates follow, over `value.vn` and `initial.in`.

    Args:
        behind: the number of columns that the former value has before the buffers.

    Raises:
        NotCarried: an aggregate is another one than before, and nothing says whether its column was renamed.
    """
    names = {name.lower(): now.lower() for name, now in draft.renames.items()}
    renames = in_force(names, words(before), words(after))
    former, expressions = _Former(before, renames, behind), []
    taken = paired(before, after, partial(_is_same, renames))
    free = {number: each for number, each in enumerate(before) if number not in taken.values()}
    for place, each in enumerate(after):
        if (number := taken.get(place)) is not None:
            had = before[number]
            types = enumerate(zip(buffer_types(had), buffer_types(each), strict=True))
            expressions += [cast(former.column(number, at), was, now) for at, (was, now) in types]
            if had.sql != each.sql:
                draft.said.append(f"its {each.sql} continues from {had.sql}")
            if had.buffer != each.buffer:
                draft.said.append(f"the state of its {each.sql} is widened")
            continue
        if (derived := former.derived(each)) is not None:
            buffer, sources = derived
            expressions += buffer
            draft.said.append(f"its {each.sql} is computed from {' and '.join(before[at].sql for at in sources)}")
            free = {number: had for number, had in free.items() if number not in sources}
            continue
        _check_new(place, each, before, after, free)
        expressions += [f"initial.i{len(expressions) + at}" for at in range(len(buffer_types(each)))]
        draft.gaps.append(
            f"its {each.sql} begins empty in groups that are open, and covers only the rows from here on in them"
        )
    draft.said += [f"the state of its {each.sql} is dropped" for each in free.values()]
    if [*taken.values()] != sorted(taken.values()):
        draft.said.append("its aggregates are put into their new order")
    return expressions


def _is_same(renames: Mapping[str, str], before: AggregateForm, after: AggregateForm) -> bool:
    if before.function != after.function or not _is_of_the_same(before, after, renames):
        return False
    if before.opaque:
        return content(before) == content(after)
    return _has_room(before, after)


def _has_room(before: AggregateForm, after: AggregateForm) -> bool:
    was, now = buffer_types(before), buffer_types(after)
    return len(was) == len(now) and all(map(widens, was, now))


def _is_of_the_same(before: AggregateForm, after: AggregateForm, renames: Mapping[str, str]) -> bool:
    """Return whether two aggregates are computed from the same columns and expressions, which may be of wider types."""
    if before.of is None:
        # That is not to say that it is computed from nothing, as `count(*)` is.
        return False
    if not after.of and after.function != "Count":
        # Constants are left out of the arguments.
        return before.sql == after.sql
    whole = {buffer_types(each)[0] for each in (before, after)} <= _WHOLE
    return _are_same(arguments(before), arguments(after), renames, whole=whole)


def _are_same(former: Sequence[str], present: Sequence[str], renames: Mapping[str, str], *, whole: bool = True) -> bool:
    return len(former) == len(present) and all(
        is_same_expression(was, now, renames, whole=whole) for was, now in zip(former, present, strict=True)
    )


def is_same_expression(former: str, present: str, renames: Mapping[str, str], *, whole: bool = True) -> bool:
    """Return whether an expression is a former one of which columns have other names, or are of wider types.

    Args:
        renames: the present name of a column by its former one.
        whole: whether the result is a whole number: else a cast to one may have cut fractions off.
    """
    names = {name.lower(): now.lower() for name, now in renames.items()}
    was, present = in_one_case(former), in_one_case(present)
    was = _without_casts(_WORD.sub(lambda word: names.get(word[0], word[0]), was), whole, decimals=False)
    # Only the present expression may lose a cast to a decimal: a former one has rounded the values in the state.
    return was in (_without_casts(present, whole, decimals=each) for each in (False, True))


def _without_casts(expression: str, whole: bool, *, decimals: bool) -> str:
    def column(cast: re.Match[str]) -> str:
        if cast[3] is not None and not decimals:
            return f"cast({cast[1]} as decimal(_,{cast[3]}))"
        return cast[0] if cast[2] == "bigint" and not whole else cast[1]

    return _WIDENING.sub(column, expression)


def words(forms: Sequence[AggregateForm]) -> set[str]:
    """Return the names that the arguments of aggregates consist of, in lower case."""
    return {word for form in forms for each in arguments(form) for word in _WORD.findall(each)}


def _scaled(form: AggregateForm) -> tuple[tuple[str, ...], int | None]:
    """Return what an aggregate reads, and of which scale if those are decimals that Spark sums as whole numbers."""
    found = arguments(form)
    unscaled = None if len(found) != 1 else _UNSCALED.fullmatch(found[0])
    return (found, None) if unscaled is None else ((unscaled[1],), int(unscaled[2]))


def _check_new(
    place: int,
    added: AggregateForm,
    before: Sequence[AggregateForm],
    after: Sequence[AggregateForm],
    free: Mapping[int, AggregateForm],
) -> None:
    """Refuse an aggregate that may be a former one whose column was renamed, or whose type was changed."""
    for had in free.values():
        if had.function == added.function and had.of is None:
            raise NotCarried(
                f"the snapshot does not tell what its {had.sql} was computed from: take a savepoint of the unchanged "
                "job first"
            )
        if had.function == added.function and _are_same(_scaled(had)[0], _scaled(added)[0], {}):
            types = f"({', '.join(had.buffer)}), and is ({', '.join(added.buffer)})"
            raise NotCarried(f"the state of its {added.sql} was {types}")
    lost = free[place] if place in free and len(before) == len(after) else None
    for had in free.values() if lost is None else (lost, *free.values()):
        if had.function == added.function and (had is lost or _has_room(had, added)):
            raise NotCarried(
                f"its {had.sql} is now {added.sql}: whether that is the same column under another name, only you know. "
                "If it is not, start once without the one, and then with the other"
            )


@dataclass(frozen=True)
class _Former:
    """The former aggregates, of which others may be computed; their buffers are `behind` some columns of the value."""

    forms: Sequence[AggregateForm]
    renames: Mapping[str, str]
    behind: int

    def column(self, number: int, place: int = 0) -> str:
        """Name a column of the buffer of an aggregate."""
        return f"value.v{self.behind + places(self.forms)[number] + place}"

    def derived(self, wanted: AggregateForm) -> tuple[list[str], list[int]] | None:
        """Return the buffer of an aggregate by those of others, and the places of these; None if it does not follow."""
        types = buffer_types(wanted)
        if wanted.function == "Average":
            total, count = self._of("Sum", wanted), self._of("Count", wanted)
            if total is None or count is None or not (types[0] == "double" or DECIMAL.fullmatch(types[0])):
                return None
            was, *is_empty = buffer_types(self.forms[total])
            if was != types[0] and not (was == "bigint" and types[0] == "double"):
                return None
            # A sum of decimals is not NULL before its first row, but once it has overflowed, as that of an average.
            summed = self.column(total) if is_empty else f"coalesce({self.column(total)}, 0)"
            return [f"CAST({summed} AS {types[0]})", self.column(count)], [total, count]
        average = self._of("Average", wanted)
        if average is None:
            return self._rescaled(wanted)
        total_of, count_of = self.column(average), self.column(average, 1)
        if wanted.function == "Count":
            return [count_of], [average]
        if wanted.function != "Sum":
            return None
        was = buffer_types(self.forms[average])[0]
        if types == [was]:
            return [f"CASE WHEN {count_of} > 0 THEN {total_of} END"], [average]
        if types == [was, "boolean"]:
            return [total_of, f"{count_of} = 0"], [average]
        if types == ["bigint"] and was == "double":
            exact = f"abs({total_of}) < {_EXACT}D"
            whole = f"CASE WHEN {exact} THEN CAST({total_of} AS BIGINT) ELSE raise_error('{_NOT_EXACT}') END"
            return [f"CASE WHEN {count_of} > 0 THEN {whole} END"], [average]
        return None

    def _of(self, function: str, wanted: AggregateForm) -> int | None:
        same = (
            number
            for number, each in enumerate(self.forms)
            if each.function == function and each.of and _is_of_the_same(each, wanted, self.renames)
        )
        return next(same, None)

    def _rescaled(self, wanted: AggregateForm) -> tuple[list[str], list[int]] | None:
        """Return the buffer of a sum of decimals by that of smaller ones, which Spark sums as whole numbers."""
        reads, scale = _scaled(wanted)
        for number, each in enumerate(self.forms):
            had, digits = _scaled(each)
            sums = (each.function, wanted.function) == ("Sum", "Sum")
            if not sums or digits is None or not _are_same(had, reads, self.renames):
                continue
            whole = self.column(number)
            if scale is not None and scale >= digits:
                return [f"{whole} * {10 ** (scale - digits)}L"], [number]
            decimal = DECIMAL.fullmatch(buffer_types(wanted)[0])
            if decimal is not None and int(decimal[2]) >= digits:
                unit = f"{1 / 10**digits:.{digits}f}BD"
                return [f"CAST(coalesce({whole}, 0) * {unit} AS {decimal[0]})", f"{whole} IS NULL"], [number]
        return None


_NOT_EXACT = f"a sum that was kept for an average is not exact: it is larger than {_EXACT}"

_SUM_OR_NULL = "IF(bool_or({0} IS NULL), NULL, sum({0}))"
"""A decimal that has overflowed is null, and stays it."""

_MERGES: Mapping[tuple[str, int], tuple[str, ...]] = {
    ("Average", 2): (_SUM_OR_NULL, "sum({1})"),
    ("BitAndAgg", 1): ("bit_and({0})",),
    ("BitOrAgg", 1): ("bit_or({0})",),
    ("BitXorAgg", 1): ("bit_xor({0})",),
    ("Count", 1): ("sum({0})",),
    ("Max", 1): ("max({0})",),
    ("MaxBy", 2): ("max_by({0}, {1})", "max({1})"),
    ("Min", 1): ("min({0})",),
    ("MinBy", 2): ("min_by({0}, {1})", "min({1})"),
    ("Sum", 1): ("sum({0})",),
    ("Sum", 2): (_SUM_OR_NULL, "bool_and({1})"),
}
"""How buffers of a function with some columns make up that of all groups: an aggregate over them for each column."""


def merged(forms: Sequence[AggregateForm]) -> tuple[str, ...]:
    """Return how the buffers of several groups make up those of all: aggregates over `v0`, `v1`, ….

    Raises:
        NotCarried: the buffers of an aggregate cannot be put together.
    """
    found: list[str] = []
    for start, form in zip(places(forms), forms, strict=False):
        types = buffer_types(form)
        merges = _MERGES.get((form.function, len(types)))
        if merges is None:
            raise NotCarried(f"the state of its {form.sql} for several former groups cannot be put together")
        columns = [f"v{start + number}" for number in range(len(types))]
        found += [f"CAST({each.format(*columns)} AS {kind})" for each, kind in zip(merges, types, strict=True)]
    return tuple(found)
