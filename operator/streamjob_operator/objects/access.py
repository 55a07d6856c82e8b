"""Access to a driver: the controller, with a token, to the control API; Prometheus to the metrics."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamjob_operator.objects.names import (
    CONTROL_PORT,
    METRICS_PORT,
    NAME_LABEL,
    TOKEN_KEY,
    UID_LABEL,
    Object,
    control_name,
    labels,
    metadata,
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


def network_policy(owner: Metadata, controller: Controller, metrics_from: Sequence[Object] = ()) -> Object:
    """Return the policy by which only the controller reaches the control API of a StreamJob's drivers.

    Args:
        owner: the StreamJob.
        controller: the controller's pods.
        metrics_from: from where the metrics may be read, as a NetworkPolicy's `from` has it; empty: from everywhere.
    """
    own = labels(owner)
    scrapers: Object = {"from": [dict(each) for each in metrics_from]} if metrics_from else {}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(owner, control_name(owner)),
        "spec": {
            "podSelector": {"matchLabels": {label: own[label] for label in (NAME_LABEL, UID_LABEL)}},
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
            ],
        },
    }
