"""The executors of a job: their set, how they and the driver find each other, and who reaches them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import typer
from tests.unit.operator.objects.samples import OWNER, argument, container, pod, revision, variables

from streamjob.errors import InvalidInput
from streamjob_operator.objects import (
    Controller,
    disruption_budget,
    driver_service,
    executor_set,
    executors_policy,
    executors_secret,
    job_config_map,
    network_policy,
)
from streamjob_operator.resources.base import Metadata
from streamjob_operator.resources.pods import ExecutorSpec
from streamjob_runtime.process import cli, executor_cli

SHAREABLE = {"name": "extra", "configMap": {"name": "modules"}}


def built(owner: Metadata = OWNER, instances: int = 2, **spec: Any) -> dict[str, Any]:
    """Return the StatefulSet of a spec."""
    executor = {"instances": instances, **spec.pop("executor", {})}
    return executor_set(owner, revision(executor=executor, **spec), instances, default_image="runtime:1")


def template(**spec: Any) -> dict[str, Any]:
    """Return the template of the pods."""
    found: dict[str, Any] = built(**spec)["spec"]["template"]
    return found


def test_a_set_makes_all_its_pods_at_once_and_leaves_their_replacement_to_the_controller() -> None:
    spec = built(instances=3)["spec"]

    assert spec["replicas"] == 3
    assert spec["podManagementPolicy"] == "Parallel"
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_a_set_goes_when_its_streamjob_goes_and_says_of_which_revision_it_is() -> None:
    meta = built()["metadata"]

    assert [each["uid"] for each in meta["ownerReferences"]] == [OWNER.uid]
    assert meta["annotations"]["streamjob.io/revision"] == revision(executor={"instances": 2}).name


def test_an_executor_is_told_where_its_driver_is_and_what_it_may_use() -> None:
    made = template(executor={"cores": 4, "memory": "2g"})
    service = driver_service(OWNER)

    assert container(made)["args"][0] == "executor"
    assert argument(made, "--driver") == f"http://{service['metadata']['name']}.shop:8080"
    assert argument(made, "--cores") == "4"
    assert argument(made, "--memory") == "1536m"
    assert container(made)["resources"] == {
        "requests": {"cpu": "4", "memory": "2867Mi"}, "limits": {"memory": "2867Mi"}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("made", "command"),
    [
        pytest.param(template(executor={"cores": 2}), executor_cli.executor, id="executor"),
        pytest.param(pod(executor={"instances": 2}), cli.run, id="driver"),
    ],
)
def test_the_runtime_knows_the_options_of_the_pods(made: dict[str, Any], command: Any) -> None:
    app = typer.Typer()
    app.command()(command)
    known = {option for each in typer.main.get_command(app).params for option in each.opts}

    assert {each for each in container(made)["args"] if each.startswith("--")} <= known


def test_an_executor_has_the_name_of_its_pod() -> None:
    made = template()

    assert argument(made, "--name") == "$(STREAMJOB_POD_NAME)"
    assert variables(made)["STREAMJOB_POD_NAME"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_driver_and_executors_share_a_secret_of_their_own() -> None:
    secret = executors_secret(OWNER, "one-long-random-word")
    driver = pod(executor={"instances": 2})

    for made in (driver, template()):
        reference = variables(made)["STREAMJOB_EXECUTOR_SECRET"]["secretKeyRef"]
        assert reference["name"] == secret["metadata"]["name"]
        assert base64.b64decode(secret["data"][reference["key"]]) == b"one-long-random-word"
    assert "STREAMJOB_EXECUTOR_SECRET" not in variables(pod())


def test_a_driver_is_told_how_many_executors_come_and_listens_for_them() -> None:
    driver = pod(executor={"instances": 3, "cores": 2})
    ports = {each["name"]: each["containerPort"] for each in container(driver)["ports"]}

    assert argument(driver, "--executors") == "3"
    assert argument(driver, "--executor-cores") == "2"
    assert argument(driver, "--executor-address") == "$(STREAMJOB_DRIVER_ADDRESS)"
    assert variables(driver)["STREAMJOB_DRIVER_ADDRESS"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert (ports["rpc"], ports["blocks"]) == (7078, 7079)


def test_a_driver_without_executors_knows_nothing_of_them() -> None:
    alone = pod()

    assert not [each for each in container(alone)["args"] if "executor" in each]
    assert {each["name"] for each in container(alone)["ports"]} == {"control", "metrics"}


def test_a_driver_is_found_by_its_executors_before_it_is_ready() -> None:
    service = driver_service(OWNER)["spec"]
    labels = pod(executor={"instances": 2})["metadata"]["labels"]

    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"] is True
    assert service["selector"].items() <= labels.items()
    assert not service["selector"].items() <= template()["metadata"]["labels"].items()


@pytest.mark.parametrize("name", ["v", "n" * 48, "1.views.of" + ".a" * 19])
def test_names_are_host_names_whatever_the_job_is_called(name: str) -> None:
    owner = OWNER.model_copy(update={"name": name})
    of_set, service = built(owner)["metadata"]["name"], driver_service(owner)["metadata"]["name"]

    assert len(of_set) <= 52
    assert len(service) <= 63
    assert service[0].isalpha()
    assert "." not in of_set + service
    assert of_set.endswith(OWNER.uid[:8])


def test_only_a_jobs_own_pods_reach_its_executors() -> None:
    (rule,) = executors_policy(OWNER)["spec"]["ingress"]
    peers = [each["podSelector"]["matchLabels"] for each in rule["from"]]

    assert rule["ports"] == [{"protocol": "TCP", "port": 7079}]
    for made in (template()["metadata"], pod(executor={"instances": 2})["metadata"]):
        assert [each for each in peers if each.items() <= made["labels"].items()]
    assert all(each["streamjob.io/uid"] == OWNER.uid for each in peers)


def test_executors_reach_three_ports_of_the_driver_and_have_a_policy_of_their_own() -> None:
    controller = Controller("streamjob-system", {"app": "controller"})
    policy = network_policy(OWNER, controller, executors=True)["spec"]
    *_, rule = policy["ingress"]

    assert [each["port"] for each in rule["ports"]] == [8080, 7078, 7079]
    assert rule["from"][0]["podSelector"]["matchLabels"].items() <= template()["metadata"]["labels"].items()
    assert not policy["podSelector"]["matchLabels"].items() <= template()["metadata"]["labels"].items()
    assert policy["podSelector"]["matchLabels"].items() <= pod()["metadata"]["labels"].items()


def test_an_executor_is_not_root_has_no_token_and_writes_only_to_volumes_of_its_own() -> None:
    made = template()
    security = container(made)["securityContext"]
    writable = {each["mountPath"] for each in container(made)["volumeMounts"] if not each.get("readOnly")}

    assert made["spec"]["automountServiceAccountToken"] is False
    assert made["spec"]["securityContext"]["runAsNonRoot"] is True
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert writable == {"/var/lib/streamjob", "/tmp"}
    assert argument(made, "--work-dir").startswith("/var/lib/streamjob/")


def test_an_executor_leaves_before_its_pod_is_killed() -> None:
    made = template()

    assert int(argument(made, "--grace")) < made["spec"]["terminationGracePeriodSeconds"]


def test_an_executor_is_ready_while_it_is_registered_with_a_driver() -> None:
    made = template()

    assert container(made)["readinessProbe"]["exec"]["command"] == [
        "test", "-f", f"{argument(made, '--work-dir')}/registered"
    ]  # fmt: skip


def test_every_mounted_volume_is_there() -> None:
    specs: tuple[dict[str, Any], ...] = (
        {},
        {"deps": {"configMaps": ["modules"]}},
        {"mainApplicationFile": "s3://code/app.py"},
    )
    for spec in specs:
        made = template(**spec)["spec"]
        volumes = {each["name"] for each in made["volumes"]}
        containers = (*made["containers"], *made.get("initContainers", ()))
        assert {mount["name"] for each in containers for mount in each["volumeMounts"]} <= volumes


def test_modules_and_a_fetched_application_are_where_the_driver_has_them() -> None:
    spec: dict[str, Any] = {"deps": {"configMaps": ["modules"]}, "mainApplicationFile": "s3://code/app.py"}
    made, driver = template(**spec), pod(**spec)
    (job,) = [each for each in made["spec"]["volumes"] if each["name"] == "job"]

    assert job["projected"]["sources"] == [{"configMap": {"name": "modules"}}]
    assert {each["mountPath"] for each in container(made)["volumeMounts"]} >= {"/etc/streamjob/job"}
    assert [each["command"] for each in made["spec"]["initContainers"]] == [
        each["command"] for each in driver["spec"]["initContainers"]
    ]


def test_local_files_are_in_an_empty_directory_unless_a_claim_takes_its_place() -> None:
    volumes = {each["name"]: each for each in template()["spec"]["volumes"]}
    claim: dict[str, Any] = {"metadata": {"name": "work"}, "spec": {"resources": {"requests": {"storage": "20Gi"}}}}
    claimed = built(executor={"volumeClaimTemplates": [claim]})["spec"]

    assert volumes["work"] == {"name": "work", "emptyDir": {}}
    assert [each["name"] for each in claimed["template"]["spec"]["volumes"]] == ["tmp"]
    assert claimed["volumeClaimTemplates"] == [{**claim, "spec": {**claim["spec"], "accessModes": ["ReadWriteOnce"]}}]
    assert claimed["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Delete", "whenScaled": "Delete"}


def spread(**executor: Any) -> list[Any]:
    """Return the constraints by which the pods are spread."""
    found: list[Any] = template(executor=executor)["spec"].get("topologySpreadConstraints", [])
    return found


def test_executors_are_spread_where_that_is_possible_unless_the_user_says_how() -> None:
    own = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}

    assert [each["topologyKey"] for each in spread()] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert {each["whenUnsatisfiable"] for each in spread()} == {"ScheduleAnyway"}
    assert spread(topologySpreadConstraints=[own]) == [own]
    assert spread(topologySpreadConstraints=[]) == []
    assert spread(template={"spec": {"topologySpreadConstraints": [own]}}) == [own]


def test_batch_schedulers_find_their_labels_on_the_pods_and_on_the_set() -> None:
    queue = {"kueue.x-k8s.io/queue-name": "streams"}
    made = built(
        executor={
            "labels": queue,
            "annotations": {"scheduling.volcano.sh/queue-name": "streams"},
            "priorityClassName": "high",
            "template": {"spec": {"schedulerName": "volcano"}},
        }
    )

    for meta in (made["metadata"], made["spec"]["template"]["metadata"]):
        assert meta["labels"].items() >= queue.items()
        assert meta["annotations"]["scheduling.volcano.sh/queue-name"] == "streams"
    assert made["spec"]["template"]["spec"]["schedulerName"] == "volcano"
    assert made["spec"]["template"]["spec"]["priorityClassName"] == "high"


def test_a_template_that_is_none_is_reported_with_its_section() -> None:
    with pytest.raises(InvalidInput, match=r"executor\.template\.spec is str"):
        template(executor={"template": {"spec": "none"}})


def digest(**spec: Any) -> str:
    """Return the digest of the template, which the pods and the set carry."""
    made = built(**spec)
    assert made["metadata"]["labels"]["streamjob.io/executor-template"]
    return str(made["spec"]["template"]["metadata"]["labels"]["streamjob.io/executor-template"])


def test_executors_stay_when_their_number_or_the_job_changes_and_go_when_their_pods_would_differ() -> None:
    before = digest()

    assert digest(instances=5) == before
    assert digest(sparkConf={"spark.sql.ansi.enabled": "true"}) == before
    for change in (
        {"image": "other"},
        {"executor": {"memory": "3g"}},
        {"executor": {"cores": 2}},
        {"restartNonce": 1},
        {"executor": {"volumeClaimTemplates": [{"metadata": {"name": "work"}}]}},
    ):
        assert digest(**change) != before, change


def test_evictions_are_limited_as_the_spec_says_and_never_by_executors_that_are_not_ready() -> None:
    one = disruption_budget(OWNER, ExecutorSpec())["spec"]
    none = disruption_budget(OWNER, ExecutorSpec.model_validate({"podDisruptionBudget": {"maxUnavailable": 0}}))["spec"]

    assert (one["maxUnavailable"], none["maxUnavailable"]) == (1, 0)
    assert one["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert one["selector"]["matchLabels"].items() <= template()["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("spec", "instances", "slots"),
    [
        ({"executor": {"instances": 2}}, "2", 2),
        ({"executor": {"instances": 2, "cores": 3}}, "2", 6),
        ({"executor": {"cores": 2}, "parallelism": 8}, "4", 8),
        ({"executor": {"instances": 4, "cores": 2}, "parallelism": 8}, "4", 8),
    ],
)
def test_parallelism_is_executors_times_their_cores(spec: dict[str, Any], instances: str, slots: int) -> None:
    written = job_config_map(OWNER, revision(**spec))["data"]["job.yaml"]

    assert argument(pod(**spec), "--executors") == instances
    assert f"parallelism: {slots}\n" in written


def test_an_application_is_told_its_parallelism_too() -> None:
    made = pod(mainApplicationFile="local:///app/job.py", executor={"instances": 2, "cores": 3})

    assert "parallelism=6" in container(made)["args"]
