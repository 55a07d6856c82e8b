"""CEL rules of the two resources, which the API server checks in addition to types.

A rule is placed above all fields that it uses. The controller makes the checks that need the job's code, its state or
the cluster.
"""

from __future__ import annotations

from typing import Any

LONGEST_NAME = 48
"""Most characters of a StreamJob's name: names and labels of its pods are made of it, and those end at 63."""


def rule(expression: str, message: str, field: str | None = None) -> dict[str, Any]:
    """Return a validation rule; `field` is the path below its place that an error names."""
    found = {"rule": " ".join(expression.split()), "message": message}
    return found if field is None else {**found, "fieldPath": field}


def _of_job_too(field: str, otherwise: str) -> str:
    """Return the CEL for a field of the spec; without it, for the same field of its job; without both, `otherwise`."""
    return (
        f"(has(self.{field}) ? self.{field} : has(self.job) && has(self.job.{field}) ? self.job.{field} : {otherwise})"
    )


_OF_EXECUTORS = "self.executor.instances * self.executor.cores"
_SLOTS = f"(has(self.executor) && has(self.executor.instances) ? {_OF_EXECUTORS} : {_of_job_too('parallelism', '1')})"
_HAS_LOCATION = """((has(self.checkpointing) && has(self.checkpointing.location))
    || (has(self.job) && has(self.job.checkpointing) && has(self.job.checkpointing.location)))"""

STREAM_JOB = (
    rule(
        f"self.metadata.name.size() <= {LONGEST_NAME}",
        f"the name is too long: pods are named after it, so it may have at most {LONGEST_NAME} characters",
    ),
    rule(
        "!has(self.spec.job) || !has(self.spec.job.name) || self.spec.job.name == self.metadata.name",
        "must equal metadata.name, because state is stored under that name; or remove it",
        ".spec.job.name",
    ),
)

STREAM_JOB_SPEC = (
    rule(
        "has(self.job) != has(self.mainApplicationFile)",
        "set either job or mainApplicationFile",
    ),
    rule(
        f"{_SLOTS} <= {_of_job_too('maxParallelism', '32768')}",
        "parallelism is above maxParallelism, the number of state partitions",
    ),
    rule(
        f"self.upgradeMode == 'stateless' || {_HAS_LOCATION}",
        "state needs a location: set checkpointing.location, or upgradeMode: stateless",
    ),
    rule(
        "!has(self.initialSavepointPath) || !has(self.initialSnapshotRef)",
        "initialSavepointPath and initialSnapshotRef both name a snapshot to start from; set only one of them",
    ),
    rule(
        "!has(self.savepointRedeployNonce) || has(self.initialSavepointPath) || has(self.initialSnapshotRef)",
        "savepointRedeployNonce needs a snapshot to start from: set initialSavepointPath or initialSnapshotRef",
    ),
    rule(
        "!has(self.autoscaling) || self.autoscaling.mode != 'Act' || self.upgradeMode != 'stateless'",
        "mode Act restarts the job from its last checkpoint, and upgradeMode stateless drops the state: use mode "
        "Advise, or another upgradeMode",
        ".autoscaling.mode",
    ),
    rule(
        """!has(self.autoscaling) || self.autoscaling.mode != 'Act' || !has(self.mainApplicationFile)
        || has(self.parallelism)""",
        "mode Act needs parallelism, the number of task slots to begin with: the controller does not read the job's "
        "file",
        ".autoscaling.mode",
    ),
    rule(
        """!has(self.executor) || !has(self.autoscaling) || self.autoscaling.mode != 'Act'
        || (!has(self.executor.instances) && !has(self.autoscaling.cpuPerSlot) && 'Executors' in self.autoscaling.means
        && self.autoscaling.max >= self.executor.cores)""",
        "with executors, mode Act adds and removes whole executors: set parallelism instead of executor.instances, "
        "permit Executors in autoscaling.means, set autoscaling.max to at least executor.cores, and omit "
        "autoscaling.cpuPerSlot",
        ".autoscaling.mode",
    ),
    rule(
        f"""!has(self.executor) || !has(self.executor.instances)
        || {_of_job_too("parallelism", _OF_EXECUTORS)} == {_OF_EXECUTORS}""",
        "parallelism is not executor.instances times executor.cores: remove one of the two; kubectl scale changes "
        "parallelism, and needs executor without instances",
    ),
    rule(
        f"""!has(self.executor) || has(self.executor.instances)
        || ({_of_job_too("parallelism", "0")} > 0 && {_of_job_too("parallelism", "0")} % self.executor.cores == 0)""",
        "set executor.instances, or a parallelism that is a multiple of executor.cores",
    ),
    rule(
        "!has(self.executor) || !has(self.driver) || self.driver.standby == 0",
        "executors keep their files when a driver dies, so it needs no standby: remove driver.standby or executor",
        ".driver.standby",
    ),
    rule(
        f"!has(self.executor) || {_HAS_LOCATION}",
        "executors store their state at a location that all pods reach: set checkpointing.location",
    ),
    rule(
        "!has(self.schedule) || self.upgradeMode != 'stateless'",
        "each run continues from the last checkpoint of the one before: use another upgradeMode than stateless, or "
        "remove schedule",
        ".schedule",
    ),
    rule(
        "!has(self.schedule) || !has(self.driver) || self.driver.standby == 0",
        "a run that fails is repeated from its last checkpoint, so it needs no standby: remove driver.standby or "
        "schedule",
        ".driver.standby",
    ),
    rule(
        "!has(self.schedule) || !has(self.upgrade) || !self.upgrade.warmSuccessor",
        "a changed spec waits for the next run, so no successor is prepared: remove upgrade.warmSuccessor or schedule",
        ".upgrade.warmSuccessor",
    ),
    rule(
        "!has(self.schedule) || !has(self.autoscaling) || self.autoscaling.mode == 'Off'",
        "automatic scaling follows the load of a job that runs all the time: set mode to 'Off', or remove schedule",
        ".autoscaling.mode",
    ),
)

