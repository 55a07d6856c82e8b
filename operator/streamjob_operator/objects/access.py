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
    METRICS_PORT,
    RPC_PORT,
    TOKEN_KEY,
    Object,
    control_name,
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
        owner: the StreamJob.
        token: one long random word.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(owner, control_name(owner)),
        "type": "Opaque",
        "immutable": True,
        "data": {TOKEN_KEY: base64.b64encode(token.encode("ascii")).decode("ascii")},
    }


def network_policy(
    owner: Metadata, controller: Controller, metrics_from: Sequence[Object] = (), *, executors: bool = False
) -> Object:
    """Return the policy by which only the controller, and executors, reach the control API of a StreamJob's drivers.

    Args:
        owner: the StreamJob.
        controller: the controller's pods.
        metrics_from: from where the metrics may be read, as a NetworkPolicy's `from` has it; empty: from everywhere.
        executors: whether the job has executors: they reach the control API and Spark's driver.
    """
    scrapers: Object = {"from": [dict(each) for each in metrics_from]} if metrics_from else {}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(owner, control_name(owner)),
        "spec": {
            "podSelector": selector(owner, DRIVER),
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [
                        {
                            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": controller.namespace}},
                            "podSelector": {"matchLabels": dict(controller.labels)},
                        }
                    ],
                    "ports": [{"protocol": "TCP", "port": CONTROL_PORT}],
                },
                {**scrapers, "ports": [{"protocol": "TCP", "port": METRICS_PORT}]},
                *([from_executors(owner, CONTROL_PORT, RPC_PORT, BLOCKS_PORT)] if executors else []),
            ],
        },
    }


def from_executors(owner: Metadata, *ports: int) -> Object:
    """Return the rule of a NetworkPolicy that lets a job's executors reach ports."""
    return {
        "from": [{"podSelector": selector(owner, EXECUTOR)}],
        "ports": [{"protocol": "TCP", "port": port} for port in ports],
    }
