"""Compares the form of a stateful operator's state in the snapshot with the form that the job needs.

Spark compares names and types of the columns of its state stores. But it stores the buffers of many aggregate functions
as bytes, and windows as their start times. So it would accept state of other functions or other windows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

from streamjob.snapshot.state_form import AggregateForm, KeyForm, StateForm, WindowForm

FREE: Mapping[str, Set[str]] = {
    "ApproxTopK": {"k"},
    "ApproximatePercentile": {"percentageExpression"},
    "ListAgg": {"delimiter"},
    "Mode": {"reverseOpt"},
    "Percentile": {"percentageExpression", "reverse"},
    "PercentileDisc": {"percentageExpression", "reverse", "legacyCalculation"},
}
"""Parameters that a function uses only for its result; the buffer does not depend on them."""

_VALID_FOR = "validForUs"
"""For how long a temporal join keeps a version; missing if until the next one."""

_ON = "on"
"""The columns that are equal in a join; missing in older snapshots."""


_COUNTED = re.compile(r"(?<=\w)_\d+\b|#\d+L?")
"""Ends of the names that Spark gives to variables of lambda functions and to columns that it makes."""

_TEXT = re.compile(r"('(?:[^'\\]|\\.)*')")
"""A text in an expression."""


def same(former: tuple[StateForm, ...], now: tuple[StateForm, ...]) -> bool:
    """Return whether two operators have equal forms, so that Spark need not be asked."""
    alike = [_comparable(each) for each in former] == [_comparable(each) for each in now]
    return alike and not any(differences(before, after) for before, after in zip(former, now, strict=True))


def tells_more(form: StateForm) -> bool:
    """Return whether a form has details that Spark's own schemas lack."""
    return any(each.opaque for each in form.aggregates) or any(each.window or each.samples for each in form.keys)


def tells_all(form: StateForm) -> bool:
    """Return whether equal forms are equal state: the variables that a Python operator declares are not in its form."""
    return form.kind != "transformWithState" or _ON in form.parameters


def differences(former: StateForm, now: StateForm) -> tuple[str, ...]:
    """Return why an operator cannot take over state of a form, apart from Spark's own checks; empty if it can.

    `former` is the form in the snapshot.
    """
    if former.kind != now.kind:
        return (f"it is of the kind {former.kind}, and the operator keeps the kind {now.kind}",)
    return (
        *_of_keys(former.keys, now.keys),
        *_of_aggregates(former.aggregates, now.aggregates),
        *_of_parameters(now.kind, former.parameters, now.parameters),
    )


def _comparable(form: StateForm) -> dict[str, Any]:
    fields = form.model_dump()
    for each, aggregate in zip(fields["aggregates"], form.aggregates, strict=True):
        # The text has names of operators, which may change.
        del each["sql"]
        each["of"] = None if aggregate.of is None else arguments(aggregate)
    return fields


def _of_keys(former: tuple[KeyForm, ...], now: tuple[KeyForm, ...]) -> Iterator[str]:
    if len(former) != len(now):
        return
    for before, after in zip(former, now, strict=True):
        if before.window is not None and after.window is not None:
            if before.window != after.window:
                yield f"its windows were {window_in_words(before.window)}, and are {window_in_words(after.window)}"
        elif before.samples and after.samples and before.of != after.of:
            yield f"its key {after.name!r} was made of a column of type {before.of}, and is of one of type {after.of}"
        elif before.samples and after.samples and before.samples != after.samples:
            was, is_ = next(each for each in zip(before.samples, after.samples, strict=False) if each[0] != each[1])
            yield f"its key {after.name!r} is computed in another way: where it was {was!r}, it is {is_!r}"


def window_in_words(form: WindowForm) -> str:
    """Return size, slide and start of windows, or the gap of sessions."""
    if form.slide_us == 0:
        return f"sessions with a gap of {_time(form.size_us)}"
    words = f"{_time(form.size_us)} long"
    if form.slide_us != form.size_us:
        words += f" every {_time(form.slide_us)}"
    return f"{words} from {_time(form.start_us)} on" if form.start_us else words


