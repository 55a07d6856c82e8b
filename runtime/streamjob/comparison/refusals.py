"""The reasons why a job cannot start from a snapshot: one class per cause, each message naming the part."""

from __future__ import annotations

from streamjob.errors import CannotRestore


class NonRestoredState(CannotRestore):
    """The snapshot has state of operators, or positions of sources, that the job does not have."""


class UnfinishedBeforeFinished(CannotRestore):
    """An unfinished operator of the job comes before one that has finished for good."""


class FinishedAndUnfinished(CannotRestore):
    """Operators that have finished run in one chain with others that have not."""


class StateOfSeveralChains(CannotRestore):
    """Operators of one chain have their state in several chains of the snapshot: a Spark query has one checkpoint."""


class StateDivided(CannotRestore):
    """State would have to be divided between several chains, but the snapshot does not tell which operators own it."""


class NewStateInOldChain(CannotRestore):
    """An operator that starts to keep state is fused into a chain that has run: Spark has no empty state for it."""


class StateGone(CannotRestore):
    """An operator no longer keeps the state that the snapshot has."""


class StateNotTold(CannotRestore):
    """A state may belong to any of several operators, and these operators or their order have changed."""


class StateChanged(CannotRestore):
    """An operator keeps its state in another form, or by other keys, than in the snapshot."""


class OutputModeChanged(CannotRestore):
    """An aggregation would continue in an output mode that loses a part of its result."""


class InFlightDataLost(CannotRestore):
    """The snapshot has data in flight on a channel that the job does not have."""


class SourceFormatChanged(CannotRestore):
    """A source has another format, so its position in the snapshot is meaningless."""


class PartChanged(CannotRestore):
    """A uid that belonged to a source, an operator or a sink belongs to another kind of part now."""
