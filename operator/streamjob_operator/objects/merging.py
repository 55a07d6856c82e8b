"""Lays one part of a pod over another, as a strategic merge patch would."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
}
"""The keys that identify elements of a list; lists without such a key are concatenated."""

_MERGED = frozenset({"containers", "initContainers"})
"""Lists whose elements are merged. In others the upper one replaces the lower: a volume is of one kind only."""


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `below` with `above` laid over it: maps are merged, lists as Kubernetes merges them."""
    result = copy.deepcopy(dict(below))
    for key, value in above.items():
        known = result.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            result[key] = merged(known, value)
        elif isinstance(known, list) and isinstance(value, Sequence) and not isinstance(value, str):
            result[key] = by_key(known, value, _KEYS.get(key), merge=key in _MERGED)
        else:
            result[key] = copy.deepcopy(value)
    return result


def by_key(below: Sequence[Any], above: Sequence[Any], key: str | None, *, merge: bool = False) -> list[Any]:
    """Return both lists as one; of elements with the same `key` the last counts, in the place of the first.

    Elements without such a key stay unchanged; the API server reports their problem.
    """
    found: list[Any] = []
    places: dict[Any, int] = {}
    for element in copy.deepcopy([*below, *above]):
        name = element.get(key) if isinstance(element, Mapping) else None
        if isinstance(name, str | int) and name in places:
            found[places[name]] = merged(found[places[name]], element) if merge else element
            continue
        if isinstance(name, str | int):
            places[name] = len(found)
        found.append(element)
    return found
