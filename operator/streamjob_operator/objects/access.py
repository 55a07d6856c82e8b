"""Access to a driver: the controller, with a token, to the control API; Prometheus to the metrics; executors."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamjob_operator.objects.names import (
    BLOCKS_PORT,
    CONTROL_PORT,
    DRIVER,
    EXECUTOR,
    EXECUTOR_SECRET_KEY,
    METRICS_PORT,
    RPC_PORT,
    TOKEN_KEY,
    Object,
    control_name,
    executors_name,
    metadata,
    selector,
)
from streamjob_operator.resources.base import Metadata


@dataclass(frozen=True, slots=True)
class Controller:
    """The controller's own pods: their namespace, and the labels that select them."""

    namespace: str
    labels: Mapping[str, str]


def token_secret(owner: Metadata, token: str) -> Object:
    """Return the Secret with the token of a StreamJob's control API; one for all attempts.

    Args:
        token: one long random word.
    """
    return _secret(metadata(owner, control_name(owner)), TOKEN_KEY, token)


def executors_secret(owner: Metadata, secret: str) -> Object:
    """Return the Secret that a job's driver and executors share; one for all attempts.

    Args:
        secret: one long random word.
    """
    return _secret(metadata(owner, executors_name(owner), EXECUTOR), EXECUTOR_SECRET_KEY, secret)


def _secret(meta: Object, key: str, word: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "type": "Opaque",
        "immutable": True,
        "data": {key: base64.b64encode(word.encode("ascii")).decode("ascii")},
    }


def network_policy(
    owner: Metadata, controller: Controller, metrics_from: Sequence[Object] = (), *, executors: bool = False
) -> Object:
    """Return the policy by which only the controller, and executors, reach the control API of a StreamJob's drivers.

    Args:
        controller: the controller's pods.
        metrics_from: from where the metrics may be read, as a NetworkPolicy's `from` has it; empty: from everywhere.
        executors: whether the job has executors: they reach the control API and Spark's driver.
    """
    scrapers: Object = {"from": [dict(each) for each in metrics_from]} if metrics_from else {}
    controllers = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": controller.namespace}},
        "podSelector": {"matchLabels": dict(controller.labels)},
    }
    ingress = [
        {"from": [controllers], **_ports(CONTROL_PORT)},
        {**scrapers, **_ports(METRICS_PORT)},
    ]
    if executors:
        ingress.append({"from": [_pods(owner, EXECUTOR)], **_ports(CONTROL_PORT, RPC_PORT, BLOCKS_PORT)})
    return _policy(metadata(owner, control_name(owner)), selector(owner, DRIVER), ingress)


def executors_policy(owner: Metadata) -> Object:
    """Return the policy by which only a job's driver and executors reach its executors."""
    blocks = {"from": [_pods(owner, EXECUTOR), _pods(owner, DRIVER)], **_ports(BLOCKS_PORT)}
    return _policy(metadata(owner, executors_name(owner), EXECUTOR), selector(owner, EXECUTOR), [blocks])


def _policy(meta: Object, pods: Object, ingress: list[Object]) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": meta,
        "spec": {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def _pods(owner: Metadata, component: str) -> Object:
    return {"podSelector": selector(owner, component)}


def _ports(*ports: int) -> Object:
    return {"ports": [{"protocol": "TCP", "port": port} for port in ports]}
