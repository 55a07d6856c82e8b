"""What a job is restored from, and whether it can be: operators are matched by uid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamjob.errors import CannotRestore
from streamjob.ids import NO_BATCH, ChainUid
from streamjob.job.plan import Plan
from streamjob.job.spec import JobSpec
from streamjob.snapshot.manifest import ChainState, Manifest


class NonRestoredState(CannotRestore):
    """The snapshot has state of operators that the job does not have."""


class MaxParallelismChanged(CannotRestore):
    """The job asks for another number of state partitions than its state has."""


class ChainsChanged(CannotRestore):
    """The job's operators run in other chains than those that the snapshot has the state of."""


class UnfinishedBeforeFinished(CannotRestore):
    """The job has an operator that is still to do its work before one that has done its own for good."""


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
    manifest = restored.manifest
    uids = {uid for chain in plan.chains for uid in chain.uids()}
    sinks = {sink.uid for sink in manifest.sinks}
    homeless = [
        operator.uid
        for operator in manifest.operators
        if operator.uid not in uids and operator.uid not in sinks and not operator.finished
    ]
    if homeless and not allow_non_restored_state:
        raise NonRestoredState(
            f"Snapshot {restored.uri} has state for {', '.join(homeless)}, which the job does not have",
            "give the operators their old uid, or give the state up with --allow-non-restored-state",
        )
    _check_finished(spec, restored)
    _check_chains(plan, restored)
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


def _check_finished(spec: JobSpec, restored: Restored) -> None:
    """What is finished is never run again, so nothing may come its way (FLIP-147)."""
    finished = {operator.uid for operator in restored.manifest.operators if operator.finished}
    uids = {name: node.uid for name, node in spec.inputs().items()}
    edges = [(each.name, operator) for operator in spec.operators for each in operator.inputs if not each.feedback]
    for name, reader in (*edges, *((sink.input, sink) for sink in spec.sinks)):
        if reader.uid in finished and uids[name] not in finished:
            raise UnfinishedBeforeFinished(
                f"In snapshot {restored.uri} {reader.uid!r} has finished, but the job has {uids[name]!r} before it, "
                "which has not",
                f"give {reader.uid!r} another uid, so that it begins anew, or take {uids[name]!r} away from before it",
            )


def _check_chains(plan: Plan, restored: Restored) -> None:
    """Operators may come and go within a chain; state and in-flight data of a chain do not fit into another one."""
    now = {chain.uid for chain in plan.chains}
    channels = {(channel.source, channel.target) for channel in plan.channels}
    then = {(channel.source, channel.target) for channel in restored.manifest.channels}
    stateful = {chain.uid for chain in restored.manifest.chains if chain.batch != NO_BATCH}
    if len(plan.chains) == 1 and len(restored.manifest.chains) == 1:
        return
    if stateful <= now and then == channels:
        return
    raise ChainsChanged(
        f"Snapshot {restored.uri} is of the chains {_list(stateful)} with {len(then)} channels, but the job runs as "
        f"{_list(now)} with {len(channels)}",
        "undo the change of the graph, or start from nothing with --from none",
    )


def _list(chains: Iterable[ChainUid]) -> str:
    return ", ".join(sorted(chains))
