"""What a job is restored from, and whether it can be: operators are matched by uid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamjob.comparison.parts import compare
from streamjob.comparison.verdicts import Comparison, Origin
from streamjob.ids import ChainUid
from streamjob.job.plan import Plan
from streamjob.job.spec import JobSpec
from streamjob.snapshot.manifest import ChainState, Manifest


@dataclass(frozen=True)
class Restored:
    """The snapshot that an epoch starts from.

    `fork` says that the log has gone on since: what was published behind the snapshot stays published. `origins` has
    where each chain of the job begins, `undecided` the chains whose state only Spark can compare with the job; `allow`:
    state that the job has no place for is given up.
    """

    manifest: Manifest
    uri: str
    fork: bool
    origins: Mapping[ChainUid, Origin] = field(default_factory=dict)
    undecided: Mapping[ChainUid, str] = field(default_factory=dict)
    allow: bool = False

    def origin(self, chain: ChainUid) -> Origin:
        """Return where a chain of the job begins."""
        return self.origins.get(chain, Origin())

    def base(self, chain: ChainUid) -> ChainState | None:
        """Return the state that a chain of the job takes over; None if it begins anew."""
        base = self.origin(chain).base
        return next((each for each in self.manifest.chains if each.uid == base), None)

    def finished(self, chain: ChainUid) -> bool:
        """Return whether a chain's work is done for good."""
        return self.origin(chain).finished


def check_compatible(spec: JobSpec, plan: Plan, restored: Restored, allow_non_restored_state: bool) -> Comparison:
    """Check that the job can start from a snapshot, as far as the graphs show; return what becomes of its parts.

    Args:
        spec: the job.
        plan: how it runs.
        restored: the snapshot.
        allow_non_restored_state: state of operators that the job does not have is given up.

    Raises:
        CannotRestore: it cannot; the first of the causes in `streamjob.comparison.refusals`.
    """
    comparison = compare(spec, plan, restored.manifest, restored.uri, allow_non_restored_state)
    comparison.check()
    return comparison
