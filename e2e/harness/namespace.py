"""A namespace of a scenario's own, with what its jobs read, write and keep."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from e2e.harness.cluster import Cluster, Object, Where
from tests.servers.s3 import S3Server

S3_SECRET = "s3"
DATA_CLAIM = "data"
DATA = "/data"
"""Where the scenario's volume is in its pods."""

SMALL: Object = {"coreRequest": "100m", "memory": "768m"}
"""The resources of a scenario's driver: several of them share a small machine."""


class Namespace:
    """A namespace; pods of its jobs share the volume `data`, and log in to S3 by the Secret `s3`.

    Args:
        cluster: where it is.
        name: its name.
        s3: the server of its snapshots.
        image: the runtime's image, also of the pods that look into the volume.
    """

    def __init__(self, cluster: Cluster, name: str, s3: S3Server, image: str) -> None:
        self.cluster = cluster
        self.name = name
        self.image = image
        self._s3 = s3

    @property
    def where(self) -> Where:
        """The namespace itself, as an object."""
        return Where("Namespace", self.name)

    @property
    def location(self) -> str:
        """Where its jobs keep their checkpoints."""
        return f"s3://{self._s3.bucket}/{self.name}"

    @property
    def storage(self) -> Object:
        """The section `storage` of its StreamJobs."""
        return {
            "endpoint": self._s3.endpoint,
            "region": self._s3.region,
            "credentialsSecretRef": {"name": S3_SECRET},
        }

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which this machine reaches the snapshots."""
        return self._s3.environment

    @property
    def driver(self) -> Object:
        """The section `driver` of its StreamJobs."""
        return {**SMALL, "volumeMounts": [{"name": DATA_CLAIM, "mountPath": DATA}]}

    @property
    def volumes(self) -> list[Object]:
        """The section `volumes` of its StreamJobs."""
        return [{"name": DATA_CLAIM, "persistentVolumeClaim": {"claimName": DATA_CLAIM}}]

    def make(self) -> None:
        """Create it, its volume and its Secret."""
        self.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}})
        self.create("v1", "Secret", S3_SECRET, stringData=self._credentials())
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        self.create("v1", "PersistentVolumeClaim", DATA_CLAIM, spec=claim)

    def _credentials(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self._s3.access_key, "AWS_SECRET_ACCESS_KEY": self._s3.secret_key}

    def create(self, api_version: str, kind: str, name: str, **content: Any) -> None:
        """Create an object."""
        self.cluster.create({**self._head(api_version, kind, name), **content})

    def apply(self, api_version: str, kind: str, name: str, **content: Any) -> None:
        """Create or change an object."""
        self.cluster.apply({**self._head(api_version, kind, name), **content})

    def get(self, kind: str, name: str) -> Object | None:
        """Return an object, or None."""
        return self.cluster.get(self._where(kind, name))

    def all(self, kind: str, labels: str | None = None) -> list[Object]:
        """Return the objects of a kind."""
        return self.cluster.all(kind, self.name, labels)

    def patch(self, kind: str, name: str, change: Object) -> Object:
        """Apply a JSON merge patch."""
        return self.cluster.patch(self._where(kind, name), change)

    def delete(self, kind: str, name: str, *, grace: int | None = None, cascade: str = "background") -> None:
        """Ask for an object's deletion, as `Cluster.delete` does."""
        self.cluster.delete(self._where(kind, name), grace=grace, cascade=cascade)

    def wait(
        self, kind: str, name: str, condition: Callable[[Object], object], *, within: float = 120.0, what: str
    ) -> Object:
        """Wait until an object is there and fulfils a condition, and return it."""
        found = self.cluster.wait(
            self._where(kind, name), lambda thing: thing is not None and condition(thing), within=within, what=what
        )
        assert found is not None
        return found

    def wait_gone(self, kind: str, name: str, *, within: float = 120.0) -> None:
        """Wait until there is no such object."""
        self.cluster.wait(self._where(kind, name), lambda thing: thing is None, within=within, what="end of it")

    def wait_end(self, pod: str, *, within: float = 180.0) -> Object:
        """Wait until a pod has ended, and return it."""
        ended = ("Succeeded", "Failed")
        return self.wait("Pod", pod, lambda thing: thing["status"]["phase"] in ended, within=within, what="end of it")

    def run(self, script: str, *, within: float = 120.0) -> str:
        """Run Python in a pod that sees the volume, and return its output."""
        name = f"script-{uuid.uuid4().hex[:8]}"
        container = {
            "name": "script",
            "image": self.image,
            "command": ["tini", "--", "python", "-c", script],
            "volumeMounts": [{"name": DATA_CLAIM, "mountPath": DATA}],
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        }
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "volumes": self.volumes,
        }
        self.create("v1", "Pod", name, spec=spec)
        pod = self.wait_end(name, within=within)
        said = self.cluster.logs(self.name, name)
        assert pod["status"]["phase"] == "Succeeded", said
        self.delete("Pod", name, grace=0)
        return said

    def write(self, files: Mapping[str, str]) -> None:
        """Put files on the volume, each with its final name only once it is complete, in the order given."""
        self.run(
            f"import json, pathlib\nfor name, text in json.loads({json.dumps(json.dumps(dict(files)))}).items():\n"
            f"    file = pathlib.Path({DATA!r}) / name\n"
            "    file.parent.mkdir(parents=True, exist_ok=True)\n"
            "    part = file.with_name('_' + file.name)\n"
            "    part.write_text(text)\n"
            "    part.rename(file)\n"
        )

    def rows(self, directory: str) -> list[Any]:
        """Return the rows of the JSON files that a sink has published in a directory of the volume."""
        said = self.run(
            "import pathlib\n"
            f"for file in sorted(pathlib.Path({DATA!r}, {directory!r}).glob('part-*.json')):\n"
            "    print(file.read_text(), end='')\n"
        )
        return [json.loads(line) for line in said.splitlines()]

    def report(self) -> str:
        """Return what is known of the pods, for a scenario that failed."""
        lines: list[str] = []
        for event in self.all("Event"):
            thing = event["involvedObject"]
            lines.append(f"{thing['kind']} {thing['name']}: {event.get('reason')}: {event.get('message')}")
        for job in self.all("StreamJob") if self.get("CustomResourceDefinition", "streamjobs.streamjob.io") else ():
            lines.append(f"--- StreamJob {job['metadata']['name']}: {json.dumps(job.get('status'), default=str)}")
        for pod in self.all("Pod"):
            name = pod["metadata"]["name"]
            lines.append(f"--- pod {name}: {json.dumps(pod['status'].get('containerStatuses'), default=str)}")
            try:
                lines += self.cluster.logs(self.name, name).splitlines()[-60:]
            except Exception as error:
                lines.append(f"no log: {str(error).splitlines()[0]}")
        return "\n".join(lines)

    def _head(self, api_version: str, kind: str, name: str) -> Object:
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": self.name}}

    def _where(self, kind: str, name: str) -> Where:
        return Where(kind, name, None if kind in ("CustomResourceDefinition", "Node") else self.name)
