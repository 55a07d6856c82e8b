"""The controller's page shows a service account the jobs that it may list, and leads to their drivers."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
import yaml
from e2e.harness.accounts import account
from e2e.harness.cluster import ROOT, Cluster
from e2e.harness.helm import Release
from e2e.harness.namespace import Namespace

from streamjob.page.audiences import READ_AUDIENCE, WRITE_AUDIENCE

pytestmark = [pytest.mark.timeout(1500), pytest.mark.thorough]

QUICK_START = ROOT / "examples" / "kubernetes" / "quick-start"
JOB = "views"


def token(namespace: Namespace, name: str, *audience: str) -> str:
    """Return a token of a service account, as `streamjob ui` asks for it."""
    command = ["kubectl", "create", "token", name, "--namespace", namespace.name]
    command += [part for each in audience for part in ("--audience", each)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def asked(namespace: Namespace, url: str, shown: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    """Ask the page from a pod; return status and answer."""
    data = None if body is None else json.dumps(body)
    script = f"""
import urllib.error, urllib.request
data = {data!r}
request = urllib.request.Request({url!r}, None if data is None else data.encode())
request.add_header("X-Streamjob-Token", {shown!r})
request.add_header("Content-Type", "application/json")
request.add_header("Host", "localhost")
try:
    with urllib.request.urlopen(request, timeout=20) as found:
        print(found.status, found.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""
    status, _, text = namespace.run(script).partition(" ")
    return int(status), json.loads(text)


def test_a_viewer_sees_and_changes_what_its_service_account_may(
    cluster: Cluster, namespace: Namespace, release: Release
) -> None:
    release.install({"watchNamespaces": [namespace.name], "reconcileInterval": "2s", "page": {"enabled": True}})
    cluster.refresh()
    for name in ("traffic.yaml", "job.yaml"):
        thing = yaml.safe_load((QUICK_START / name).read_text())
        thing["metadata"]["namespace"] = namespace.name
        for container in thing["spec"].get("containers", ()):
            container["image"] = namespace.image
        cluster.create(thing)
    namespace.wait("StreamJob", JOB, _is_stable, within=240, what="STABLE")
    account(namespace, "nobody")
    account(namespace, "reader", "get", "list")
    account(namespace, "writer", "get", "list", "update")
    page = f"http://streamjob-page.{release.namespace}"
    job = f"{page}/jobs/{namespace.name}/{JOB}/v1"

    reader = token(namespace, "reader", READ_AUDIENCE)
    status, found = asked(namespace, f"{page}/v1/jobs", reader)
    assert (status, list(found["jobs"])) == (200, [f"{namespace.name}/{JOB}"])
    assert found["viewer"] == f"system:serviceaccount:{namespace.name}:reader"
    assert asked(namespace, f"{page}/v1/jobs", token(namespace, "nobody", READ_AUDIENCE))[1]["jobs"] == {}
    assert asked(namespace, f"{page}/v1/jobs", token(namespace, "reader", "https://elsewhere"))[0] == 401
    assert asked(namespace, f"{page}/v1/jobs", "no-token")[0] == 401

    status, through = asked(namespace, f"{job}/job", reader)
    assert (status, through["name"], through["state"]) == (200, JOB, "RUNNING")
    assert asked(namespace, f"{job}/checkpoints", reader, {})[0] == 403
    assert asked(namespace, f"{job}/checkpoints", token(namespace, "writer", READ_AUDIENCE), {})[0] == 403

    writer = token(namespace, "writer", WRITE_AUDIENCE)
    assert asked(namespace, f"{job}/checkpoints", writer, {})[0] == 202
    assert asked(namespace, f"{job}/suspend", writer, {"suspend": True})[0] == 200
    namespace.wait("StreamJob", JOB, _is_suspended, within=120, what="SUSPENDED")
    status, known = asked(namespace, f"{job}/resource", reader)
    assert (status, known["row"]["tone"]) == (200, "still")
    assert known["checkpointPath"]
    assert asked(namespace, f"{job}/job", reader)[0] == 503
    namespace.delete("StreamJob", JOB)
    namespace.wait_gone("StreamJob", JOB)


def _is_stable(thing: dict[str, Any]) -> bool:
    return bool((thing.get("status") or {}).get("lifecycleState") == "STABLE")


def _is_suspended(thing: dict[str, Any]) -> bool:
    return bool((thing.get("status") or {}).get("lifecycleState") == "SUSPENDED")