def _time(microseconds: int) -> str:
    return f"{microseconds / 1_000_000:.6f}".rstrip("0").rstrip(".") + " s"


def _of_aggregates(former: tuple[AggregateForm, ...], now: tuple[AggregateForm, ...]) -> Iterator[str]:
    for before, after in zip(former, now, strict=False):
        if before.opaque or after.opaque:
            if content(before) != content(after):
                yield f"its {before.sql} has collected {_told(before)}, and its {after.sql} collects {_told(after)}"
                continue
        elif before.function != after.function:
            yield f"its {before.sql} is now {after.sql}"
            continue
        if before.of is not None and after.of is not None and arguments(before) != arguments(after):
            yield f"its {before.sql} is now {after.sql}"
    for missing in former[len(now) :]:
        yield f"it has lost its {missing.sql}"
    for added in now[len(former) :]:
        yield f"it has no state for its {added.sql}"


def content(form: AggregateForm) -> tuple[Any, ...]:
    """Return what decides whether the bytes of an aggregate's buffer can be taken over."""
    free = FREE.get(form.function, frozenset())
    told = {name: value for name, value in form.parameters.items() if name not in free}
    return form.function, form.buffer, form.inputs, told


def arguments(form: AggregateForm) -> tuple[str, ...]:
    """Return what an aggregate is computed from, without numbers that Spark counts up in each process."""
    return tuple(in_one_case(_COUNTED.sub("", each)) for each in form.of or ())


def in_one_case(expression: str) -> str:
    """Return an expression with names in lower case, since Spark keeps the case in which a query writes them."""
    return "".join(each if each.startswith("'") else each.lower() for each in _TEXT.split(expression))


def _told(form: AggregateForm) -> str:
    free = FREE.get(form.function, frozenset())
    told = [f"{name} {value}" for name, value in form.parameters.items() if name not in free]
    return f"{', '.join(form.inputs) or 'nothing'}" + (f" with {', '.join(told)}" if told else "")


def _of_parameters(kind: str, former: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    match kind:
        case "join":
            if former.get("type") != now.get("type"):
                yield f"it was a join of the kind {former.get('type')}, and is one of the kind {now.get('type')}"
            for side in ("left", "right"):
                before, after = former.get(f"{side}KeepsMs"), now.get(f"{side}KeepsMs")
                if before is not None and (after is None or after > before):
                    longer = "for good" if after is None else f"for {after} ms"
                    yield (
                        f"rows of its {side} side were kept until the watermark was {before} ms past them, and are to "
                        f"be kept {longer}: rows dropped since would be missing"
                    )
            yield from _of_equal_columns(former, now)
        case "deduplicationWithinWatermark":
            before, after = former.get("delayMs"), now.get("delayMs")
            if before is not None and after is not None and after > before:
                yield (
                    f"its keys were kept for the watermark's delay of {before} ms, and are to be kept for {after} ms: "
                    "duplicates of those that end earlier would pass"
                )
        case _:
            before, after = former.get(_VALID_FOR), now.get(_VALID_FOR)
            if before is not None and (after is None or after > before):
                longer = "until the next one of their key" if after is None else f"for {_time(after)}"
                yield (
                    f"versions were valid for {_time(before)}, and are to be valid {longer}: versions "
                    "dropped since would be missing"
                )
            yield from _of_equal_columns(former, now)
            for name in sorted((former.keys() | now.keys()) - {_VALID_FOR, _ON}):
                if former.get(name) != now.get(name):
                    yield f"its {name} was {former.get(name)}, and is {now.get(name)}"


def _of_equal_columns(former: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if _ON in former and _ON in now and former[_ON] != now[_ON]:
        yield f"its key was {former[_ON]}, and is {now[_ON]}"
