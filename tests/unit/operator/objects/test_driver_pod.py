"""The pod of a driver: its name, its program, its rights, and the changes that users may make."""

from __future__ import annotations

import pytest
from tests.unit.operator.objects.samples import OWNER, action, argument, pod, revision, variables

from streamjob_operator.decisions.status.traces import start_context
from streamjob_operator.objects import driver_pod


@pytest.mark.parametrize(("pods", "process"), [(120, 110), (30, 20), (10, 5)])
def test_the_process_ends_before_its_pod_is_killed(pods: int, process: int) -> None:
    built = pod(driver={"terminationGracePeriodSeconds": pods})

    assert built["spec"]["terminationGracePeriodSeconds"] == pods
    assert argument(built, "--grace") == str(process)


def test_a_driver_that_a_span_waits_for_has_the_span_in_its_environment() -> None:
    of = revision()
    built = driver_pod(OWNER, of, action(of), default_image="runtime:1", traced=True)

    assert variables(built)["TRACEPARENT"] == start_context(OWNER.uid, 3).traceparent
    assert "TRACEPARENT" not in variables(pod())


def test_a_sidecar_does_not_keep_a_pod_whose_job_has_ended() -> None:
    built = pod(
        driver={
            "sidecars": [{"name": "proxy", "image": "proxy"}],
            "initContainers": [{"name": "wait", "image": "wait"}],
        }
    )

    assert built["spec"]["initContainers"] == [
        {"name": "wait", "image": "wait"},
        {"name": "proxy", "image": "proxy", "restartPolicy": "Always"},
    ]
    assert len(built["spec"]["containers"]) == 1


def test_building_a_pod_leaves_the_revision_as_it_was() -> None:
    driver = {"template": {"spec": {"containers": [{"name": "streamjob", "env": []}]}}}
    first, second = pod(driver=driver), pod(driver=driver)

    first["spec"]["containers"][0]["env"].append({"name": "MORE"})

    assert first != second == pod(driver=driver)
