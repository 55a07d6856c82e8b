"""Renders charts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "streamjob"

Manifest = dict[str, Any]


class Refused(Exception):
    """Helm does not render the chart with these values."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The manifests of one rendering."""

    manifests: tuple[Manifest, ...]

    def all(self, kind: str) -> list[Manifest]:
        """Return the manifests of a kind."""
        return [each for each in self.manifests if each["kind"] == kind]

    def one(self, kind: str) -> Manifest:
        """Return the only manifest of a kind."""
        (manifest,) = self.all(kind)
        return manifest

    @property
    def pod(self) -> Manifest:
        """The specification of the controller's pods."""
        pod: Manifest = self.one("Deployment")["spec"]["template"]["spec"]
        return pod

    @property
    def container(self) -> Manifest:
        """The controller's container."""
        (container,) = self.pod["containers"]
        found: Manifest = container
        return found

    @property
    def environment(self) -> dict[str, Any]:
        """Variables of the controller's container: values, or where they come from."""
        return {each["name"]: each.get("value", each.get("valueFrom")) for each in self.container["env"]}

    def rights(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield (kind and namespace of the role, API group, resource, verb) of all that the controller may do."""
        for role in (*self.all("ClusterRole"), *self.all("Role")):
            where = role["metadata"].get("namespace", "*")
            for rule in role["rules"]:
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        yield from ((where, group, resource, verb) for verb in rule["verbs"])
