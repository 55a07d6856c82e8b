"""Why a job cannot start from a snapshot: a class per cause, each naming what of the job it is about."""

from __future__ import annotations

from streamjob.errors import CannotRestore


class NonRestoredState(CannotRestore):
    """The snapshot has state of operators, or positions of sources, that the job does not have."""


class UnfinishedBeforeFinished(CannotRestore):
    """The job has an operator that is still to do its work before one that has done its own for good."""


class FinishedAndUnfinished(CannotRestore):
    """Operators that have finished run in one chain with others that have not."""


class StateOfSeveralChains(CannotRestore):
    """Operators of one chain have their state in several chains of the snapshot: a Spark query has one checkpoint."""


class StateDivided(CannotRestore):
    """State would go to several chains, and the snapshot does not tell which of their operators it is of."""


class NewStateInOldChain(CannotRestore):
    """An operator that begins to keep state is fused into a chain that has run: Spark has no empty state for it."""


class StateGone(CannotRestore):
    """An operator does not keep the state any more that the snapshot has of it."""


class StateNotTold(CannotRestore):
    """The snapshot does not tell which of several operators a state is of, and they are others or in another order."""


class StateChanged(CannotRestore):
    """An operator keeps its state in another form, or by other keys, than the snapshot has it."""


class OutputModeChanged(CannotRestore):
    """An aggregation is to go on in an output mode in which part of its result would get lost."""


class InFlightDataLost(CannotRestore):
    """The snapshot has data in flight on a channel that the job does not have."""


class SourceFormatChanged(CannotRestore):
    """A source has another format: the position that the snapshot has of it means nothing there."""


class PartChanged(CannotRestore):
    """A uid is of a source, an operator or a sink, and was of another of these."""
