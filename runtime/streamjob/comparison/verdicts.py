"""The findings of a comparison: one verdict for each part of a job that starts from a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from streamjob.comparison.refusals import NonRestoredState
from streamjob.errors import CannotRestore, StreamJobError
from streamjob.ids import ChainUid, OperatorUid


class Verdict(StrEnum):
    """The fate of a part of the job."""

    RESTORED = "restored"
    """It continues from its position."""
    REWRITTEN = "rewritten"
    """It continues from its position, with rewritten files."""
    MIGRATED = "migrated"
    """It continues with its state, which is changed to the form that it needs."""
    DROPPED = "dropped"
    """The job no longer has it, and its state is discarded."""
    NEW = "new"
    """The snapshot does not have it, so it starts empty."""
    REFUSED = "refused"
    """The job does not start."""


class Kind(StrEnum):
    """The kind of part that a finding is about."""

    JOB = "job"
    SOURCE = "source"
    OPERATOR = "operator"
    SINK = "sink"
    CHANNEL = "channel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The verdict on one part of the job.

    Args:
        uid: its uid; for a channel, `producer -> consumer`.
        why: the reason, without the part's name.
        refusal: the error that ends a start; set only for REFUSED.
    """

    kind: Kind
    uid: str
    verdict: Verdict
    why: str
    refusal: StreamJobError | None = None


def refused(kind: Kind, uid: str, error: StreamJobError) -> Finding:
    """Return the finding for a part that keeps the job from starting."""
    return Finding(kind=kind, uid=uid, verdict=Verdict.REFUSED, why=error.what, refusal=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a chain in the snapshot.

    Args:
        base: the snapshot's chain whose state, batch and watermark it takes over; None if it starts empty.
        state: the numbers of the stateful operators of `base` whose state it takes over; None for all.
        positions: the sources that it continues to read, with the snapshot's chains that had read them.
        consumed: its positions in the streams of other chains.
        finished: whether its work was finished for good.
        empty: the operators whose state it must not take over, as far as the graphs show, and the reasons.
    """

    base: ChainUid | None = None
    state: tuple[int, ...] | None = None
    positions: Mapping[OperatorUid, ChainUid] = field(default_factory=dict)
    consumed: Mapping[ChainUid, int] = field(default_factory=dict)
    finished: bool = False
    empty: Mapping[OperatorUid, CannotRestore] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A job compared with a snapshot.

    Args:
        findings: one for each part, in the order of the job; removed parts come last.
        max_parallelism: the number of state partitions to use.
        undecided: chains whose state only Spark can compare with the job's operators, with the reasons.
        changed: those of them that have changed according to the graphs.
    """

    findings: tuple[Finding, ...]
    origins: Mapping[ChainUid, Origin]
    max_parallelism: int
    undecided: Mapping[ChainUid, str] = field(default_factory=dict)
    changed: frozenset[ChainUid] = frozenset()

    @property
    def refusals(self) -> tuple[StreamJobError, ...]:
        """The reasons why the job cannot start; none if it can. A cause that concerns several parts appears once.

        Removed state comes first: a new part is often a renamed one, whose state the snapshot has under another uid.
        """
        causes = dict.fromkeys(each.refusal for each in self.findings if each.refusal is not None)
        return tuple(sorted(causes, key=lambda cause: not isinstance(cause, NonRestoredState)))

    def decided(self, findings: Iterable[Finding]) -> Comparison:
        """Return the comparison with some findings replaced by Spark's."""
        return replace(self.noting(findings), undecided={})

    def noting(self, findings: Iterable[Finding]) -> Comparison:
        """Return the comparison with some findings replaced.

        Refusals stay refusals. Findings for unknown parts are added at the end.
        """
        better = {(each.kind, each.uid): each for each in findings}
        merged = [better.pop((each.kind, each.uid), each) if each.refusal is None else each for each in self.findings]
        known = {(each.kind, each.uid) for each in self.findings}
        return replace(self, findings=(*merged, *(each for key, each in better.items() if key not in known)))

    def adding(self, kind: Kind, notes: Mapping[str, str]) -> Comparison:
        """Return the comparison with notes, by uid, added to the reasons of parts of a kind."""
        told = [
            replace(each, why=f"{each.why}; {notes[each.uid]}") if each.kind is kind and each.uid in notes else each
            for each in self.findings
        ]
        return replace(self, findings=tuple(told))

    def check(self) -> None:
        """Raise the first refusal, if there is any."""
        for error in self.refusals:
            raise error
