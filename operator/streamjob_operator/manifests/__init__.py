"""Builds the objects of a StreamJob's driver as plain values; nothing here talks to a cluster."""

from streamjob_operator.manifests.access import Controller, network_policy, token_secret
from streamjob_operator.manifests.driver import driver_pod
from streamjob_operator.manifests.job_file import job_config_map
from streamjob_operator.manifests.names import CONTAINER, CONTROL_PORT, control_name, driver_name

__all__ = [
    "CONTAINER",
    "CONTROL_PORT",
    "Controller",
    "control_name",
    "driver_name",
    "driver_pod",
    "job_config_map",
    "network_policy",
    "token_secret",
]
