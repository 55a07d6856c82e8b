"""Scenarios on a real cluster; `make e2e` runs them.

With `CI=true` a missing cluster fails them, elsewhere they are skipped.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from e2e.harness.cluster import Cluster, NoCluster, Where, find_kubeconfig
from e2e.harness.controller import ControllerProcess, StreamJobs, define_resources, running_controller
from e2e.harness.helm import Release
from e2e.harness.images import Images, prepare_images
from e2e.harness.namespace import Namespace
from e2e.harness.shouting import PARTITIONS
from tests.servers.kafka import KafkaServer
from tests.servers.s3 import S3Server

_NAMESPACES = pytest.StashKey[list[Namespace]]()


@pytest.fixture(scope="session", autouse=True)
def kubeconfig() -> Path:
    """The kubeconfig of the cluster, also in the environment of what the scenarios start."""
    try:
        found = find_kubeconfig()
    except NoCluster as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    os.environ["KUBECONFIG"] = str(found)
    return found


@pytest.fixture(scope="session")
def cluster(kubeconfig: Path) -> Cluster:
    """The cluster."""
    return Cluster(kubeconfig)


@pytest.fixture(scope="session")
def images(cluster: Cluster) -> Images:
    """The images, in the cluster."""
    return prepare_images()


@pytest.fixture(scope="session")
def s3(cluster: Cluster) -> Iterator[S3Server]:
    """An S3 server on this machine, where pods reach it: `$E2E_HOST`, or this side of the way to the cluster."""
    with S3Server(host=cluster.way_back) as server:
        yield server


@pytest.fixture
def kafka(cluster: Cluster) -> Iterator[KafkaServer]:
    """A broker on this machine, where pods reach it, with the topics `words` and `shouts`.

    Ask for it before `jobs`: a driver that is deleted writes to it once more.
    """
    with KafkaServer(host=cluster.way_back) as server:
        for topic in ("words", "shouts"):
            server.create_topic(topic, partitions=PARTITIONS)
        yield server


@pytest.fixture
def namespace(request: pytest.FixtureRequest, cluster: Cluster, images: Images, s3: S3Server) -> Iterator[Namespace]:
    """A namespace of the scenario's own, with a volume and the login to S3; gone afterwards."""
    made = Namespace(cluster, f"e2e-{uuid.uuid4().hex[:8]}", s3, images.runtime)
    request.node.stash.setdefault(_NAMESPACES, []).append(made)
    made.make()
    yield made
    cluster.delete(made.where)


@pytest.fixture
def other(cluster: Cluster, images: Images, s3: S3Server, namespace: Namespace) -> Iterator[Namespace]:
    """A second namespace."""
    made = Namespace(cluster, f"{namespace.name}-other", s3, images.runtime)
    made.make()
    yield made
    cluster.delete(made.where)


@pytest.fixture
def release(cluster: Cluster, namespace: Namespace, kubeconfig: Path, images: Images) -> Iterator[Release]:
    """A release of the chart, in a namespace where pods may do as little as Kubernetes can enforce."""
    name = f"{namespace.name}-system"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    made = Release("streamjob", name, kubeconfig, images)
    yield made
    made.uninstall()
    cluster.delete(Where("Namespace", name))


@pytest.fixture(scope="session")
def definitions(cluster: Cluster) -> None:
    """The definitions of the resources, in the cluster."""
    define_resources(cluster)


@pytest.fixture
def controller(definitions: None, namespace: Namespace) -> Iterator[ControllerProcess]:
    """A controller for the scenario's namespace that runs outside the cluster."""
    with running_controller(namespace) as running:
        yield running


@pytest.fixture
def jobs(namespace: Namespace, controller: object) -> Iterator[StreamJobs]:
    """The StreamJobs of the scenario's namespace, which a controller looks after."""
    found = StreamJobs(namespace)
    yield found
    found.remove_all()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what a failed scenario's pods have to say."""
    report = yield
    if report.when == "call" and report.failed:
        for each in item.stash.get(_NAMESPACES, []):
            report.sections.append((f"namespace {each.name}", each.report()))
    return report
