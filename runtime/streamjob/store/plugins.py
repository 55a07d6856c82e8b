"""Finds the stores of other packages, by the scheme of their locations.

A package registers a function for each scheme in the entry point group `streamjob.stores`. The function takes a
location's URI and the variables with the store's settings, and returns a `Store` with this URI as its root.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TypeAlias

from streamjob.errors import InvalidInput
from streamjob.store.base import Store

GROUP = "streamjob.stores"

StoreFactory: TypeAlias = Callable[[str, Mapping[str, str]], Store]


def find_plugin(scheme: str) -> EntryPoint | None:
    """Return the entry point for a scheme, or None if no installed package has one.

    Raises:
        InvalidInput: several packages have one.
    """
    found = tuple(entry_points(group=GROUP, name=scheme))
    if len({point.value for point in found}) > 1:
        raise InvalidInput(
            f"several installed packages have a store for {scheme}://: " + ", ".join(point.value for point in found),
            "uninstall all of them but one",
        )
    return found[0] if found else None


def open_plugin(uri: str, environment: Mapping[str, str]) -> Store:
    """Return the store for a location of another package's scheme.

    Args:
        uri: the location, with a slash at its end.
        environment: variables with the settings of the store.

    Raises:
        InvalidInput: no installed package has a store for the scheme, or it cannot be loaded.
    """
    scheme = uri.partition(":")[0]
    point = find_plugin(scheme)
    if point is None:
        raise InvalidInput(f"no installed package has a store for {uri}", "install it in this environment, too")
    try:
        factory: StoreFactory = point.load()
    except (ImportError, AttributeError) as error:
        raise InvalidInput(
            f"the store for {scheme}:// cannot be loaded from {point.value}: {error}",
            f"correct the entry point in the group {GROUP}, or install what its module imports",
        ) from error
    return factory(uri, environment)
