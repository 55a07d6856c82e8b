"""A driver pod as the controller builds it runs a job on its own: no controller is needed for what is in a pod."""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from typing import Any

import pytest
from e2e.harness.cluster import Object
from e2e.harness.namespace import DATA, Namespace

from streamjob.protocol.log.records import JobId, LogView, read
from streamjob.store.effects import drive
from streamjob.store.opening import open_location
from streamjob_operator.decisions.values.actions import CreateDriver
from streamjob_operator.decisions.values.revision import Revision, revision_of
from streamjob_operator.objects import driver_pod, job_config_map, token_secret
from streamjob_operator.resources.base import Metadata
from streamjob_operator.resources.streamjob import StreamJobSpec
from streamjob_operator.storage.job_stores import S3Stores

pytestmark = pytest.mark.timeout(900)

NAME = "visits"
FILES = 30
PAGES = ("home", "search", "cart")


def visits(files: int) -> dict[str, str]:
    """Return that many files of visits: one second later, and one row longer, each."""
    lines = {
        f"visits/{number:03}.csv": [f"2024-01-01 00:00:{number:02},{PAGES[row % 3]}" for row in range(number + 1)]
        for number in range(files)
    }
    return {name: "\n".join(["seen,page", *rows]) + "\n" for name, rows in lines.items()}


def expected(files: int) -> Counter[tuple[str, str]]:
    """Return what there is to be counted: visits per page and ten seconds."""
    return Counter(
        (f"2024-01-01T00:00:{number // 10}0.000000Z", PAGES[row % 3])
        for number in range(files)
        for row in range(number + 1)
    )


class Drivers:
    """Driver pods of one job, made by hand as the controller makes them."""

    def __init__(self, namespace: Namespace, *, bounded: bool = True, interval: str = "1s") -> None:
        self.namespace = namespace
        spec = StreamJobSpec.model_validate(
            {
                "job": _job(bounded=bounded),
                "maxParallelism": 2,
                "parallelism": 1,
                "checkpointing": {"location": namespace.location, "interval": interval},
                "storage": namespace.storage,
                "driver": {**namespace.driver, "terminationGracePeriodSeconds": 60},
                "volumes": namespace.volumes,
            }
        )
        # An owner that does not exist would have its objects collected.
        self._owner = Metadata(name=NAME, namespace=namespace.name, uid="00000000-0000-4000-8000-000000000000")
        self._revision: Revision = revision_of(NAME, spec)
        self._create(token_secret(self._owner, secrets.token_urlsafe(32)))
        self._create(job_config_map(self._owner, self._revision))

    def start(self, attempt: int, **pod: Any) -> str:
        """Create the pod of an attempt and return its name."""
        action = CreateDriver(attempt=attempt, revision=self._revision.name, require_snapshot=attempt > 1)
        built = driver_pod(self._owner, self._revision, action, default_image=self.namespace.image)
        built["spec"]["securityContext"] |= pod
        self._create(built)
        return str(built["metadata"]["name"])

    def log(self) -> LogView:
        """Return the job's log as it is stored now."""
        place = open_location(self.namespace.location).job(self.namespace.name, NAME)
        store = S3Stores()(place.uri, self.namespace.environment)
        try:
            return drive(store, read(JobId(self.namespace.name, NAME), checkpoints=100))
        finally:
            store.close()

    def wait_for_checkpoints(self, count: int, within: float = 120.0) -> None:
        """Wait until that many checkpoints are completed."""
        end = time.monotonic() + within
        while len(self.log().completions) < count:
            assert time.monotonic() < end, f"no {count} checkpoints within {within:g} s"
            time.sleep(0.3)

    def _create(self, thing: Object) -> None:
        del thing["metadata"]["ownerReferences"]
        self.namespace.cluster.create(thing)


def _job(*, bounded: bool) -> Object:
    return {
        "sources": [
            {
                "name": "visits",
                "format": "csv",
                "schema": "seen TIMESTAMP, page STRING",
                "options": {"path": f"{DATA}/visits", "header": True, "maxFilesPerTrigger": 1},
                "bounded": bounded,
                "watermark": {"column": "seen", "delay": "1s"},
            }
        ],
        "operators": [
            {
                "name": "counts",
                "inputs": ["visits"],
                "sql": "SELECT window.start AS moment, page, count(*) AS visits FROM visits"
                " GROUP BY window(seen, '10 seconds'), page",
            }
        ],
        "sinks": [{"name": "report", "input": "counts", "format": "json", "options": {"path": f"{DATA}/report"}}],
    }


def end_of(pod: Object) -> tuple[int, Object]:
    """Return how a driver's container ended: its exit code, and its termination message."""
    (status,) = pod["status"]["containerStatuses"]
    ended = status["state"]["terminated"]
    return int(ended["exitCode"]), dict(json.loads(ended["message"]))


def published(namespace: Namespace) -> list[tuple[tuple[str, str], int]]:
    """Return what the sink has published, as (moment, page) and their count."""
    return sorted(((row["moment"], row["page"]), row["visits"]) for row in namespace.rows("report"))


def test_a_bounded_job_runs_to_its_end_with_its_checkpoints_on_s3(namespace: Namespace) -> None:
    namespace.write(visits(12))
    drivers = Drivers(namespace)
    driver = drivers.start(1)

    code, said = end_of(namespace.wait_end(driver))

    assert (code, said["state"]) == (0, "FINISHED"), said
    assert "shared archive" not in namespace.cluster.logs(namespace.name, driver)
    assert drivers.log().finished
    assert published(namespace) == sorted(expected(12).items())


def test_the_next_attempt_goes_on_where_a_killed_one_was(namespace: Namespace) -> None:
    namespace.write(visits(FILES))
    drivers = Drivers(namespace)
    first = drivers.start(1)
    drivers.wait_for_checkpoints(2)

    namespace.delete("Pod", first, grace=0)
    code, said = end_of(namespace.wait_end(drivers.start(2)))

    assert (code, said["state"]) == (0, "FINISHED"), said
    assert drivers.log().attempt == 2
    assert published(namespace) == sorted(expected(FILES).items())


def test_a_pod_that_is_asked_to_go_takes_a_last_checkpoint(namespace: Namespace) -> None:
    namespace.write(visits(3))
    drivers = Drivers(namespace, bounded=False, interval="1h")
    pod = drivers.start(1)
    namespace.wait("Pod", pod, ready, what="ready pod")
    before = len(drivers.log().completions)

    namespace.delete("Pod", pod)
    namespace.wait_gone("Pod", pod)

    assert len(drivers.log().completions) == before + 1


def test_a_user_whom_only_the_cluster_knows_can_run_a_job(namespace: Namespace) -> None:
    namespace.write(visits(3))

    pod = namespace.wait_end(Drivers(namespace).start(1, runAsUser=54321))

    assert end_of(pod)[1]["state"] == "FINISHED"
    assert published(namespace) == sorted(expected(3).items())


def test_an_older_attempt_gives_way_and_says_so(namespace: Namespace) -> None:
    namespace.write(visits(3))
    drivers = Drivers(namespace, bounded=False)
    first = drivers.start(1)
    namespace.wait("Pod", first, ready, what="ready pod")
    drivers.start(2)

    code, said = end_of(namespace.wait_end(first))

    assert (code, said["state"]) == (4, "SUPERSEDED"), said


def ready(pod: Object) -> bool:
    """Return whether a pod is ready."""
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
