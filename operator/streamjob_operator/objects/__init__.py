"""Builds the objects of a StreamJob's driver and executors as plain values; nothing here talks to a cluster."""

from streamjob_operator.objects.access import (
    Controller,
    executors_policy,
    executors_secret,
    network_policy,
    token_secret,
)
from streamjob_operator.objects.driver import driver_pod, preflight_pod
from streamjob_operator.objects.executors import disruption_budget, driver_service, executor_set
from streamjob_operator.objects.job_file import job_config_map
from streamjob_operator.objects.names import CONTAINER, CONTROL_PORT, control_name, driver_name

__all__ = [
    "CONTAINER",
    "CONTROL_PORT",
    "Controller",
    "control_name",
    "disruption_budget",
    "driver_name",
    "driver_pod",
    "driver_service",
    "executor_set",
    "executors_policy",
    "executors_secret",
    "job_config_map",
    "network_policy",
    "preflight_pod",
    "token_secret",
]
