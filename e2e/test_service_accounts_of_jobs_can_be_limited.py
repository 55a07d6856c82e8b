"""The chart's policy on service accounts, as the API server enforces it; no controller takes part."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from e2e.harness.cluster import Cluster, Refused, Where
from tests.integration.charts.rendered import CHART
from tests.servers.go_tools import HELM

POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


@pytest.fixture
def place(cluster: Cluster, definitions: None) -> Iterator[str]:
    """A namespace without a controller."""
    name = f"accounts-{uuid.uuid4().hex[:8]}"
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    cluster.delete(Where("Namespace", name))


@pytest.fixture
def limit(cluster: Cluster, place: str) -> Iterator[Callable[[], None]]:
    """Install the policy for the namespace, as the chart has it; gone afterwards."""
    values = {"watchNamespaces": [place], "driverServiceAccounts": {"restrict": True, "allowed": ["etl"]}}
    template = [str(HELM.find()), "template", "limits", str(CHART), "--namespace", place, "--values", "-"]
    text = subprocess.run(template, input=yaml.safe_dump(values), capture_output=True, text=True, check=True).stdout
    policies = [each for each in yaml.safe_load_all(text) if each and each["kind"] in POLICIES]
    assert len(policies) == 2
    yield lambda: cluster.apply(*policies)
    for each in policies:
        cluster.delete(Where(each["kind"], each["metadata"]["name"]))


def job(place: str, name: str, driver: dict[str, Any] | None) -> dict[str, Any]:
    spec = {"mainApplicationFile": "s3://bucket/job.yaml", "checkpointing": {"location": "s3://bucket/snapshots"}}
    return {
        "apiVersion": "streamjob.io/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": name, "namespace": place},
        "spec": spec | {"suspend": True} | ({} if driver is None else {"driver": driver}),
    }


def by_template(**pod: Any) -> dict[str, Any]:
    return {"template": {"spec": pod}}


def test_only_the_service_accounts_of_the_list_are_taken(
    cluster: Cluster, place: str, limit: Callable[[], None]
) -> None:
    cluster.create(job(place, "before", {"serviceAccount": "admin"}))
    limit()
    until_enforced(cluster, place)

    for number, driver in enumerate(
        (None, {}, {"serviceAccount": "etl"}, {"serviceAccount": "default"}, by_template(serviceAccountName="etl"))
    ):
        cluster.create(job(place, f"allowed-{number}", driver))
    for driver in (by_template(serviceAccountName="admin"), by_template(serviceAccount="admin")):
        with pytest.raises(Refused, match="service account admin is not allowed; allowed are default, etl"):
            cluster.create(job(place, "forbidden", driver))
    for executor in ({"serviceAccount": "admin"}, by_template(serviceAccountName="admin")):
        wide = job(place, "forbidden", None)
        wide["spec"] |= {"executor": {"instances": 2, **executor}}
        with pytest.raises(Refused, match="service account admin is not allowed"):
            cluster.create(wide)

    before = Where("StreamJob", "before", place)
    with pytest.raises(Refused, match="service account admin is not allowed"):
        cluster.patch(before, {"spec": {"suspend": False}})
    # An older resource can be deleted: updates add and remove its finalizer.
    cluster.patch(before, {"metadata": {"finalizers": ["streamjob.io/finalizer"]}})
    cluster.delete(before)
    cluster.patch(before, {"metadata": {"finalizers": None}})
    cluster.wait(before, lambda found: found is None, within=10, what="end of it")


def until_enforced(cluster: Cluster, place: str) -> None:
    """Wait until the API server has taken up the policy, for half a minute at most."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            cluster.create(job(place, f"early-{uuid.uuid4().hex[:8]}", {"serviceAccount": "admin"}))
        except Refused as refused:
            if "service account admin is not allowed" not in str(refused):
                raise
            return
        time.sleep(0.5)
    raise AssertionError("the policy is not enforced")
