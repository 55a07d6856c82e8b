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
"""What elements of a list are told apart by; other lists are put one behind the other."""


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `below` with `above` laid over it: maps are merged, lists as Kubernetes merges them."""
    result = copy.deepcopy(dict(below))
    for key, value in above.items():
        known = result.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            result[key] = merged(known, value)
        elif isinstance(known, list) and isinstance(value, Sequence) and not isinstance(value, str):
            result[key] = by_key(known, value, _KEYS.get(key))
        else:
            result[key] = copy.deepcopy(value)
    return result


def by_key(below: Sequence[Any], above: Sequence[Any], key: str | None) -> list[Any]:
    """Return both lists as one; elements of the same `key` are merged, in the place of the first."""
    if key is None:
        return copy.deepcopy([*below, *above])
    found: dict[Any, Any] = {}
    for element in (*below, *above):
        name = element[key]
        found[name] = merged(found[name], element) if name in found else copy.deepcopy(element)
    return list(found.values())
