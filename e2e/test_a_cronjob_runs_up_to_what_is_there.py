"""The CronJob of the how-to, as it is printed: each run reads what is there, and a killed pod is repeated."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
import yaml
from e2e.harness.cluster import Object
from e2e.harness.namespace import DATA, DATA_CLAIM, S3_SECRET, Namespace
from e2e.harness.visits import expected, last_visit, visits, visits_job
from tests.architecture.documents import blocks

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "departures"


def printed(namespace: Namespace) -> Object:
    """Return the CronJob of the page, with the namespace's image, bucket, volume and small resources."""
    page = "docs/how-to/run-on-a-schedule.md"
    (text,) = (each.text for each in blocks() if each.document == page and "kind: CronJob" in each.text)
    cron: Object = yaml.safe_load(text.replace("s3://my-bucket/snapshots", namespace.location))
    pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": S3_SECRET}}]
    container["image"] = namespace.image
    container["env"] += [
        {"name": "AWS_ENDPOINT_URL", "value": namespace.storage["endpoint"]},
        {"name": "AWS_REGION", "value": namespace.storage["region"]},
    ]
    container["resources"] = {"requests": {"cpu": "100m", "memory": "768Mi"}}
    container["volumeMounts"].append({"name": DATA_CLAIM, "mountPath": DATA})
    pod["volumes"] += namespace.volumes
    return cron


def start(namespace: Namespace, cron: Object, name: str) -> None:
    """Begin a run at once, as `kubectl create job --from=cronjob/…` does."""
    namespace.create("batch/v1", "Job", name, spec=cron["spec"]["jobTemplate"]["spec"])


def end(namespace: Namespace, name: str) -> Object:
    """Wait until a run has ended well."""

    def is_over(job: Object) -> bool:
        conditions: list[Any] = job.get("status", {}).get("conditions", [])
        return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)

    job = namespace.wait("Job", name, is_over, within=300.0, what=f"end of run {name}")
    assert job["status"].get("succeeded") == 1, job["status"]
    return job


def running_pod(namespace: Namespace, run: str, within: float = 120.0) -> str:
    """Wait until the pod of a run is running, and return its name."""
    end = time.monotonic() + within
    while True:
        for pod in namespace.all("Pod", f"job-name={run}"):
            if pod["status"]["phase"] == "Running":
                return str(pod["metadata"]["name"])
        assert time.monotonic() < end, f"run {run} has no running pod"
        time.sleep(0.3)


def reported(namespace: Namespace) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for row in namespace.rows(f"report-{NAME}"):
        found[row["moment"], row["page"]] += row["visits"]
    return found


def test_runs_of_a_cronjob_continue_each_other_and_a_killed_pod_is_repeated(namespace: Namespace) -> None:
    cron = printed(namespace)
    file = {"name": NAME, **visits_job(NAME, bounded=False)}
    namespace.create("v1", "ConfigMap", NAME, data={"job.yaml": yaml.safe_dump(file)})
    namespace.create("batch/v1", "CronJob", NAME, spec={**cron["spec"], "suspend": True})

    namespace.write(visits(0, 20))
    start(namespace, cron, "first")
    assert end(namespace, "first")["status"].get("failed", 0) == 0
    assert reported(namespace) == Counter()

    namespace.write(visits(20, 40) | last_visit())
    start(namespace, cron, "second")
    killed = running_pod(namespace, "second")
    namespace.delete("Pod", killed, grace=0)
    end(namespace, "second")
    assert [each["metadata"]["name"] for each in namespace.all("Pod", "job-name=second")] != [killed]
    assert reported(namespace) == expected(40)

    start(namespace, cron, "third")
    end(namespace, "third")
    assert reported(namespace) == expected(40)
