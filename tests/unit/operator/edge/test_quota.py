"""Whether a pod that a quota rejects would fit in the place of the one that runs."""

from __future__ import annotations

from decimal import Decimal

import pytest

from streamjob_operator.cluster.kinds import Object
from streamjob_operator.cluster.quota import excess, fits_without, usage

SAYS = 'pods "job-driver-2" is forbidden: exceeded quota: exact, requested: {}, used: {}, limited: {}'


def a_pod(cpu: str = "500m", memory: str = "1Gi", **spec: object) -> Object:
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "streamjob", "resources": {"requests": requests, "limits": {"memory": memory}}}
    return {"spec": {"containers": [container], **spec}}


@pytest.mark.parametrize(
    ("requested", "used", "limited", "fits"),
    [
        ("pods=1", "pods=1", "pods=1", True),
        ("pods=1", "pods=2", "pods=1", False),
        ("requests.cpu=500m", "requests.cpu=500m", "requests.cpu=800m", True),
        ("requests.cpu=900m", "requests.cpu=500m", "requests.cpu=800m", False),
        ("cpu=500m,memory=1Gi", "cpu=1,memory=2Gi", "cpu=1,memory=2Gi", True),
        ("cpu=500m,memory=3Gi", "cpu=1,memory=2Gi", "cpu=1,memory=2Gi", False),
        ("limits.memory=1Gi", "limits.memory=1Gi", "limits.memory=1536Mi", True),
        ("persistentvolumeclaims=1", "persistentvolumeclaims=1", "persistentvolumeclaims=1", False),
    ],
)
def test_a_pod_fits_if_the_quota_is_kept_once_the_one_that_runs_has_gone(
    requested: str, used: str, limited: str, fits: bool
) -> None:
    exceeded = excess(SAYS.format(requested, used, limited))

    assert exceeded is not None
    assert fits_without(exceeded, a_pod()) is fits


@pytest.mark.parametrize(
    "message",
    [
        'pods "a" is forbidden: error looking up service account a/b: serviceaccount "b" not found',
        'pods "a" is forbidden: failed quota: exact: must specify cpu for: streamjob',
        "exceeded quota: exact, requested: cpu=lots, used: cpu=1, limited: cpu=1",
        "",
    ],
)
def test_any_other_rejection_is_not_taken_for_one_of_a_quota(message: str) -> None:
    assert excess(message) is None


def test_sidecars_count_with_the_containers_and_the_largest_container_before_them_counts_alone() -> None:
    first = {"name": "fetch", "resources": {"requests": {"cpu": "3"}}}
    beside = {"name": "log", "restartPolicy": "Always", "resources": {"requests": {"cpu": "250m"}}}
    pod = a_pod(initContainers=[beside, first], overhead={"cpu": "10m"})

    found = usage(pod)

    assert found["cpu"] == found["requests.cpu"] == Decimal("3.26")
    assert found["limits.memory"] == Decimal(1024**3)
    assert found["pods"] == 1
