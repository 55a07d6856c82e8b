"""Access to a driver's control API."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.operator.objects.samples import OWNER, pod

from streamjob_operator.objects import Controller, network_policy, token_secret
from streamjob_operator.resources.base import Metadata

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
