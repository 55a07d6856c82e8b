"""The pods of a driver and of a preflight, which is the same with a check in the place of the job."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.unit.operator.objects.samples import OWNER, action, argument, container, pod, revision, variables

from streamjob_operator.decisions.status.traces import start_context
from streamjob_operator.decisions.values.actions import CreatePreflight
from streamjob_operator.objects import driver_pod, preflight_pod


@pytest.mark.parametrize(("pods", "process"), [(120, 110), (30, 20), (10, 5)])
def test_the_process_ends_before_its_pod_is_killed(pods: int, process: int) -> None:
    built = pod(driver={"terminationGracePeriodSeconds": pods})

    assert built["spec"]["terminationGracePeriodSeconds"] == pods
    assert argument(built, "--grace") == str(process)


def test_a_driver_that_a_span_waits_for_has_the_span_in_its_environment() -> None:
    of = revision()
    built = driver_pod(OWNER, of, action(of), default_image="runtime:1", traced=True)

    assert variables(built)["TRACEPARENT"] == start_context(OWNER.uid, 3).traceparent
    assert "TRACEPARENT" not in variables(pod())


def test_a_sidecar_does_not_keep_a_pod_whose_job_has_ended() -> None:
    built = pod(
        driver={
            "sidecars": [{"name": "proxy", "image": "proxy"}],
            "initContainers": [{"name": "wait", "image": "wait"}],
        }
    )

    assert built["spec"]["initContainers"] == [
        {"name": "wait", "image": "wait"},
        {"name": "proxy", "image": "proxy", "restartPolicy": "Always"},
    ]
    assert len(built["spec"]["containers"]) == 1


def test_building_a_pod_leaves_the_revision_as_it_was() -> None:
    driver = {"template": {"spec": {"containers": [{"name": "streamjob", "env": []}]}}}
    first, second = pod(driver=driver), pod(driver=driver)

    first["spec"]["containers"][0]["env"].append({"name": "MORE"})

    assert first != second == pod(driver=driver)


DRIVER: dict[str, Any] = {
    "env": [{"name": "A", "value": "b"}],
    "envFrom": [{"secretRef": {"name": "more"}}],
    "nodeSelector": {"disk": "fast"},
    "serviceAccount": "views",
    "labels": {"team": "shop"},
    "sidecars": [{"name": "proxy", "image": "proxy:1"}],
    "initContainers": [{"name": "prepares", "image": "other:1"}],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    "template": {"spec": {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["kafka"]}]}},
}
SPECS: list[dict[str, Any]] = [
    {},
    {"driver": DRIVER, "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
    {"storage": {"endpoint": "http://s3:9000", "credentialsSecretRef": {"name": "keys"}}},
    {"mainApplicationFile": "s3://code/job.py", "parallelism": 3},
    {"image": "own:1", "imagePullSecrets": [{"name": "pull"}], "deps": {"configMaps": ["modules"]}},
    {"executor": {"instances": 2}},
]


def made(of: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the pod of a spec's preflight."""
    stored = revision(**of)
    asked = CreatePreflight(number=5, revision=stored.name, **changes)
    return preflight_pod(OWNER, stored, asked, default_image="runtime:1")


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_it_runs_where_and_with_what_its_driver_would_run(spec: dict[str, Any]) -> None:
    preflight, driver = made(spec), pod(**spec)

    assert preflight["metadata"]["name"] == "views-preflight-5"
    assert preflight["metadata"]["annotations"] == driver["metadata"]["annotations"]
    assert preflight["metadata"]["ownerReferences"] == driver["metadata"]["ownerReferences"]
    control = {"volumes", "containers"}
    same = [{name: each["spec"][name] for name in each["spec"] if name not in control} for each in (preflight, driver)]
    assert same[0] == same[1]
    volumes = [each for each in driver["spec"]["volumes"] if each["name"] != "control"]
    assert preflight["spec"]["volumes"] == volumes
    own, its = container(preflight), container(driver)
    for name in ("image", "imagePullPolicy", "resources", "securityContext", "terminationMessagePath"):
        assert own[name] == its[name]
    assert own.get("envFrom") == its.get("envFrom")
    wanted = {name: value for name, value in variables(driver).items() if name != "STREAMJOB_EXECUTOR_SECRET"}
    assert variables(preflight) == wanted


def test_it_serves_nothing_and_is_taken_for_no_driver() -> None:
    preflight = made({"driver": {"labels": {"team": "shop"}}})

    assert not {"ports", "startupProbe", "livenessProbe", "readinessProbe"} & container(preflight).keys()
    labels = preflight["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == "preflight"
    assert labels["streamjob.io/preflight"] == "5"
    assert labels["team"] == "shop"
    assert "streamjob.io/attempt" not in labels
    assert "control" not in [each["name"] for each in container(preflight)["volumeMounts"]]


def test_it_checks_the_file_of_the_driver_against_the_snapshot_that_the_driver_starts_from() -> None:
    preflight, driver = made({}), pod()

    assert container(preflight)["args"][:2] == ["check", container(driver)["args"][1]]
    for option in ("--namespace", "--name", "--location", "--from"):
        assert argument(preflight, option) == argument(driver, option)
    options = {"--allow-non-restored-state", "--strict", "--require-snapshot"}
    assert not options & set(container(preflight)["args"])
    assert "--require-snapshot" in container(made({}, require_snapshot=True))["args"]
    assert "--strict" in container(made({}, strict_migration=True))["args"]
    elsewhere = made({}, restore_from="none", location="s3://state/before", allow_non_restored_state=True)
    assert argument(elsewhere, "--from") == "none"
    assert argument(elsewhere, "--location") == "s3://state/before"
    assert "--allow-non-restored-state" in container(elsewhere)["args"]


def test_an_application_is_checked_with_the_fields_of_its_resource() -> None:
    spec: dict[str, Any] = {"mainApplicationFile": "local:///app/job.py", "parallelism": 3}
    arguments = [container(each)["args"] for each in (made(spec), pod(**spec))]

    sets = [[given for option, given in pairwise(each) if option == "--set"] for each in arguments]
    assert sets[0] == sets[1]
    assert "parallelism=3" in sets[0]


def test_it_has_the_memory_of_one_process() -> None:
    of = revision(driver={"standby": 1})
    alone = driver_pod(OWNER, revision(), action(revision()), default_image="runtime:1")

    preflight = made({"driver": {"standby": 1}})

    assert of.spec().driver.standby == 1
    assert container(preflight)["resources"] == container(alone)["resources"]
