"""A real API server accepts the resource definitions, fills in defaults, and refuses invalid resources.

Nothing runs here: almost every request is a dry run.
"""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamjob_operator.resources.crd import crds
from streamjob_operator.resources.snapshot import StreamSnapshot
from streamjob_operator.resources.streamjob import StreamJob, StreamJobSpec

ROOT = Path(__file__).resolve().parents[1]
API = "streamjob.io/v1alpha1"
SHORT_JOB: dict[str, Any] = {
    "sources": [{"name": "numbers", "format": "rate", "options": {"rowsPerSecond": 5}}],
    "operators": [{"name": "odd", "inputs": ["numbers"], "sql": "SELECT * FROM numbers WHERE value % 2 = 1"}],
    "sinks": [{"name": "out", "input": "odd", "format": "console"}],
}
SPEC: dict[str, Any] = {"job": SHORT_JOB, "checkpointing": {"location": "s3://snapshots/jobs"}, "suspend": True}


class Server:
    """The API server, as far as the tests ask it."""

    def __init__(self, client: Any, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._types = {
            kind: client.resources.get(api_version=API, kind=kind) for kind in ("StreamJob", "StreamSnapshot")
        }

    def create(
        self, kind: str, spec: dict[str, Any], *, name: str = "departures", keep: bool = False
    ) -> dict[str, Any]:
        """Create an object, or only say what would be created; raise Refused."""
        body = {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
        return self._asked(
            self._types[kind].create, body=body, namespace=self._namespace, **({} if keep else {"dry_run": "All"})
        )

    def update(self, kind: str, before: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
        """Say what an update of a stored object to `spec` would make of it; raise Refused."""
        body = {**before, "spec": spec}
        return self._asked(self._types[kind].replace, body=body, namespace=self._namespace, dry_run="All")

    def patch(self, kind: str, part: str, name: str, change: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Patch a subresource of a stored object; raise Refused."""
        resource = self._types[kind].subresources[part]
        return self._asked(
            resource.patch,
            body=change,
            name=name,
            namespace=self._namespace,
            content_type="application/merge-patch+json",
            **options,
        )

    def get(self, kind: str, name: str, part: str | None = None) -> dict[str, Any]:
        """Return a stored object or a subresource of it."""
        resource = self._types[kind] if part is None else self._types[kind].subresources[part]
        return self._asked(resource.get, name=name, namespace=self._namespace)

    def table(self, kind: str, name: str) -> dict[str, Any]:
        """Return what `kubectl get` prints, by column."""
        path = f"/apis/{API}/namespaces/{self._namespace}/{self._types[kind].name}/{name}"
        accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        found = self._client.request("get", path, header_params=accept).to_dict()
        return dict(zip([each["name"] for each in found["columnDefinitions"]], found["rows"][0]["cells"], strict=True))

    @staticmethod
    def _asked(method: Any, **arguments: Any) -> dict[str, Any]:
        from kubernetes.dynamic.exceptions import DynamicApiError

        try:
            answer: dict[str, Any] = method(**arguments).to_dict()
        except DynamicApiError as error:
            raise Refused(str(json.loads(error.body or "{}").get("message", error))) from None
        return answer


class Refused(AssertionError):
    """The API server refused a request."""


@pytest.fixture(scope="module")
def server(kubeconfig: Path) -> Iterator[Server]:
    """The API server, with the definitions installed and a namespace of its own."""
    import kubernetes

    config: Any = kubernetes.config
    dynamic: Any = kubernetes.dynamic
    client = dynamic.DynamicClient(config.new_client_from_config(str(kubeconfig)))
    definitions = client.resources.get(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition")
    for crd in crds().values():
        definitions.server_side_apply(body=crd, field_manager="e2e", force_conflicts=True)
        until_established(definitions, crd["metadata"]["name"])
    client.resources.invalidate_cache()
    namespaces = client.resources.get(api_version="v1", kind="Namespace")
    name = f"resources-{uuid.uuid4().hex[:8]}"
    namespaces.create(body={"metadata": {"name": name}})
    yield Server(client, name)
    namespaces.delete(name=name)


def until_established(definitions: Any, name: str) -> None:
    """Wait until the API serves a definition, for half a minute at most."""
    for event in definitions.watch(name=name, timeout=30):
        # Null at first.
        status = event["object"].to_dict().get("status") or {}
        conditions = status.get("conditions") or []
        if {"Established": "True"}.items() <= {each["type"]: each["status"] for each in conditions}.items():
            return
    raise AssertionError(f"{name} is not served")


@pytest.fixture(scope="module")
def stored(server: Server) -> dict[str, Any]:
    """A StreamJob that is there, suspended."""
    spec = {**SPEC, "parallelism": 2, "maxParallelism": 8}
    return server.create("StreamJob", spec, name="stored", keep=True)


@pytest.fixture(scope="module")
def snapshot(server: Server) -> dict[str, Any]:
    """A StreamSnapshot that is there, of a job that is not."""
    spec = {"jobRef": {"name": "nobody"}, "savepoint": {"location": "s3://snapshots/kept"}}
    return server.create("StreamSnapshot", spec, name="stored", keep=True)


def with_changes(spec: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a spec with fields replaced, by their paths; None removes."""
    result = copy.deepcopy(spec)
    for path, value in changes.items():
        *steps, last = path.split(".")
        place = result
        for step in steps:
            place = place.setdefault(step, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return result


def test_a_minimal_job_is_accepted_and_filled_in(server: Server) -> None:
    made = server.create("StreamJob", SPEC)

    assert made["spec"]["upgradeMode"] == "savepoint"
    assert made["spec"]["job"] == SHORT_JOB
    assert made["spec"]["checkpointing"] == {"location": "s3://snapshots/jobs"}
    assert StreamJob.model_validate(made).spec == StreamJobSpec.model_validate(SPEC)


def test_an_application_is_accepted(server: Server) -> None:
    application = {"mainApplicationFile": "local:///app/job.py", "checkpointing": {"location": "s3://snapshots/jobs"}}

    assert server.create("StreamJob", application)["spec"]["mainApplicationFile"] == "local:///app/job.py"


def test_parts_of_a_pod_are_kept_as_they_are(server: Server) -> None:
    driver = {
        "cores": 2,
        "coreRequest": "1500m",
        "coreLimit": "3",
        "memory": "2g",
        "env": [{"name": "REGION", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "region"}}}],
        "envFrom": [{"secretRef": {"name": "keys"}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "template": {"spec": {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["broker"]}]}},
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "flights"}}]
    made = server.create("StreamJob", {**SPEC, "driver": driver, "volumes": volumes})

    assert driver.items() <= made["spec"]["driver"].items()
    assert made["spec"]["volumes"] == volumes


def test_both_ways_to_name_an_input_are_accepted(server: Server) -> None:
    operators = [{"name": "loop", "inputs": ["numbers", {"from": "loop", "feedback": True}], "python": "m:f"}]
    made = server.create("StreamJob", with_changes(SPEC, {"job.operators": operators}))

    assert made["spec"]["job"]["operators"] == operators


EXAMPLES = [
    pytest.param(document, id=f"{file.parent.name}/{file.name}")
    for file in sorted((ROOT / "examples" / "kubernetes").rglob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
    if document and document.get("apiVersion") == API
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_are_accepted(server: Server, example: dict[str, Any]) -> None:
    server.create(example["kind"], example["spec"], name=example["metadata"]["name"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"job": None}, "set either job or mainApplicationFile"),
        ({"mainApplicationFile": "local:///app/job.py"}, "set either job or mainApplicationFile"),
        ({"mainApplicationFile": "ftp://x/job.py", "job": None}, "spec.mainApplicationFile"),
        ({"job.name": "arrivals"}, "must equal metadata.name"),
        ({"job.operators": [{"name": "odd", "inputs": ["numbers"], "outputMode": "all"}]}, "outputMode"),
        ({"job.sources": [{"name": "numbers"}]}, "spec.job.sources[0].format: Required value"),
        ({"job.sources": [SHORT_JOB["sources"][0]] * 2}, "Duplicate value"),
        ({"job.checkpointing.interval": "soon"}, "spec.job.checkpointing.interval"),
        ({"parallelism": 0}, "spec.parallelism"),
        ({"parallelism": 4, "maxParallelism": 2}, "parallelism is above maxParallelism"),
        ({"parallelism": 4, "job.maxParallelism": 2}, "parallelism is above maxParallelism"),
        ({"job.parallelism": 4, "maxParallelism": 2}, "parallelism is above maxParallelism"),
        ({"upgradeMode": "lastState"}, "spec.upgradeMode"),
        ({"checkpointing": None}, "state needs a location"),
        ({"checkpointing": None, "upgradeMode": "last-state"}, "state needs a location"),
        ({"checkpointing.location": "snapshots"}, "spec.checkpointing.location"),
        ({"checkpointing.interval": 10}, "spec.checkpointing.interval"),
        ({"checkpointing.numRetained": 0}, "spec.checkpointing.numRetained"),
        ({"savepointRedeployNonce": 1}, "savepointRedeployNonce needs a snapshot to start from"),
        (
            {"initialSavepointPath": "s3://a/b", "initialSnapshotRef": {"name": "c"}},
            "both name a snapshot to start from",
        ),
        ({"schedule": {"cron": "1h"}}, "spec.schedule.cron"),
        ({"schedule": {"cron": "0 3 * * *", "timeZone": "/etc/passwd"}}, "spec.schedule.timeZone"),
        (
            {"schedule": {"cron": "0 3 * * *"}, "upgradeMode": "stateless"},
            "each run continues from the last checkpoint",
        ),
        ({"schedule": {"cron": "0 3 * * *"}, "driver.standby": 1}, "it needs no standby"),
        ({"schedule": {"cron": "0 3 * * *"}, "upgrade.warmSuccessor": True}, "no successor is prepared"),
        ({"schedule": {"cron": "0 3 * * *"}, "autoscaling.mode": "Advise"}, "a job that runs all the time"),
        ({"savepoints.schedule": "often"}, "spec.savepoints.schedule"),
        ({"savepoints.drain": True}, "drain applies to the savepoint on deletion"),
        ({"savepoints.retention.maxCount": 0}, "spec.savepoints.retention.maxCount"),
        ({"storage.credentialsSecretRef": {}}, "spec.storage.credentialsSecretRef.name: Required value"),
        ({"storage.endpoint": "minio:9000"}, "spec.storage.endpoint"),
        ({"storage.endpoint": "https://name:secret@minio:9000"}, "spec.storage.endpoint"),
        ({"upgrade.compatibilityCheck": "Maybe"}, "spec.upgrade.compatibilityCheck"),
        ({"driver.memory": "lots"}, "spec.driver.memory"),
        (
            {"driver.coreRequest": "2", "driver.coreLimit": "1500m"},
            "coreLimit is below the request of coreRequest or cores",
        ),
        ({"driver.cores": 2, "driver.coreLimit": "1500m"}, "coreLimit is below the request of coreRequest or cores"),
        ({"driver.env": [{"value": "x"}]}, "spec.driver.env[0].name: Required value"),
        ({"executor": {"instances": 2}, "parallelism": 3}, "parallelism is not executor.instances times"),
        ({"executor": {"instances": 2}, "job.parallelism": 3}, "parallelism is not executor.instances times"),
        ({"executor": {"instances": 2, "cores": 2}, "maxParallelism": 3}, "parallelism is above maxParallelism"),
        ({"executor": {}}, "set executor.instances, or a parallelism"),
        ({"executor": {"cores": 2}, "parallelism": 3}, "a multiple of executor.cores"),
        ({"executor": {"instances": 0}}, "spec.executor.instances"),
        (
            {"executor": {"instances": 2}, "checkpointing": None, "upgradeMode": "stateless"},
            "a location that all pods reach",
        ),
    ],
)
def test_a_job_that_cannot_be_used_is_refused(server: Server, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as error:
        server.create("StreamJob", with_changes(SPEC, changes))

    assert said in str(error.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpointing": None, "upgradeMode": "stateless"},
        {"checkpointing": None, "job.checkpointing.location": "s3://snapshots/jobs"},
        {"job.name": "departures"},
        {"parallelism": 4, "maxParallelism": 4},
        {"savepointRedeployNonce": 1, "initialSnapshotRef": {"name": "monday"}},
        {"savepoints.schedule": "0 3 * * *"},
        {"schedule": {"cron": "0 3 * * mon-fri", "timeZone": "Europe/Berlin", "startingDeadline": "1h", "runNonce": 1}},
        {"schedule": {"cron": "0 3 * * *"}, "executor": {"instances": 2}},
        {"savepoints.drain": True, "savepoints.onDeletion": True},
        {"driver.coreRequest": "500m", "driver.coreLimit": "1"},
        {"executor": {"instances": 2}},
        {"executor": {"instances": 2, "cores": 2}, "parallelism": 4, "maxParallelism": 4},
        {"executor": {"cores": 2}, "parallelism": 2, "autoscaling.mode": "Act"},
        {"executor": {"cores": 2}, "parallelism": 4},
        {"executor": {}, "parallelism": 4, "autoscaling.mode": "Act"},
        {"executor": {"cores": 2}, "job.parallelism": 4},
        {"job.sources": [{"name": "a", "format": "rate", "watermark": {"column": "t", "delay": "1 hour"}}]},
        {"sparkConf": {"spark.sql.ansi.enabled": True, "spark.sql.shuffle.spill.numElements": 5}},
    ],
)
def test_a_job_that_can_be_used_is_accepted(server: Server, changes: dict[str, Any]) -> None:
    spec = with_changes(SPEC, changes)

    assert StreamJob.model_validate(server.create("StreamJob", spec)).spec == StreamJobSpec.model_validate(spec)


def test_a_name_that_is_too_long_for_pods_is_refused(server: Server) -> None:
    assert server.create("StreamJob", SPEC, name="n" * 48)
    with pytest.raises(Refused, match="the name is too long"):
        server.create("StreamJob", SPEC, name="n" * 49)


def test_a_job_is_scaled(server: Server, stored: dict[str, Any]) -> None:
    assert server.get("StreamJob", "stored", "scale")["spec"]["replicas"] == 2

    server.patch("StreamJob", "scale", "stored", {"spec": {"replicas": 3}})

    assert server.get("StreamJob", "stored")["spec"]["parallelism"] == 3


def test_a_job_is_scaled_by_whole_executors(server: Server) -> None:
    server.create("StreamJob", with_changes(SPEC, {"executor": {"cores": 2}, "parallelism": 4}), name="wide", keep=True)
    server.create("StreamJob", with_changes(SPEC, {"executor": {"instances": 2}}), name="fixed", keep=True)

    server.patch("StreamJob", "scale", "wide", {"spec": {"replicas": 6}})
    with pytest.raises(Refused, match=r"a multiple of executor\.cores"):
        server.patch("StreamJob", "scale", "wide", {"spec": {"replicas": 5}})
    with pytest.raises(Refused, match="needs executor without instances"):
        server.patch("StreamJob", "scale", "fixed", {"spec": {"replicas": 3}})

    assert StreamJobSpec.model_validate(server.get("StreamJob", "wide")["spec"]).instances == 3


def test_a_job_is_not_scaled_beyond_its_state_partitions(server: Server, stored: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="parallelism is above maxParallelism"):
        server.patch("StreamJob", "scale", "stored", {"spec": {"replicas": 9}})


def test_a_job_that_no_controller_has_seen_is_not_current(server: Server) -> None:
    made = server.create("StreamJob", SPEC)

    assert made["status"]["lifecycleState"] == "CREATED"
    assert {each["type"]: each["status"] for each in made["status"]["conditions"]} == {
        "Ready": "Unknown",
        "Reconciling": "True",
    }


def test_the_status_is_written_beside_the_spec(server: Server, stored: dict[str, Any]) -> None:
    status = {
        "lifecycleState": "STABLE",
        "jobStatus": {"state": "RUNNING", "restarts": 4},
        "checkpoint": {"lastCompleted": {"id": 12, "kind": "checkpoint", "path": "s3://a/b"}},
    }
    made = server.patch("StreamJob", "status", "stored", {"spec": {"image": "other"}, "status": status}, dry_run="All")

    assert made["status"]["jobStatus"] == {"state": "RUNNING", "restarts": 4}
    assert "image" not in made["spec"]


def test_the_columns_tell_how_a_job_is(server: Server, stored: dict[str, Any]) -> None:
    columns = server.table("StreamJob", "stored")

    assert columns["State"] == server.get("StreamJob", "stored")["status"]["lifecycleState"]
    assert list(columns)[:7] == ["Name", "State", "Job", "Ready", "Checkpoint", "Taken", "Restarts"]


@pytest.mark.parametrize(
    "wanted",
    [
        {"savepoint": {}},
        {"checkpoint": {}},
        {"savepoint": {"disposeOnDelete": True}},
        {"savepoint": {"path": "s3://snapshots/departures-7-abc/manifest.json"}},
    ],
)
def test_a_snapshot_is_accepted(server: Server, wanted: dict[str, Any]) -> None:
    made = server.create("StreamSnapshot", {"jobRef": {"name": "departures"}, **wanted})

    assert made["spec"]["backoffLimit"] == -1
    assert made["status"]["state"] == "Pending"
    assert wanted.keys() == made["spec"].keys() - {"jobRef", "backoffLimit"}
    assert StreamSnapshot.model_validate(made).spec.job_ref.name == "departures"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"jobRef": {"name": "departures"}}, "set either savepoint or checkpoint"),
        ({"jobRef": {"name": "departures"}, "savepoint": {}, "checkpoint": {}}, "set either savepoint or checkpoint"),
        ({"savepoint": {}}, "spec.jobRef: Required value"),
        ({"jobRef": {"name": "departures"}, "savepoint": {}, "backoffLimit": -2}, "spec.backoffLimit"),
        ({"jobRef": {"name": "departures"}, "savepoint": {"location": "nowhere"}}, "spec.savepoint.location"),
        ({"jobRef": {"name": "departures"}, "savepoint": {"path": "nowhere"}}, "spec.savepoint.path"),
        (
            {"jobRef": {"name": "departures"}, "savepoint": {"location": "s3://a/b", "path": "s3://a/c"}},
            "path names an existing savepoint",
        ),
    ],
)
def test_a_snapshot_that_cannot_be_taken_is_refused(server: Server, spec: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as error:
        server.create("StreamSnapshot", spec)

    assert said in str(error.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"jobRef.name": "another"}, "cannot be changed: create another StreamSnapshot"),
        ({"savepoint": None, "checkpoint": {}}, "savepoint and checkpoint cannot be changed"),
        ({"savepoint.location": "s3://snapshots/elsewhere"}, "savepoint and checkpoint cannot be changed"),
        ({"savepoint.location": None}, "savepoint and checkpoint cannot be changed"),
        ({"savepoint": {"path": "s3://snapshots/x"}}, "savepoint and checkpoint cannot be changed"),
    ],
)
def test_a_snapshot_stays_what_it_is(
    server: Server, snapshot: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    snapshot = server.get("StreamSnapshot", "stored")
    with pytest.raises(Refused, match=said):
        server.update("StreamSnapshot", snapshot, with_changes(snapshot["spec"], changes))


def test_whether_a_snapshots_files_go_with_it_can_be_decided_later(server: Server, snapshot: dict[str, Any]) -> None:
    snapshot = server.get("StreamSnapshot", "stored")
    changed = with_changes(snapshot["spec"], {"savepoint.disposeOnDelete": True, "backoffLimit": 3})

    assert server.update("StreamSnapshot", snapshot, changed)["spec"]["savepoint"]["disposeOnDelete"] is True
