"""The snapshot that an epoch starts from, with the origin of each chain of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamjob.comparison.verdicts import Origin
from streamjob.ids import ChainUid
from streamjob.snapshot.manifest import ChainState, Manifest


@dataclass(frozen=True)
class Restored:
    """The snapshot that an epoch starts from.

    `fork` means that the log has continued since: output that was committed after the snapshot stays.
    `origins` has the origin of each chain of the job. `undecided` names the chains whose state only Spark can compare
    with the job. `allow` discards state for which the job has no operator. `strict` refuses state that fits only
    with a gap.
    """

    manifest: Manifest
    uri: str
    fork: bool
    origins: Mapping[ChainUid, Origin] = field(default_factory=dict)
    undecided: Mapping[ChainUid, str] = field(default_factory=dict)
    allow: bool = False
    strict: bool = False

    def origin(self, chain: ChainUid) -> Origin:
        """Return the origin of a chain."""
        return self.origins.get(chain, Origin())

    def base(self, chain: ChainUid) -> ChainState | None:
        """Return the state that a chain takes over; None if it starts without one."""
        base = self.origin(chain).base
        return next((each for each in self.manifest.chains if each.uid == base), None)

    def finished(self, chain: ChainUid) -> bool:
        """Return whether a chain's work is finished for good."""
        return self.origin(chain).finished
