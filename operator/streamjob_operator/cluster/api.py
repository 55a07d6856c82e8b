"""The Kubernetes API by few verbs over plain objects.

The client's generated models are not used: they cost memory and time per object, and drop unknown fields.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
from kubernetes.aio.client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from streamjob.errors import InvalidInput, StreamJobError
from streamjob_operator.cluster.canonical import send_canonically
from streamjob_operator.cluster.kinds import POD, Kind, Object

_DEFAULT_KUBECONFIG = "~/.kube/config"
_PAGE = 500
_PAGE_OF_METADATA = 5000
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


class ClusterError(StreamJobError):
    """A request to the Kubernetes API failed.

    Args:
        what: the request, and how it was answered.
        said: the API's own message; `what` if there is none.
    """

    def __init__(self, what: str, said: str = "") -> None:
        super().__init__(what)
        self.said = said or what


class NotFound(ClusterError):
    """There is no such object."""


class AlreadyExists(ClusterError):
    """An object of that name exists."""


class Conflict(ClusterError):
    """The object has changed since it was read, so the write is out of date."""


class Refused(ClusterError):
    """The API refuses the request as it is: not allowed, or not valid. The same request fails again."""


class Unavailable(ClusterError):
    """The API gave no usable answer; whether it applied a write is unknown."""


class Cluster(Protocol):
    """The client of the Kubernetes API.

    Every method raises Refused and Unavailable.
    """

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """Return an object. Raises NotFound."""
        ...

    async def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        metadata_only: bool = False,
    ) -> list[Object]:
        """Return the objects of a namespace or of all, that a label selector and a field selector select."""
        ...

    async def create(self, kind: Kind, thing: Object, *, dry_run: bool = False) -> Object:
        """Create an object in the namespace of its metadata, or only check whether it could be. Raises AlreadyExists.

        A dry run goes through everything that a creation does, admission included, and stores nothing.
        """
        ...

    async def replace(self, kind: Kind, thing: Object, *, subresource: str | None = None) -> Object:
        """Replace an object, if it still has the `resourceVersion` that is given. Raises NotFound, Conflict."""
        ...

    async def patch(self, kind: Kind, namespace: str, name: str, change: Object) -> Object:
        """Apply a JSON merge patch; one with a `resourceVersion` fails on any other. Raises NotFound, Conflict."""
        ...

    async def resize(self, namespace: str, pod: str, container: str, cpu: str) -> Object:
        """Give a running pod's container another request and limit of processors. Raises NotFound."""
        ...

    async def delete(self, kind: Kind, namespace: str, name: str, *, grace: int | None = None) -> None:
        """Ask for an object's deletion; `grace` is in seconds. An object that is gone is success."""
        ...


async def connect(environment: Mapping[str, str]) -> ApiClient:
    """Return a client for the pod's service account, otherwise for `KUBECONFIG`.

    Raises:
        InvalidInput: neither is there.
    """
    configuration = Configuration()
    try:
        if "KUBERNETES_SERVICE_HOST" in environment:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            # The library's own default is the environment of the moment at which it was imported.
            file = environment.get("KUBECONFIG") or _DEFAULT_KUBECONFIG
            await load_kube_config(config_file=file, client_configuration=configuration)  # type: ignore[no-untyped-call]
    except ConfigException as error:
        raise InvalidInput(
            f"no Kubernetes cluster to connect to: {error}", "Run in a pod, or set KUBECONFIG to a file."
        ) from None
    # Retries would delay callers with a deadline, such as the lease; the next reconciliation is the retry.
    configuration.retries = None
    configuration.client_session_kwargs = {"middlewares": (send_canonically,)}
    return ApiClient(configuration)


