"""Releases of the chart, by a real Helm."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from e2e.harness.cluster import ROOT, Cluster, Object
from e2e.harness.images import Images
from tests.servers.go_tools import HELM

CHART = ROOT / "charts" / "streamjob"


class Release:
    """A release of the chart, in a namespace that is there.

    Args:
        name: of the release.
        namespace: where it is.
        kubeconfig: how the cluster is reached.
        images: its images.
    """

    def __init__(self, name: str, namespace: str, kubeconfig: Path, images: Images) -> None:
        self.name = name
        self.namespace = namespace
        self._options = ["--namespace", namespace, "--kubeconfig", str(kubeconfig)]
        self._images = images

    def install(self, values: Object) -> None:
        """Install or upgrade it with these values, and wait until it is ready."""
        wanted = {
            "image": _image(self._images.controller),
            "runtime": {"image": _image(self._images.runtime)},
            **values,
        }
        # Other releases, and other tests, may have brought the resource definitions.
        whatever = ("--take-ownership", *(() if self._version().startswith("v3") else ("--force-conflicts",)))
        arguments = ("--install", *whatever, "--wait", "--timeout", "3m", "--values", "-")
        self._helm("upgrade", self.name, str(CHART), *arguments, given=json.dumps(wanted))

    def uninstall(self) -> None:
        """Remove it, if it is there, and wait until its pods are gone."""
        self._helm("uninstall", self.name, "--ignore-not-found", "--wait", "--timeout", "2m")

    def logs(self, cluster: Cluster) -> str:
        """Return what its pods have logged."""
        pods = cluster.all("Pod", self.namespace)
        return "\n".join(cluster.logs(self.namespace, pod["metadata"]["name"]) for pod in pods)

    def _version(self) -> str:
        """Return Helm's version: 3 applies on the client's side, and knows no conflicts."""
        command = [str(HELM.find()), "version", "--template", "{{.Version}}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def _helm(self, *arguments: str, given: str | None = None) -> None:
        done = subprocess.run(
            [HELM.find(), *arguments, *self._options], input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def _image(name: str) -> Object:
    repository, _, tag = name.rpartition(":")
    return {"repository": repository, "tag": tag}
