"""The admission webhook, as the API server asks it: an invalid spec is rejected with what is wrong with it."""

from __future__ import annotations

import base64
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.harness.cluster import Cluster, Object, Refused, Where
from e2e.harness.controller import ControllerProcess
from e2e.harness.helm import Release
from tests.integration.charts.rendered import CHART
from tests.servers.go_tools import HELM
from tests.unit.operator.webhook.reviews import INVALID, VALID, write_certificate

from streamjob_operator.webhook.server import PATH

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

KIND = "ValidatingWebhookConfiguration"
DENIED = "admission webhook .* denied the request"


class Bare:
    """A namespace without anything in it, as far as a controller's process asks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.image = "none"


@pytest.fixture
def place(cluster: Cluster, definitions: None) -> Iterator[str]:
    """A namespace in which nothing runs."""
    name = f"admission-{uuid.uuid4().hex[:8]}"
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    # No controller is left to take the finalizers off.
    for each in cluster.all("StreamJob", name):
        cluster.patch(Where("StreamJob", each["metadata"]["name"], name), {"metadata": {"finalizers": None}})
    cluster.delete(Where("Namespace", name))


@pytest.fixture
def controller(cluster: Cluster, place: str, tmp_path: Path) -> Iterator[tuple[ControllerProcess, Object]]:
    """A controller that answers reviews on this machine, and how the API server reaches it."""
    host = cluster.way_back
    authority = write_certificate(tmp_path / "certificate", host)
    with socket.socket() as free:
        free.bind((host, 0))
        port = int(free.getsockname()[1])
    served = ("--admission-port", str(port), "--admission-certificate", str(tmp_path / "certificate"))
    log = tmp_path / "controller.log"
    process = ControllerProcess(Bare(place), log, ("--no-leader-election", "--host", host, *served))  # type: ignore[arg-type]
    bundle = base64.b64encode(authority.encode()).decode()
    yield process, {"url": f"https://{host}:{port}{PATH}", "caBundle": bundle}
    if process.exit_code is None:
        process.stop()
    sys.stdout.write(log.read_text())


@pytest.fixture
def webhook(cluster: Cluster, place: str, controller: tuple[ControllerProcess, Object]) -> Iterator[Where]:
    """The webhook's configuration as the chart has it, but for the way to the controller."""
    values = {"watchNamespaces": [place], "admission": {"enabled": True, "timeoutSeconds": 10}}
    template = [str(HELM.find()), "template", "hook", str(CHART), "--namespace", place, "--values", "-"]
    text = subprocess.run(template, input=yaml.safe_dump(values), capture_output=True, text=True, check=True).stdout
    (thing,) = (each for each in yaml.safe_load_all(text) if each and each["kind"] == KIND)
    thing["webhooks"][0]["clientConfig"] = controller[1]
    where = Where(KIND, thing["metadata"]["name"])
    # A StreamJob from before the webhook.
    cluster.create(job(place, "before", INVALID))
    cluster.apply(thing)
    yield where
    cluster.delete(where)


def job(place: str, name: str, spec: Object) -> Object:
    return {
        "apiVersion": "streamjob.io/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": name, "namespace": place},
        "spec": spec,
    }


def test_an_invalid_spec_is_rejected_and_what_was_invalid_before_can_go(
    cluster: Cluster, place: str, webhook: Where, controller: tuple[ControllerProcess, Object]
) -> None:
    until_asked(cluster, place)
    wrong: dict[str, Any] = {
        **VALID,
        "job": {**VALID["job"], "sinks": [{**VALID["job"]["sinks"][0], "input": "nobody"}]},
    }

    cluster.apply(job(place, "valid", VALID))
    with pytest.raises(Refused, match=rf"(?s){DENIED}.*nobody"):
        cluster.apply(job(place, "wrong", wrong))
    with pytest.raises(Refused, match=DENIED):
        cluster.patch(Where("StreamJob", "valid", place), {"spec": {"savepoints": INVALID["savepoints"]}})

    # An older resource keeps its invalid spec, gets and loses its finalizer, and can be deleted.
    before = Where("StreamJob", "before", place)
    cluster.wait(before, lambda it: it and it["metadata"].get("finalizers"), within=60, what="finalizer")
    cluster.patch(before, {"metadata": {"labels": {"team": "a"}}})
    with pytest.raises(Refused, match=DENIED):
        cluster.patch(before, {"spec": {"parallelism": 3}})
    for name in ("before", "valid"):
        cluster.delete(Where("StreamJob", name, place))
        cluster.wait(Where("StreamJob", name, place), lambda it: it is None, within=60, what="end of it")

    # If the webhook is unreachable, the API server continues without it.
    controller[0].stop()
    cluster.create(job(place, "unchecked", INVALID))


def test_the_chart_installs_the_webhook_and_keeps_its_certificate(cluster: Cluster, release: Release) -> None:
    place = release.namespace
    hook = Where(KIND, f"{place}-streamjob-admission")
    values: dict[str, Any] = {"watchNamespaces": [place], "admission": {"enabled": True, "timeoutSeconds": 10}}
    release.install(values)
    cluster.refresh()
    until_asked(cluster, place)
    cluster.create(job(place, "valid", VALID))

    first = authority(cluster, hook)
    release.install({**values, "replicas": 2})
    assert authority(cluster, hook) == first
    until_asked(cluster, place)

    release.install({**values, "admission": {"enabled": False}})
    assert cluster.get(hook) is None
    # Without a controller its finalizer would keep the namespace.
    cluster.delete(Where("StreamJob", "valid", place))
    cluster.wait(Where("StreamJob", "valid", place), lambda it: it is None, within=60, what="end of it")


def authority(cluster: Cluster, hook: Where) -> str:
    """Return the certificate that the API server trusts."""
    found = cluster.get(hook)
    assert found is not None
    return str(found["webhooks"][0]["clientConfig"]["caBundle"])


def until_asked(cluster: Cluster, place: str) -> None:
    """Wait until the API server asks, and the controller answers."""
    end = time.monotonic() + 90
    while time.monotonic() < end:
        name = f"early-{uuid.uuid4().hex[:8]}"
        try:
            cluster.create(job(place, name, INVALID))
        except Refused as refused:
            if "denied the request" not in str(refused):
                raise
            return
        cluster.delete(Where("StreamJob", name, place))
        time.sleep(0.5)
    raise AssertionError("the API server does not ask the webhook")
