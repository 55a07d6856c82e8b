"""What a job is restored from."""

from __future__ import annotations

from dataclasses import dataclass

from streamjob.ids import ChainUid
from streamjob.job.plan import Plan
from streamjob.job.spec import JobSpec
from streamjob.protocol.compatibility import incompatibilities, partitions_of
from streamjob.snapshot.manifest import ChainState, Manifest


@dataclass(frozen=True)
class Restored:
    """The snapshot that an epoch starts from.

    `fork` says that the log has gone on since: what was published behind the snapshot stays published.
    """

    manifest: Manifest
    uri: str
    fork: bool

    def chain(self, uid: ChainUid, plan: Plan) -> ChainState | None:
        """Return the state of one of the plan's chains; None if the snapshot has none."""
        chains = self.manifest.chains
        if len(plan.chains) == len(chains) == 1:
            # Where there is one, another operator may have become its last one, and so given it another name.
            return chains[0]
        return next((chain for chain in chains if chain.uid == uid), None)

    def finished(self, uid: ChainUid) -> bool:
        """Return whether a chain's work is done for good."""
        operators = [operator for operator in self.manifest.operators if operator.chain == uid]
        return bool(operators) and all(operator.finished for operator in operators)


def check_compatible(spec: JobSpec, plan: Plan, restored: Restored, allow_non_restored_state: bool) -> int:
    """Check that the job can start from a snapshot; return the number of state partitions to run with.

    Args:
        spec: the job.
        plan: how it runs.
        restored: the snapshot.
        allow_non_restored_state: state of operators that the job does not have is given up.

    Raises:
        NonRestoredState: there is such state, and it may not be given up.
        UnfinishedBeforeFinished: a finished operator would get input again.
        ChainsChanged: the job's operators run in other chains.
        MaxParallelismChanged: the job asks for another number of state partitions.
    """
    for problem in incompatibilities(
        spec, plan, restored.manifest, restored.uri, allow_non_restored_state=allow_non_restored_state
    ):
        raise problem
    stored = partitions_of(restored.manifest)
    return spec.max_parallelism if stored is None else stored
