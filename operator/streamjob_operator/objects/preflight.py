"""The pod of a preflight: a driver's pod, with a check in the place of the job."""

from __future__ import annotations

from streamjob_operator.decisions.values.actions import CreateDriver, CreatePreflight
from streamjob_operator.decisions.values.revision import Revision
from streamjob_operator.objects import names
from streamjob_operator.objects.driver import driver_pod
from streamjob_operator.objects.job_file import check_arguments
from streamjob_operator.objects.names import CONTAINER, CONTROL_VOLUME, Object
from streamjob_operator.objects.sizes import resources
from streamjob_operator.resources.base import Metadata

_OF_A_SERVER = ("ports", "startupProbe", "livenessProbe", "readinessProbe")


def preflight_pod(owner: Metadata, revision: Revision, action: CreatePreflight, *, default_image: str) -> Object:
    """Return the pod that checks whether a revision can start; it needs the revision's ConfigMap.

    Args:
        owner: the StreamJob.
        revision: the revision to check.
        action: its number, and the snapshot to start from.
        default_image: the image of the revisions that name none.

    Raises:
        InvalidInput: the template is no template of a pod.
    """
    spec = revision.spec()
    driver = CreateDriver(
        attempt=0,
        revision=revision.name,
        restore_from=action.restore_from,
        require_snapshot=action.require_snapshot,
        allow_non_restored_state=action.allow_non_restored_state,
    )
    pod = driver_pod(owner, revision, driver, default_image=default_image)
    meta, inside = pod["metadata"], pod["spec"]
    meta["name"] = names.preflight_name(owner.name, action.number)
    del meta["labels"][names.ATTEMPT_LABEL]
    # Neither executors nor users of the control API must take it for a driver.
    meta["labels"] |= {names.COMPONENT_LABEL: names.PREFLIGHT, names.PREFLIGHT_LABEL: str(action.number)}
    inside["volumes"] = [each for each in inside["volumes"] if each["name"] != CONTROL_VOLUME]
    container = next(each for each in inside["containers"] if each["name"] == CONTAINER)
    for field in _OF_A_SERVER:
        container.pop(field, None)
    container["args"] = check_arguments(owner, spec, action)
    # The Secret of executors may not exist before the revision is deployed.
    container["env"] = [each for each in container["env"] if each["name"] != names.EXECUTOR_SECRET]
    container["volumeMounts"] = [each for each in container["volumeMounts"] if each["name"] != CONTROL_VOLUME]
    if spec.driver.standby:
        container["resources"] = {**container["resources"], **resources(spec.driver, 1)}
    return pod