@dataclass(slots=True)
class KubernetesCluster:
    """The API server, accessed by a client.

    Args:
        timeout: seconds that one request may take.
        observe: called with the verb, the plural and the seconds of each request.
    """

    client: ApiClient
    timeout: float = 15.0
    observe: Callable[[str, str, float], None] = lambda _verb, _plural, _seconds: None

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """Return an object."""
        return await self._call("GET", kind, kind.path(namespace, name))

    async def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        metadata_only: bool = False,
    ) -> list[Object]:
        """Return the objects of a namespace or of all, that a label selector and a field selector select."""
        found: list[Object] = []
        limit = _PAGE_OF_METADATA if metadata_only else _PAGE
        query: dict[str, str] = {"limit": str(limit)} | ({"labelSelector": labels} if labels else {})
        query |= {"fieldSelector": fields} if fields else {}
        accept = _METADATA_ONLY if metadata_only else "application/json"
        while True:
            page = await self._call("GET", kind, kind.path(namespace), query=query, accept=accept, verb="list")
            # A list of metadata alone says null where there is nothing.
            found += page.get("items") or []
            following = page["metadata"].get("continue")
            if not following:
                return found
            query["continue"] = following

    async def create(self, kind: Kind, thing: Object, *, dry_run: bool = False) -> Object:
        """Create an object, or only check whether it could be."""
        query = {"dryRun": "All"} if dry_run else None
        return await self._call("POST", kind, kind.path(thing["metadata"].get("namespace")), body=thing, query=query)

    async def replace(self, kind: Kind, thing: Object, *, subresource: str | None = None) -> Object:
        """Replace an object, if it still has the `resourceVersion` that is given."""
        meta = thing["metadata"]
        if subresource is not None:
            # The API server accepts nothing else, and a spec may be large or deeply nested.
            identity = {key: meta[key] for key in ("namespace", "name", "uid", "resourceVersion") if key in meta}
            kept = ("apiVersion", "kind", subresource)
            thing = {key: thing[key] for key in kept if key in thing} | {"metadata": identity}
        return await self._call("PUT", kind, kind.path(meta["namespace"], meta["name"], subresource), body=thing)

    async def patch(self, kind: Kind, namespace: str, name: str, change: Object) -> Object:
        """Apply a JSON merge patch."""
        return await self._call(
            "PATCH", kind, kind.path(namespace, name), body=change, content="application/merge-patch+json"
        )

    async def resize(self, namespace: str, pod: str, container: str, cpu: str) -> Object:
        """Give a running pod's container another request and limit of processors."""
        given = {"name": container, "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}
        # A merge patch would replace the list of containers.
        return await self._call(
            "PATCH",
            POD,
            POD.path(namespace, pod, "resize"),
            body={"spec": {"containers": [given]}},
            content="application/strategic-merge-patch+json",
        )

    async def delete(self, kind: Kind, namespace: str, name: str, *, grace: int | None = None) -> None:
        """Ask for an object's deletion."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            await self._call("DELETE", kind, kind.path(namespace, name), body=options)
        except NotFound:
            return

    async def _call(
        self,
        method: str,
        kind: Kind,
        path: str,
        *,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        accept: str = "application/json",
        content: str = "application/json",
        verb: str | None = None,
    ) -> Object:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(self.timeout):
                request = await self.client.param_serialize(
                    method,
                    path,
                    query_params=list(query.items()) if query else [],
                    header_params={"Accept": accept, "Content-Type": content},
                    body=body,
                    auth_settings=["BearerToken"],
                )
                response = await self.client.call_api(*request, _request_timeout=self.timeout)
                answer = await response.read()  # type: ignore[no-untyped-call]
        except (TimeoutError, OSError, aiohttp.ClientError) as error:
            raise Unavailable(f"no answer to {method} {path}: {error or type(error).__name__}") from None
        finally:
            self.observe(verb or method.lower(), kind.plural, loop.time() - started)
        if 200 <= response.status < 300:
            return _decode(answer, method, path)
        raise error_of(response.status, answer, f"{method} {path}")


def error_of(status: int, answer: bytes, request: str) -> ClusterError:
    """Return the error that an answer of the API means."""
    message, reason = answer.decode(errors="replace")[:500], ""
    try:
        said = json.loads(answer)
        message, reason = said.get("message") or message, said.get("reason") or ""
    except (ValueError, AttributeError):
        pass
    what = f"{request} was answered with {status}: {message}"
    if status == 404:
        return NotFound(what, message)
    if status == 409:
        return AlreadyExists(what, message) if reason == "AlreadyExists" else Conflict(what, message)
    if status in (401, 408, 410, 429) or status >= 500:
        return Unavailable(what, message)
    return Refused(what, message)


def _without_managers(part: Object) -> Object:
    """Drop `managedFields` from an object's metadata: the controller does not need them, and they are most of a
    listing."""
    if "resourceVersion" in part:
        part.pop("managedFields", None)
    return part


def _decode(answer: bytes, method: str, path: str) -> Object:
    try:
        found: Any = json.loads(answer, object_hook=_without_managers)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Unavailable(f"{method} {path} was answered with something that is not an object")
    return found
