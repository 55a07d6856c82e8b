"""What becomes of each part of a job that starts from a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from streamjob.comparison.refusals import NonRestoredState
from streamjob.errors import StreamJobError
from streamjob.ids import ChainUid, OperatorUid


class Verdict(StrEnum):
    """What becomes of a part of the job."""

    RESTORED = "restored"
    """It goes on where it stood."""
    REWRITTEN = "rewritten"
    """It goes on where it stood, from files that are rewritten for it."""
    DROPPED = "dropped"
    """The job does not have it any more, and what the snapshot holds of it is given up."""
    NEW = "new"
    """The snapshot does not have it: it begins anew."""
    REFUSED = "refused"
    """The job does not start."""


class Kind(StrEnum):
    """What a finding is about."""

    JOB = "job"
    SOURCE = "source"
    OPERATOR = "operator"
    SINK = "sink"
    CHANNEL = "channel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What becomes of one part of the job.

    Args:
        kind: what it is.
        uid: its uid; of a channel, `producer -> consumer`.
        verdict: what becomes of it.
        why: the reason, without the part's name.
        refusal: the error that ends a start; with REFUSED only.
    """

    kind: Kind
    uid: str
    verdict: Verdict
    why: str
    refusal: StreamJobError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a chain of the job begins.

    Args:
        base: the snapshot's chain whose state, batch and watermark it takes over; None if it begins anew.
        state: the numbers of the stateful operators of `base` whose state it takes over; None for all.
        positions: the sources that it reads on, and the chains of the snapshot that had read them.
        consumed: where it goes on in the streams of other chains.
        finished: its work was done for good.
    """

    base: ChainUid | None = None
    state: tuple[int, ...] | None = None
    positions: Mapping[OperatorUid, ChainUid] = field(default_factory=dict)
    consumed: Mapping[ChainUid, int] = field(default_factory=dict)
    finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A job compared with a snapshot.

    Args:
        findings: what becomes of each part, in the order of the job; what it does not have comes last.
        origins: where each chain of the job begins.
        max_parallelism: the number of state partitions to run with.
        undecided: chains whose state only Spark can compare with what the job's operators keep, and why.
        changed: those of them that have changed, as far as the graphs show.
    """

    findings: tuple[Finding, ...]
    origins: Mapping[ChainUid, Origin]
    max_parallelism: int
    undecided: Mapping[ChainUid, str] = field(default_factory=dict)
    changed: frozenset[ChainUid] = frozenset()

    @property
    def refusals(self) -> tuple[StreamJobError, ...]:
        """Why the job cannot start; none if it can. A cause that concerns several parts is there once.

        State without a place comes first: what is new is often what the snapshot has by another uid.
        """
        causes = dict.fromkeys(each.refusal for each in self.findings if each.refusal is not None)
        return tuple(sorted(causes, key=lambda cause: not isinstance(cause, NonRestoredState)))

    def decided(self, findings: Iterable[Finding]) -> Comparison:
        """Return the comparison with what Spark has found of some parts in the place of what it said of them."""
        return replace(self.noting(findings), undecided={})

    def noting(self, findings: Iterable[Finding]) -> Comparison:
        """Return the comparison with what was found of some parts in the place of what it said of them.

        What it refuses it goes on to refuse; a part that it does not know comes last.
        """
        better = {(each.kind, each.uid): each for each in findings}
        merged = [better.pop((each.kind, each.uid), each) if each.refusal is None else each for each in self.findings]
        known = {(each.kind, each.uid) for each in self.findings}
        return replace(self, findings=(*merged, *(each for key, each in better.items() if key not in known)))

    def adding(self, kind: Kind, notes: Mapping[str, str]) -> Comparison:
        """Return the comparison with a note, by uid, behind the reasons that it gives for parts of a kind."""
        told = [
            replace(each, why=f"{each.why}; {notes[each.uid]}") if each.kind is kind and each.uid in notes else each
            for each in self.findings
        ]
        return replace(self, findings=tuple(told))

    def check(self) -> None:
        """Raise the first of the refusals; return if the job can start."""
        for error in self.refusals:
            raise error
