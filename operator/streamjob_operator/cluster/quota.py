"""Parses a ResourceQuota's rejection of a pod, and checks whether the pod would fit in place of another one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from kubernetes.utils.quantity import parse_quantity

from streamjob_operator.cluster.kinds import Object

_REJECTION = re.compile(r"exceeded quota: \S+, requested: (\S+), used: (\S+), limited: (\S+)$")
_NONE = Decimal(0)


@dataclass(frozen=True, slots=True)
class Excess:
    """The resources of which a quota has too little: how much was asked for, is in use, and is allowed."""

    requested: Mapping[str, Decimal]
    used: Mapping[str, Decimal]
    limited: Mapping[str, Decimal]


def excess(message: str) -> Excess | None:
    """Return the exhausted resources from the API server's message; None if the message is another one."""
    found = _REJECTION.search(message.strip())
    if found is None:
        return None
    try:
        return Excess(*(_quantities(part) for part in found.groups()))
    except ValueError:
        return None


def fits_without(excess: Excess, pod: Object) -> bool:
    """Return whether requested resources fit once a given pod is gone."""
    freed = usage(pod)
    return all(
        name in excess.used
        and name in excess.limited
        and excess.used[name] - freed.get(name, _NONE) + requested <= excess.limited[name]
        for name, requested in excess.requested.items()
    )


def usage(pod: Object) -> Mapping[str, Decimal]:
    """Return a pod's usage as a quota counts it, by the quota's names of resources."""
    found = {"pods": Decimal(1), "count/pods": Decimal(1)}
    for name, amount in _of_pod(pod["spec"], "requests").items():
        found[name] = found[f"requests.{name}"] = amount
    for name, amount in _of_pod(pod["spec"], "limits").items():
        found[f"limits.{name}"] = amount
    return found


def _of_pod(spec: Object, part: str) -> dict[str, Decimal]:
    """Long-running containers count together; an init container counts with the sidecars that run before it."""
    beside: dict[str, Decimal] = {}
    most: dict[str, Decimal] = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            beside = _sum((beside, _of_container(container, part)))
            most = _maximum(most, beside)
        else:
            most = _maximum(most, _sum((beside, _of_container(container, part))))
    together = _sum((beside, *(_of_container(each, part) for each in spec.get("containers") or ())))
    overhead = {name: _quantity(value) for name, value in (spec.get("overhead") or {}).items()}
    return _sum((_maximum(most, together), overhead))


def _of_container(container: Object, part: str) -> dict[str, Decimal]:
    given = (container.get("resources") or {}).get(part) or {}
    return {name: _quantity(value) for name, value in given.items()}


def _sum(parts: Iterable[Mapping[str, Decimal]]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, _NONE) + amount
    return total


def _maximum(one: Mapping[str, Decimal], other: Mapping[str, Decimal]) -> dict[str, Decimal]:
    return {name: max(one.get(name, _NONE), other.get(name, _NONE)) for name in {*one, *other}}


def _quantities(text: str) -> dict[str, Decimal]:
    """Read `cpu=1,memory=2Gi`."""
    pairs = (each.partition("=") for each in text.split(","))
    return {name: _quantity(value) for name, _, value in pairs}


def _quantity(text: str) -> Decimal:
    amount: Decimal = parse_quantity(text)  # type: ignore[no-untyped-call]
    return amount
