"""Merges an overlay into a job: the fields that differ in another environment.

Mappings are merged field by field. A source, operator or sink is merged with the one of its uid or, if the overlay
gives none, of its name; without such a part it is added. All other values are replaced. `$patch: delete` removes the
part or mapping that it is in, `$patch: replace` replaces it, and null removes a field.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from streamjob.job.model.origins import LISTS, Origins, Path, Place, spelled
from streamjob.job.model.problem import Problem
from streamjob.job.model.suggest import did_you_mean

_PATCH = "$patch"
_DELETE = "delete"
_REPLACE = "replace"
_GONE = object()


def merge(
    data: Mapping[str, Any], overlay: Mapping[str, Any], origins: Origins, place: Place
) -> tuple[dict[str, Any], list[Problem]]:
    """Return a job's content with an overlay merged into it, and why parts of the overlay could not be merged.

    Args:
        data: the content so far; it stays as it is.
        overlay: the content of the overlay's file.
        origins: learns which fields come from the overlay.
        place: the overlay's file.
    """
    merging = _Merging(origins, place)
    content = copy.deepcopy(dict(data))
    for key, value in overlay.items():
        if key in LISTS and isinstance(value, list) and isinstance(content.get(key) or [], list):
            content[key] = merging.parts(content.get(key) or [], value, str(key))
        else:
            merging.field(content, key, value, (str(key),))
    return content, merging.problems


class _Merging:
    def __init__(self, origins: Origins, place: Place) -> None:
        self._origins = origins
        self._place = place
        self.problems: list[Problem] = []

    def field(self, data: dict[str, Any], key: Any, value: Any, path: Path) -> None:
        """Change one field of a mapping."""
        merged = self._value(data.get(key), value, path)
        if merged is _GONE:
            data.pop(key, None)
        else:
            data[key] = merged

    def parts(self, before: Sequence[Any], changes: Sequence[Any], key: str) -> list[Any]:
        """Return the sources, operators or sinks."""
        parts = list(before)
        for change in changes:
            if not isinstance(change, Mapping):
                parts.append(change)
                continue
            found = _find(parts, change)
            name = change.get("name") or (parts[found].get("name") if found is not None else None)
            path = (key, str(name or change.get("uid")))
            if found is None and change.get(_PATCH) == _DELETE:
                what = f"{_PATCH}: {_DELETE} names a {LISTS[key]} that the files before do not have"
                names = [str(each.get("name")) for each in parts if isinstance(each, Mapping)]
                self._problem(path, what, did_you_mean(path[1], names, key))
                continue
            merged = self._value(parts[found] if found is not None else None, change, path)
            if found is None:
                parts.append(merged)
            elif merged is _GONE:
                del parts[found]
            else:
                parts[found] = merged
        return parts

    def _value(self, before: Any, value: Any, path: Path) -> Any:
        """Return a field's value after the overlay; `_GONE` if it has none."""
        if value is None:
            return _GONE
        if isinstance(value, Mapping):
            patch = value.get(_PATCH)
            if patch == _DELETE:
                return _GONE
            if patch not in (None, _REPLACE):
                self._problem(path, f"{_PATCH} cannot be {patch!r}", f"write {_DELETE} or {_REPLACE}")
            change = {key: each for key, each in value.items() if key != _PATCH}
            if patch != _REPLACE and isinstance(before, dict):
                for key, each in change.items():
                    self.field(before, key, each, (*path, str(key)))
                return before
            value = change
        self._origins.note(path, self._place)
        return copy.deepcopy(value)

    def _problem(self, path: Path, what: str, fix: str) -> None:
        where = f"{LISTS[path[0]]} {path[1]!r}" if path[0] in LISTS and len(path) > 1 else path[0]
        below = spelled(path[2:] if where != path[0] else path[1:])
        self.problems.append(Problem(where, f"{below}: {what}" if below else what, fix, self._place))


def _find(parts: Sequence[Any], change: Mapping[str, Any]) -> int | None:
    """Return the position of the part that an element of an overlay is about; None if it is a new one."""
    uid, name = change.get("uid"), change.get("name")
    known = [(index, each) for index, each in enumerate(parts) if isinstance(each, Mapping)]
    by_uid = [index for index, each in known if uid is not None and (each.get("uid") or each.get("name")) == uid]
    by_name = [index for index, each in known if name is not None and each.get("name") == name]
    return next(iter(by_uid + by_name), None)
