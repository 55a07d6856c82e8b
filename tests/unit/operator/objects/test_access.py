"""Access to a driver's control API."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.unit.operator.objects.samples import OWNER, pod

from streamjob_operator.objects import Controller, network_policy, token_secret
from streamjob_operator.resources.base import Metadata


def test_the_token_is_in_the_secret_that_the_pod_mounts() -> None:
    secret = token_secret(OWNER, "one-long-random-word")
    (control,) = [each for each in pod()["spec"]["volumes"] if each["name"] == "control"]

    assert secret["metadata"]["name"] == control["secret"]["secretName"]
    assert base64.b64decode(secret["data"]["token"]) == b"one-long-random-word"
    assert secret["immutable"] is True
    assert secret["metadata"]["ownerReferences"][0]["uid"] == OWNER.uid


def test_only_the_controller_reaches_the_control_api_of_a_jobs_drivers() -> None:
    policy = network_policy(OWNER, Controller("streamjob-system", {"app": "controller"}))
    (rule,) = [each for each in policy["spec"]["ingress"] if {"protocol": "TCP", "port": 8080} in each["ports"]]
    (peer,) = rule["from"]

    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod()["metadata"]["labels"].items()
    assert peer["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "streamjob-system"}}
    assert peer["podSelector"] == {"matchLabels": {"app": "controller"}}
    assert rule["ports"] == [{"protocol": "TCP", "port": 8080}]


MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


@pytest.mark.parametrize(
    ("told", "rule"),
    [
        pytest.param((), {}, id="from everywhere"),
        pytest.param((MONITORING,), {"from": [MONITORING]}, id="from where the settings say"),
    ],
)
def test_the_metrics_of_drivers_can_be_read(told: tuple[dict[str, Any], ...], rule: dict[str, Any]) -> None:
    policy = network_policy(OWNER, Controller("streamjob-system", {"app": "controller"}), told)
    ports = {each["name"]: each["containerPort"] for each in pod()["spec"]["containers"][0]["ports"]}

    assert policy["spec"]["ingress"][1] == {**rule, "ports": [{"protocol": "TCP", "port": ports["metrics"]}]}
    assert len(policy["spec"]["ingress"]) == 2


def test_names_and_labels_of_long_names_are_still_valid() -> None:
    owner = Metadata(name="a" * 62 + "." + "b" * 180, namespace="shop", uid=OWNER.uid)

    secret = token_secret(owner, "one-long-random-word")

    assert len(secret["metadata"]["name"]) <= 253
    assert secret["metadata"]["labels"]["streamjob.io/name"] == "a" * 62
