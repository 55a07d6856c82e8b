"""Input and output of a decision."""

from __future__ import annotations

from dataclasses import dataclass

from streamjob_operator.decisions.values.actions import Action
from streamjob_operator.decisions.values.revision import Revision, revision_of
from streamjob_operator.decisions.values.slots import effective
from streamjob_operator.resources.status import StreamJobStatus
from streamjob_operator.resources.streamjob import StreamJobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A StreamJob as it was read.

    Args:
        deleted: whether its deletion was asked for.
        spec: the wanted spec; None if it cannot be parsed at all.
        problems: why the spec cannot be used, in the words of `streamjob validate`; empty if it can.
        revision: the revision to run, if computed before: this takes longer than a decision.
    """

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int
    deleted: bool = False
    spec: StreamJobSpec | None
    problems: tuple[str, ...] = ()
    status: StreamJobStatus
    revision: Revision | None = None

    @property
    def wanted(self) -> Revision | None:
        """The revision to run: the spec's demands, with the task slots that automatic scaling decided on.

        None if the spec cannot be acted on.
        """
        if self.usable is None:
            return None
        return self.revision or revision_of(self.name, effective(self.usable, self.status))

    @property
    def usable(self) -> StreamJobSpec | None:
        """The spec if it can be acted on."""
        return None if self.problems else self.spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The status to store and the actions to execute.

    First the status is stored, if it differs, on top of the version of the resource that was read; a conflict ends the
    reconciliation, and the next one observes again. Then the actions are carried out.

    Args:
        requeue: seconds until the next look at the latest, 0 for at once; None if only an event can change anything.
    """

    status: StreamJobStatus
    actions: tuple[Action, ...] = ()
    requeue: float | None = None
