"""The executors of a job: their set, how they and the driver find each other, and who reaches them."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from tests.unit.operator.objects.samples import OWNER, argument, container, pod, revision

from streamjob.errors import InvalidInput
from streamjob_operator.objects import (
    Controller,
    driver_service,
    executor_set,
    executors_policy,
    job_config_map,
    network_policy,
)
from streamjob_operator.resources.base import Metadata
from streamjob_runtime.process import cli, executor_cli


def built(owner: Metadata = OWNER, instances: int = 2, **spec: Any) -> dict[str, Any]:
    """Return the StatefulSet of a spec."""
    executor = {"instances": instances, **spec.pop("executor", {})}
    return executor_set(owner, revision(executor=executor, **spec), instances, default_image="runtime:1")


def template(**spec: Any) -> dict[str, Any]:
    """Return the template of the pods."""
    found: dict[str, Any] = built(**spec)["spec"]["template"]
    return found


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
