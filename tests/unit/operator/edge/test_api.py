"""Requests to the Kubernetes API as they go over the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from streamjob.errors import InvalidInput
from streamjob_operator.cluster.api import Conflict, KubernetesCluster, NotFound, Unavailable, connect
from streamjob_operator.cluster.kinds import CONTROLLER_REVISION, POD, STREAM_JOB, Object
from streamjob_operator.machinery.watch_audit import serve

JOBS = "/apis/streamjob.io/v1alpha1/namespaces/a/streamjobs"


def against(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
    use: Callable[[KubernetesCluster], Awaitable[Any]],
    **options: Any,
) -> Any:
    """Return what a use of the API comes to, in front of a server that answers like this."""

    async def scenario() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = await serve(app, "127.0.0.1", 0)
        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
        configuration.api_key = {"BearerToken": "Bearer abc"}
        client = ApiClient(configuration)
        try:
            return await use(KubernetesCluster(client, **options))
        finally:
            await client.close()  # type: ignore[no-untyped-call]
            await runner.cleanup()

    return asyncio.run(scenario())


def status(code: int, reason: str) -> web.Response:
    return web.json_response({"kind": "Status", "reason": reason, "message": "because"}, status=code)


def test_a_long_list_is_read_page_by_page() -> None:
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        number = int(request.query.get("continue", "0"))
        following = {"continue": str(number + 1)} if number < 2 else {}
        return web.json_response({"metadata": following, "items": [{"metadata": {"name": str(number)}}]})

    found = against(answer, lambda cluster: cluster.list(POD, "a", labels="x=y"))

    assert [each["metadata"]["name"] for each in found] == ["0", "1", "2"]
    assert {query["labelSelector"] for query in asked} == {"x=y"}


def test_an_empty_list_of_metadata_is_empty() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert "PartialObjectMetadataList" in request.headers["Accept"]
        return web.json_response({"metadata": {}, "items": None})

    assert against(answer, lambda cluster: cluster.list(POD, metadata_only=True)) == []


def test_who_manages_which_field_is_left_out_of_objects_and_of_nothing_else() -> None:
    meta = {"name": "orders", "resourceVersion": "1", "managedFields": [{"manager": "x"}]}
    spec = {"job": {"options": {"managedFields": "kept"}}}

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"metadata": {}, "items": [{"metadata": meta, "spec": spec}]})

    (found,) = against(answer, lambda cluster: cluster.list(STREAM_JOB))

    assert found == {"metadata": {"name": "orders", "resourceVersion": "1"}, "spec": spec}


def test_requests_carry_the_token_and_patches_are_merges() -> None:
    seen: list[tuple[str, str, str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.path, request.headers["Authorization"], await request.json()))
        assert request.content_type == "application/merge-patch+json"
        return web.json_response({"metadata": {"name": "orders"}})

    change: Object = {"metadata": {"finalizers": []}}
    against(answer, lambda cluster: cluster.patch(STREAM_JOB, "a", "orders", change))

    assert seen == [("PATCH", f"{JOBS}/orders", "Bearer abc", change)]


def test_a_pod_is_resized_at_its_subresource_and_its_other_containers_are_not_named() -> None:
    seen: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.path, request.content_type, await request.json()))
        return web.json_response({"metadata": {"name": "driver"}})

    against(answer, lambda cluster: cluster.resize("a", "driver", "streamjob", "1500m"))

    resources = {"requests": {"cpu": "1500m"}, "limits": {"cpu": "1500m"}}
    body = {"spec": {"containers": [{"name": "streamjob", "resources": resources}]}}
    path = "/api/v1/namespaces/a/pods/driver/resize"
    assert seen == [("PATCH", path, "application/strategic-merge-patch+json", body)]


def test_a_status_is_replaced_at_its_subresource() -> None:
    paths: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        paths.append(f"{request.method} {request.path}")
        return status(409, "Conflict")

    thing = {"metadata": {"namespace": "a", "name": "orders", "resourceVersion": "1"}}
    with pytest.raises(Conflict):
        against(answer, lambda cluster: cluster.replace(STREAM_JOB, thing, subresource="status"))
    assert paths == [f"PUT {JOBS}/orders/status"]


def test_deleting_what_is_gone_is_success() -> None:
    bodies: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return status(404, "NotFound")

    against(answer, lambda cluster: cluster.delete(POD, "a", "p", grace=0))

    assert bodies[0]["gracePeriodSeconds"] == 0


def test_an_object_that_is_not_there_is_not_found() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return status(404, "NotFound")

    with pytest.raises(NotFound, match="because"):
        against(answer, lambda cluster: cluster.get(POD, "a", "p"))


def test_an_answer_that_is_no_object_is_no_answer() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text=json.dumps([1, 2]))

    with pytest.raises(Unavailable):
        against(answer, lambda cluster: cluster.get(POD, "a", "p"))


def test_a_server_that_does_not_answer_is_given_up_and_measured() -> None:
    measured: list[tuple[str, str]] = []

    async def answer(_request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    with pytest.raises(Unavailable, match="no answer"):
        against(
            answer,
            lambda cluster: cluster.get(POD, "a", "p"),
            timeout=0.05,
            observe=lambda verb, plural, _seconds: measured.append((verb, plural)),
        )
    assert measured == [("get", "pods")]


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1234"}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {token: abc}}]
"""


async def test_a_client_is_made_from_the_kubeconfig_that_the_environment_names_at_that_moment(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)

    async def host() -> str:
        client = await connect({"KUBECONFIG": str(file)})
        await client.close()  # type: ignore[no-untyped-call]
        found: str = client.configuration.host
        return found

    assert await host() == "http://127.0.0.1:1234"


async def test_an_object_is_created_in_the_bytes_in_which_the_api_server_writes_it(tmp_path: Path) -> None:
    sent: list[bytes] = []

    async def answer(request: web.Request) -> web.Response:
        sent.append(await request.read())
        assert request.content_type == "application/json"
        return web.json_response({"metadata": {"name": "orders-1"}})

    thing = {"metadata": {"namespace": "a", "name": "x"}, "data": {"sql": "a < 1.0", "job": {"ä": 1.0, "b": [1e-7]}}}
    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = await serve(app, "127.0.0.1", 0)
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG.replace(":1234", f":{runner.addresses[0][1]}"))
    client = await connect({"KUBECONFIG": str(file)})
    try:
        await KubernetesCluster(client).create(CONTROLLER_REVISION, thing)
    finally:
        await client.close()  # type: ignore[no-untyped-call]
        await runner.cleanup()

    data = b'{"job":{"b":[1e-7],"\xc3\xa4":1},"sql":"a \\u003c 1.0"}'
    assert sent == [b'{"data":' + data + b',"metadata":{"name":"x","namespace":"a"}}']


async def test_a_kubeconfig_that_is_not_there_is_an_error_that_says_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no Kubernetes cluster") as caught:
        await connect({"KUBECONFIG": str(tmp_path / "none")})

    assert "set KUBECONFIG to a file" in caught.value.fix
