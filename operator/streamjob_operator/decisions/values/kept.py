"""Values that are kept in a status: dataclasses whose fields name their places in it.

A field names its place once, and both directions follow from it: `since: Annotated[float, Kept("plan.since")]`. A field
of type `float` is a moment: seconds since 1970 here, a time in the status. A field that is a dataclass itself has its
places below its own. A value that the status lacks is the field's default.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

from streamjob_operator.resources.base import StatusPart

T = TypeVar("T")
P = TypeVar("P", bound=StatusPart)


@dataclass(frozen=True, slots=True)
class Kept:
    """The place of a field.

    Args:
        place: names of the status' fields, with dots between them.
        reported: the field is derived from observations. The controller fills it in itself.
    """

    place: str
    reported: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    field: Field[Any]
    path: tuple[str, ...]
    reported: bool
    inner: type | None
    """The dataclass that the field holds, or holds several of."""
    several: bool
    is_moment: bool

    @property
    def default(self) -> Any:
        return self.field.default


@cache
def _places(kind: Any) -> tuple[_Place, ...]:
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for field in fields(kind):
        annotation, *metadata = get_args(hints[field.name]) if get_origin(hints[field.name]) is Annotated else [None]
        kept = next((each for each in metadata if isinstance(each, Kept)), None)
        if kept is None:
            raise TypeError(f"{kind.__name__}.{field.name} names no place: annotate it with Kept")
        choices = [each for each in (get_args(annotation) or (annotation,)) if each is not type(None)]
        several = get_origin(annotation) is tuple
        inner = choices[0] if is_dataclass(choices[0]) and isinstance(choices[0], type) else None
        path = tuple(kept.place.split("."))
        found.append(_Place(field, path, kept.reported, inner, several, choices == [float]))
    return tuple(found)


def reported(kind: Any) -> frozenset[str]:
    """Return the names of the fields that are derived from observations."""
    return frozenset(place.field.name for place in _places(kind) if place.reported)


def read(kind: type[T], status: StatusPart) -> T | None:
    """Return the value that is kept in a status; None if the status lacks a field without a default."""
    values = {}
    for place in _places(cast(Hashable, kind)):
        value = _read_at(place, status)
        if value is None:
            if place.default is MISSING:
                return None
            value = place.default
        values[place.field.name] = value
    return kind(**values)


def _read_at(place: _Place, status: StatusPart) -> Any:
    found: Any = status
    for name in place.path:
        found = None if found is None else getattr(found, name)
    if found is None:
        return None
    if place.inner is not None:
        return tuple(read(place.inner, each) for each in found) if place.several else read(place.inner, found)
    return found.timestamp() if isinstance(found, datetime) else found


def written(value: Any, status: P) -> P:
    """Return the status with a value that it keeps; the rest of it stays as it is."""
    return _with(status, _tree(value))


def _tree(value: Any) -> dict[str, Any]:
    """Return the content of the places of a value, as nested as they are."""
    tree: dict[str, Any] = {}
    for place in _places(cast(Hashable, type(value))):
        if not place.reported:
            _put(tree, place.path, _content(place, getattr(value, place.field.name)))
    return tree


def _content(place: _Place, value: Any) -> Any:
    if place.inner is not None and place.several:
        return tuple(_tree(each) for each in value)
    if place.inner is not None:
        return _tree(value) if value is not None else {each.path[0]: None for each in _places(place.inner)}
    # Unset timestamps are stored as null.
    return None if place.is_moment and value == place.default else value


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    if isinstance(value, Mapping):
        tree.setdefault(path[-1], {}).update(value)
    else:
        tree[path[-1]] = value


def _with(part: P, tree: Mapping[str, Any]) -> P:
    changes = {}
    for name, value in tree.items():
        inner = getattr(part, name)
        is_section = isinstance(value, Mapping) and isinstance(inner, StatusPart)
        changes[name] = _with(inner, value) if is_section else value
    return part.replaced(**changes)