AUTOSCALING = (rule("self.min <= self.max", "min is above max: swap them", ".min"),)

SAVEPOINTS = (
    rule(
        "!self.drain || self.onDeletion",
        "drain applies to the savepoint on deletion: set onDeletion: true as well",
        ".drain",
    ),
)

_REQUEST_ABOVE_LIMIT = "coreLimit is below the request of coreRequest or cores"
POD = (
    rule(
        """!has(self.coreLimit) || !has(self.coreRequest)
        || quantity(self.coreRequest).compareTo(quantity(self.coreLimit)) <= 0""",
        _REQUEST_ABOVE_LIMIT,
        ".coreLimit",
    ),
    rule(
        """!has(self.coreLimit) || has(self.coreRequest)
        || double(self.cores) <= quantity(self.coreLimit).asApproximateFloat()""",
        _REQUEST_ABOVE_LIMIT,
        ".coreLimit",
    ),
)

SNAPSHOT_SPEC = (
    rule("has(self.savepoint) != has(self.checkpoint)", "set either savepoint or checkpoint"),
    rule(
        "!has(self.savepoint) || !has(self.savepoint.location) || !has(self.savepoint.path)",
        "path names an existing savepoint, and location is for a new one; set only one of them",
        ".savepoint",
    ),
    rule("self.jobRef == oldSelf.jobRef", "cannot be changed: create another StreamSnapshot", ".jobRef"),
    rule(
        """has(self.savepoint) == has(oldSelf.savepoint) && (!has(self.savepoint)
        || (has(self.savepoint.location) == has(oldSelf.savepoint.location)
        && (!has(self.savepoint.location) || self.savepoint.location == oldSelf.savepoint.location)
        && has(self.savepoint.path) == has(oldSelf.savepoint.path)
        && (!has(self.savepoint.path) || self.savepoint.path == oldSelf.savepoint.path)))""",
        "savepoint and checkpoint cannot be changed: create another StreamSnapshot",
    ),
)
