"""Who gets at a driver's control API: whoever has the token, and by network only the controller."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

from streamjob_operator.manifests.names import (
    CONTROL_PORT,
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


def network_policy(owner: Metadata, controller: Controller) -> Object:
    """Return the policy by which only the controller, and the node's probes, reach a StreamJob's drivers."""
    own = labels(owner)
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
                }
            ],
        },
    }
