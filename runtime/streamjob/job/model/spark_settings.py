"""The settings of Spark that the product owns: what it sets them to, and what a job does instead of giving them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase


class Owner(StrEnum):
    """What sets a setting."""

    RUNTIME = "the runtime"
    PAGE = "the page of the job"
    EXECUTORS = "a job on executors"


@dataclass(frozen=True, slots=True)
class OwnedSetting:
    """A setting that a job may not give another value than the product does.

    Args:
        name: its name, or a pattern with `*`.
        fix: what to do instead.
        value: None if it depends on the job, or if nothing sets it.
    """

    name: str
    fix: str = ""
    value: str | None = None
    owner: Owner = Owner.RUNTIME


_STREAMING = "spark.sql.streaming."
STATE = _STREAMING + "stateStore."
"""Prefix of the settings of state stores."""
STATE_PROVIDER = STATE + "providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STATE_FORMAT = STATE + "checkpointFormatVersion"
STATE_CHANGELOG = STATE + "rocksdb.changelogCheckpointing.enabled"
_STATE_FORMAT = "leave it out: snapshots rely on one format of state"
_CHECKPOINTS = "leave it out: checkpoints are set up under checkpointing"
_JOB_FILES = "leave it out: Spark finds a job's files by it"
_FOR_ALL_TO_SEE = "leave it out: other users of the machine can reach the ports of Spark"
_ENDED = "leave it out: a query that a reader of the page ends would end the job"
_NO_PORT = "leave it out: Spark's page opens from the page of the job, and needs no port of its own"

OWNED = (
    OwnedSetting("spark.master", "set parallelism"),
    OwnedSetting("spark.app.name", "set name"),
    OwnedSetting("spark.default.parallelism", "set parallelism"),
    OwnedSetting("spark.sql.default.parallelism", "set parallelism"),
    OwnedSetting("spark.sql.shuffle.partitions", "set maxParallelism: it is the number of state partitions"),
    OwnedSetting("spark.sql.adaptive.enabled", "leave it out: state needs a fixed number of partitions", "false"),
    OwnedSetting("spark.sql.constraintPropagation.enabled", "leave it out: joins of streams would join NULL with NULL"),
    OwnedSetting(STATE_PROVIDER, _STATE_FORMAT, ROCKSDB),
    # Names of state files contain a unique id, so a repeated batch never reuses one.
    OwnedSetting(STATE_FORMAT, _STATE_FORMAT, "2"),
    OwnedSetting(STATE + "encodingFormat", _STATE_FORMAT),
    OwnedSetting(STATE_CHANGELOG, _STATE_FORMAT, "true"),
    OwnedSetting(STATE + "rocksdb.formatVersion", _STATE_FORMAT),
    # Format 4 is corrupted silently when its state is rewritten for another number of partitions.
    OwnedSetting(_STREAMING + "join.stateFormatVersion", _STATE_FORMAT, "2"),
    OwnedSetting(_STREAMING + "*.stateFormatVersion", _STATE_FORMAT),
    OwnedSetting(_STREAMING + "statefulOperator.allowMultiple", "leave it out: operators have watermarks of their own"),
    OwnedSetting(_STREAMING + "checkpointFileManagerClass", _CHECKPOINTS, "io.streamjob.files.JobFileManager"),
    OwnedSetting(_STREAMING + "checkpoint.fileChecksum.enabled", _CHECKPOINTS, "false"),
    OwnedSetting(_STREAMING + "checkpointLocation", "set checkpointing.location"),
    OwnedSetting("checkpointLocation", "set checkpointing.location"),
    OwnedSetting(_STREAMING + "checkpoint*", _CHECKPOINTS),
    OwnedSetting("spark.hadoop.fs.job.impl", _JOB_FILES, "io.streamjob.files.JobFileSystem"),
    OwnedSetting("spark.hadoop.fs.job.*", _JOB_FILES),
    # Also where an executor's machine has another zone.
    OwnedSetting("spark.executorEnv.TZ", "leave it out: local times of another zone may name two moments", "UTC"),
    # In local mode Spark creates the secret itself.
    OwnedSetting("spark.authenticate", _FOR_ALL_TO_SEE, "true"),
    # A port on loopback would expose the state of `transformWithState`.
    OwnedSetting("spark.python.unix.domain.socket.enabled", _FOR_ALL_TO_SEE, "true"),
    OwnedSetting("spark.python.unix.domain.socket.dir", "leave it out: sockets are in the work directory"),
    OwnedSetting("spark.ui.killEnabled", _ENDED, "false", Owner.PAGE),
    OwnedSetting("spark.ui.port", _NO_PORT, "0", Owner.PAGE),
    *(
        OwnedSetting(name, value=value, owner=Owner.EXECUTORS)
        for name, value in {
            "spark.network.crypto.enabled": "true",
            # SparkContext insists on this setting. The environment has the secret itself, which Spark prefers, and
            # which command lines and Spark's page do not show.
            "spark.authenticate.secret": "in the environment",
            # State is where it was first placed; a lost executor is reported at once, and tasks need not wait for this.
            "spark.locality.wait.process": "10m",
            # Other preferences of Spark for executors or hosts are no reason to wait.
            "spark.locality.wait.node": "0",
            "spark.locality.wait.rack": "0",
            "spark.shuffle.reduceLocality.enabled": "false",
            "spark.speculation": "false",
            "spark.excludeOnFailure.enabled": "false",
            "spark.dynamicAllocation.enabled": "false",
            "spark.decommission.enabled": "false",
            "spark.shuffle.service.enabled": "false",
            "spark.executor.heartbeatInterval": "5s",
            "spark.network.timeout": "30s",
            # How often Spark looks for executors that are silent for that long.
            "spark.network.timeoutInterval": "5s",
            "spark.port.maxRetries": "0",
            # Both depend on the job.
            "spark.executor.cores": None,
            "spark.executorEnv.PYTHONPATH": None,
        }.items()
    ),
)
"""All settings that the product owns; the first whose name fits a setting decides about it."""


def values_of(owner: Owner) -> dict[str, str]:
    """Return what `owner` sets settings to, whatever the job."""
    return {each.name: each.value for each in OWNED if each.owner is owner and each.value is not None}


def overridden(conf: Mapping[str, str], of_executors: Mapping[str, str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield problems with the settings of a job that the product would override, with fixes.

    Args:
        conf: the job's settings; their values are not shown.
        of_executors: what the product sets because of executors in other processes; None if the job has none.
    """
    for key, given in conf.items():
        owned = owned_setting(key)
        if owned is None or (owned.owner is Owner.EXECUTORS and of_executors is None):
            continue
        value = (of_executors or {}).get(owned.name, owned.value)
        if value is None or given.strip().lower() != value.lower():
            to = "" if value is None else f" to {value}"
            yield f"{key} is set{to} by {owned.owner}", owned.fix or f"leave {key} out"


def owned_setting(key: str) -> OwnedSetting | None:
    """Return the setting that the product owns, or None if it is the job's."""
    return next((each for each in OWNED if fnmatchcase(key.lower(), each.name.lower())), None)
