"""Checks a plain query's checkpoint for `streamjob check`: finds the effects of a start without writing anything."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from streamjob.clock import Clock
from streamjob.comparison.graphs import compare
from streamjob.comparison.verdicts import Comparison, Finding, Kind, Verdict, refused
from streamjob.ids import Key
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.plan import Plan
from streamjob.protocol.log.records import JobId
from streamjob.snapshot.manifest import FileRef
from streamjob.store.hashing import file_sha256
from streamjob.store.local import LocalStore
from streamjob.store.opening import open_directory_of_spark
from streamjob.stored.start_snapshot import Found
from streamjob_runtime.restoring.from_spark.errors import NotTaken
from streamjob_runtime.restoring.from_spark.reading import read_queries
from streamjob_runtime.restoring.from_spark.suitability import places_in
from streamjob_runtime.spark.checkpoint_dir.hold import Hold

Examine = Callable[[LoadedJob, Found, Comparison, bool, JobId], Comparison]
"""Asks the sinks and Spark for problems beyond the graphs: `streamjob_runtime.process.checking.start_check.examine`."""


def check_query(
    named: str, loaded: LoadedJob, plan: Plan, job: JobId, allow: bool, examine: Examine | None, clock: Clock
) -> tuple[str, Comparison]:
    """Compare a job with plain queries; return the checkpoints' URIs, and the findings for the parts.

    Downloads logs and descriptions of the state to a scratch directory, but not the state.

    Args:
        named: see `take_over`.
        allow: discard state for which the job has no operator.
        examine: asks the sinks and Spark; None to skip this.
        clock: seconds since 1970.

    Raises:
        CannotRestore: the checkpoint is unusable for any job.
        InvalidInput: the location cannot be opened, or Spark refuses a part of the job.
        StoreError: the store failed.
    """
    uris = ", ".join(open_directory_of_spark(place).uri for place in places_in(named, plan).values())
    try:
        with tempfile.TemporaryDirectory(prefix="streamjob-check-") as scratch:
            queries, manifest, holds = read_queries(named, loaded, plan, job, clock(), Path(scratch), None)
            chains = [
                state.model_copy(update={"files": _files(hold, state.uid)})
                for state, hold in zip(manifest.chains, holds, strict=True)
            ]
            store = LocalStore(Path(scratch))
            found = Found(
                manifest.model_copy(update={"chains": tuple(chains)}), uris, lambda object_: (store, Key(object_))
            )
            compared = compare(loaded.spec, plan, found.manifest, uris, allow)
            if any(query.converted for query in queries):
                compared = compared.noting(_converted(each) for each in compared.findings if each.kind is Kind.JOB)
            if examine is not None:
                compared = examine(loaded, found, compared, allow, job)
            return uris, compared
    except NotTaken as error:
        findings = tuple(_refused(error, loaded.spec))
        return uris, Comparison(findings=findings, origins={}, max_parallelism=loaded.spec.max_parallelism)


def _files(hold: Hold, folder: str) -> tuple[FileRef, ...]:
    return tuple(
        FileRef(
            path=path,
            object=f"{folder}/{path}",
            length=(hold.directory / path).stat().st_size,
            sha256=file_sha256(hold.directory / path),
        )
        for path in sorted(set(hold.files))
    )


def _converted(finding: Finding) -> Finding:
    """Return the finding about the number of partitions of state that is also converted."""
    return replace(finding, verdict=Verdict.REWRITTEN, why=f"{finding.why}; it is converted to RocksDB")


def _refused(error: NotTaken, spec: JobSpec) -> Iterator[Finding]:
    """Yield a finding for each part that the refusal concerns."""
    parts = {
        Kind.SOURCE: [each.uid for each in spec.sources],
        Kind.OPERATOR: [each.uid for each in spec.operators],
    }
    for uid in parts.get(error.concerns, [spec.name]):
        yield refused(error.concerns, uid, error)
