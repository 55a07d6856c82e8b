"""The cluster as the controller's benchmark sees it: the controller's own client, and a watch."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import aiohttp
from kubernetes.aio.client import ApiClient

from streamjob_operator.cluster.api import KubernetesCluster, connect
from streamjob_operator.cluster.kinds import Kind, Object

ADDRESS = "bench.streamjob.io/address"
"""The annotation of a pod that names its address; kwok gives it to the pod."""

_REQUEST_SECONDS = 60.0
_WATCH_SECONDS = 1800


class Connection:
    """A client with its connections.

    Args:
        client: the API server's.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.cluster = KubernetesCluster(client, timeout=_REQUEST_SECONDS)

    async def watch(self, kind: Kind, namespace: str, saw: Callable[[str, Object], None]) -> None:
        """Yield all existing objects and then every change, without end; types are those of Kubernetes' watch."""
        query = [("watch", "true"), ("timeoutSeconds", str(_WATCH_SECONDS))]
        while True:
            with suppress(aiohttp.ClientError, asyncio.TimeoutError):
                async for line in self._lines(kind.path(namespace), query, _WATCH_SECONDS + 30.0):
                    event = json.loads(line)
                    if event["type"] != "ERROR":
                        saw(event["type"], event["object"])

    async def text(self, path: str) -> str:
        """Return what the API server answers at a path that is no object."""
        return "".join([line.decode() async for line in self._lines(path, [], _REQUEST_SECONDS)])

    async def _lines(self, path: str, query: list[tuple[str, str]], seconds: float) -> AsyncIterator[bytes]:
        request = await self._client.param_serialize(
            "GET", path, query_params=query, header_params={"Accept": "*/*"}, auth_settings=["BearerToken"]
        )
        answer = (await self._client.call_api(*request, _request_timeout=seconds)).response
        try:
            answer.raise_for_status()
            async for line in answer.content:
                yield line
        finally:
            answer.close()


@asynccontextmanager
async def connected() -> AsyncIterator[Connection]:
    """Connect to the cluster that KUBECONFIG names."""
    client = await connect(os.environ)
    try:
        yield Connection(client)
    finally:
        await client.close()  # type: ignore[no-untyped-call]
