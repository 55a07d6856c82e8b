"""What a job is restored from, and whether it can be: operators are matched by uid."""

from __future__ import annotations

from dataclasses import dataclass

from streamjob.errors import CannotRestore
from streamjob.job.plan import ChainPlan
from streamjob.job.spec import JobSpec
from streamjob.snapshot.manifest import ChainState, Manifest


class NonRestoredState(CannotRestore):
    """The snapshot has state of operators that the job does not have."""


class MaxParallelismChanged(CannotRestore):
    """The job asks for another number of state partitions than its state has."""


class TooManyChains(CannotRestore):
    """The snapshot is of a job that ran as several chains."""


@dataclass(frozen=True)
class Restored:
    """The snapshot that an epoch starts from.

    `fork` says that the log has gone on since: what was published behind the snapshot stays published.
    """

    manifest: Manifest
    uri: str
    fork: bool

    @property
    def chain(self) -> ChainState | None:
        """The state of the one chain; None if the snapshot has none."""
        return self.manifest.chains[0] if self.manifest.chains else None


def check_compatible(spec: JobSpec, chain: ChainPlan, restored: Restored, allow_non_restored_state: bool) -> int:
    """Check that the job can start from a snapshot; return the number of state partitions to run with.

    Args:
        spec: the job.
        chain: how it runs.
        restored: the snapshot.
        allow_non_restored_state: state of operators that the job does not have is given up.

    Raises:
        NonRestoredState: there is such state, and it may not be given up.
        MaxParallelismChanged: the job asks for another number of state partitions.
        TooManyChains: the snapshot has several chains.
    """
    manifest = restored.manifest
    if len(manifest.chains) > 1:
        raise TooManyChains(
            f"Snapshot {restored.uri} is of a job of {len(manifest.chains)} chains; this version runs one",
            "run it with the version that wrote it",
        )
    sinks = {sink.uid for sink in manifest.sinks}
    homeless = [
        operator.uid
        for operator in manifest.operators
        if operator.uid not in chain.uids() and operator.uid not in sinks and not operator.finished
    ]
    if homeless and not allow_non_restored_state:
        raise NonRestoredState(
            f"Snapshot {restored.uri} has state for {', '.join(homeless)}, which the job does not have",
            "give the operators their old uid, or give the state up with --allow-non-restored-state",
        )
    stored = manifest.graph.get("maxParallelism")
    if not isinstance(stored, int):
        return spec.max_parallelism
    if spec.max_parallelism_is_given() and spec.max_parallelism != stored:
        raise MaxParallelismChanged(
            f"The job asks for maxParallelism {spec.max_parallelism}, but the state in {restored.uri} has {stored} "
            "partitions",
            f"set maxParallelism: {stored}, or start from nothing with --from none",
        )
    return stored
