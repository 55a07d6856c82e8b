"""Who gets at a driver's control API."""

from __future__ import annotations

import base64

from tests.unit.operator.manifests.samples import OWNER, pod

from streamjob_operator.manifests import Controller, network_policy, token_secret
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
    (rule,) = policy["spec"]["ingress"]
    (peer,) = rule["from"]

    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod()["metadata"]["labels"].items()
    assert peer["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "streamjob-system"}}
    assert peer["podSelector"] == {"matchLabels": {"app": "controller"}}
    assert rule["ports"] == [{"protocol": "TCP", "port": 8080}]


def test_names_and_labels_of_long_names_are_still_valid() -> None:
    owner = Metadata(name="a" * 62 + "." + "b" * 180, namespace="shop", uid=OWNER.uid)

    secret = token_secret(owner, "one-long-random-word")

    assert len(secret["metadata"]["name"]) <= 253
    assert secret["metadata"]["labels"]["streamjob.io/name"] == "a" * 62
