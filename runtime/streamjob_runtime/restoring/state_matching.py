"""Compares the state that a chain takes over with its new query's state, which Spark plans for this.

Spark itself compares types and numbers. It does not compare the owners of state and the names of columns, and would
accept the state of something else; these are compared here.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.comparison.compatibility import Restored
from streamjob.comparison.empty_starts import starts
from streamjob.comparison.graphs import begins_to_keep
from streamjob.comparison.operator_matching import Keeper, Matched, match, not_told
from streamjob.comparison.refusals import StateChanged, StateGone, StateNotTold
from streamjob.comparison.state_forms import tells_more
from streamjob.comparison.verdicts import Finding, Kind, refused
from streamjob.errors import CannotRestore
from streamjob.ids import BatchId, OperatorUid
from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.plan import ChainPlan
from streamjob.snapshot.manifest import ChainState
from streamjob.stored.state_owners import from_the_output, owners
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.chain.query_planning import describe_state, why_state_does_not_fit
from streamjob_runtime.migrating.applying import migrate
from streamjob_runtime.migrating.transforming import check_query
from streamjob_runtime.migrating.watching import MigrationWatch
from streamjob_runtime.restoring.empty_states import begin_empty
from streamjob_runtime.restoring.rewriting import NeedsOneDisk
from streamjob_runtime.restoring.state_changes import Changes, listed, not_fitting
from streamjob_runtime.spark.checkpoint_dir.graft import graft_state
from streamjob_runtime.spark.checkpoint_dir.new_state import replace_description
from streamjob_runtime.spark.checkpoint_dir.operator_metadata import operator_names
from streamjob_runtime.spark.checkpoint_dir.relocate import relocate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("streamjob")


def match_state(
    spark: SparkSession,
    graph: Mapping[str, Any],
    restored: Restored,
    state: ChainState,
    chain: ChainPlan,
    dataflow: Dataflow,
    checkpoint: Path,
    location: str,
    spec: JobSpec,
    *,
    watch: MigrationWatch,
    described_only: bool = False,
    state_elsewhere: bool = False,
) -> tuple[Finding, ...]:
    """Put a restored checkpoint's state where the new query looks for it; return the findings for its owners.

    Args:
        state: the state that the chain takes over.
        checkpoint: its checkpoint directory, which already has the query's inputs.
        location: the URI by which Spark opens that.
        spec: the job, which may say how state is to be migrated.
        watch: is told of the changes of state to new forms.
        described_only: whether only the descriptions of the state are there, so that no state is migrated.
        state_elsewhere: whether other processes have the state, which must stay as it is.

    Raises:
        NeedsOneDisk: the state must be changed, and other processes have it.
        MigrationQueryRefused, StateNotMigrated, KeysMerged, StateMigratedWrongly: state cannot be migrated.
    """
    former = _former(restored, state, chain, checkpoint)
    with tempfile.TemporaryDirectory(prefix="described-", dir=checkpoint.parent) as scratch:
        described = Path(scratch)
        describe_state(spark, chain.uid, dataflow, described)
        names = operator_names(described, BatchId(0))
        whose = owners(graph, chain.uids(), list(names.values()))
        planned = {
            number: Keeper(frozenset(uids), name) for (number, name), uids in zip(names.items(), whose, strict=True)
        }
        matched = match(former, planned)
        if not state.forms and any(map(tells_more, dataflow.forms)):
            log.warning(
                "%s does not say in which form chain %s keeps its state: what its aggregates collect, its windows and "
                "its keys are compared by name and type only",
                restored.uri,
                chain.uid,
            )
        was, now = _ordered(restored.manifest.graph, state.operators), _ordered(graph, chain.uids())
        there = operator_names(checkpoint, state.batch)
        causes: dict[int, CannotRestore] = {}
        for number, cause in (*_new(matched, planned, restored, chain), *_by_the_graphs(planned, restored, chain)):
            causes.setdefault(number, cause)
        changes = Changes(spark, dataflow, described, checkpoint, location, state, restored.strict)
        migrations, not_carried = changes.plan(matched, planned, spec, causes)
        causes.update(not_carried)
        in_words = {number: each.migration.in_words for number, each in migrations.items()}
        found = starts(matched, former, planned, causes, in_words, allow=restored.allow)
        undecided = sorted(not_told(matched, former, was, now))
        refusals = [
            *found.findings,
            *_gone(matched, former, restored, chain),
            *(finding for uid in undecided for finding in _refused([uid], _not_told(former, uid, restored))),
        ]
        if refused := _first(refusals):
            return refused
        changed = dict(found.numbers) != {number: number for number in there}
        if state_elsewhere and (changed or found.empty or migrations):
            how = "in another form" if migrations else "only in part, or in another order"
            raise NeedsOneDisk(f"Chain {chain.uid!r} takes over its state in {restored.uri} {how}")
        if changed:
            graft_state(checkpoint, found.numbers)
        begin_empty(spark, checkpoint, location, state.batch, found.empty, described)
        # Where only descriptions are there, what would be migrated is described as it will be.
        pending = migrations if described_only else {}
        ask = partial(_asked, spark, chain, dataflow, checkpoint, state.batch, described, pending)
        for each in migrations.values():
            check_query(each)
        records = {
            number: migrate(each, watch, restored.uri, chain.uid)
            for number, each in ({} if described_only else migrations).items()
        }
        alone: dict[int, CannotRestore] = {}
        reason = ask(()) if planned else None
        if reason is not None and restored.allow and (alone := dict(_refused_alone(found.numbers, planned, ask))):
            found = starts(matched, former, planned, causes | alone, in_words, allow=True)
            if refused := _first(found.findings):
                return refused
            begin_empty(spark, checkpoint, location, state.batch, alone, described)
            reason = ask(())
        if reason is None:
            for number, record in records.items():
                if number not in alone:
                    watch.migrated(record, number)
            return found.findings
    keepers = frozenset(uid for each in planned.values() for uid in each.uids)
    return (*_refused(keepers, not_fitting(keepers, f"Spark: {reason}")),)


def _first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the first refusal of each operator, so that a start and a check name the same cause."""
    first: dict[str, Finding] = {}
    for each in findings:
        if each.refusal is not None:
            first.setdefault(each.uid, each)
    return tuple(first.values())


def _asked(
    spark: SparkSession,
    chain: ChainPlan,
    dataflow: Dataflow,
    checkpoint: Path,
    batch: BatchId,
    described: Path,
    pending: Iterable[int],
    replaced: Iterable[int],
) -> str | None:
    """Ask Spark, with a copy of the state's descriptions: Spark writes a description of the next batch there.

    The operators `pending` and `replaced` are described there as for the first batch of the query.
    """
    with tempfile.TemporaryDirectory(prefix="asked-", dir=checkpoint.parent) as scratch:
        for file in checkpoint.glob("**/*"):
            path = file.relative_to(checkpoint)
            if file.is_file() and describes(path.as_posix()):
                target = Path(scratch) / path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        for number in {*pending, *replaced}:
            replace_description(Path(scratch), number, described)
        relocate(Path(scratch), f"file:{scratch}")
        return why_state_does_not_fit(spark, chain.uid, dataflow, Path(scratch), batch)


def _refused_alone(
    numbers: Iterable[int], planned: Mapping[int, Keeper], ask: Callable[[Iterable[int]], str | None]
) -> Iterator[tuple[int, CannotRestore]]:
    """Yield the operators that Spark refuses with their own state, while all others start empty."""
    for number in numbers:
        if (reason := ask([other for other in numbers if other != number])) is not None:
            yield number, not_fitting(planned[number].uids, f"Spark: {reason}")


def describes(path: str) -> bool:
    """Return whether a checkpoint file describes positions or the form of state, and contains no state."""
    return not path.startswith("state/") or "/_metadata/" in path or "/_stateSchema/" in path


def _former(restored: Restored, state: ChainState, chain: ChainPlan, checkpoint: Path) -> dict[int, Keeper]:
    names = operator_names(checkpoint, state.batch)
    whose = owners(restored.manifest.graph, state.operators, list(names.values()))
    wanted = restored.origin(chain.uid).state
    return {
        number: Keeper(frozenset(uids), name)
        for (number, name), uids in zip(names.items(), whose, strict=True)
        if wanted is None or number in wanted
    }


def _new(
    matched: Matched, planned: Mapping[int, Keeper], restored: Restored, chain: ChainPlan
) -> Iterator[tuple[int, CannotRestore]]:
    base = restored.origin(chain.uid).base
    assert base is not None
    for number in matched.new:
        yield number, begins_to_keep(min(planned[number].uids), base)


def _by_the_graphs(
    planned: Mapping[int, Keeper], restored: Restored, chain: ChainPlan
) -> Iterator[tuple[int, CannotRestore]]:
    for uid, cause in restored.origin(chain.uid).empty.items():
        for number, keeper in planned.items():
            if uid in keeper.uids:
                yield number, cause


def _gone(matched: Matched, former: Mapping[int, Keeper], restored: Restored, chain: ChainPlan) -> Iterator[Finding]:
    if restored.allow:
        return
    for number in matched.gone:
        keeper = former[number]
        if uids := keeper.uids & frozenset(chain.uids()):
            error = StateGone(
                f"{listed(uids)} no longer keeps the state of its {keeper.name} in {restored.uri}",
                "give the state up with --allow-non-restored-state",
            )
            yield from _refused(uids, error)


def _ordered(graph: Mapping[str, Any], operators: Sequence[OperatorUid]) -> list[OperatorUid]:
    return [OperatorUid(each["uid"]) for each in from_the_output(graph, frozenset(operators))]


def _not_told(former: Mapping[int, Keeper], uid: OperatorUid, restored: Restored) -> StateNotTold:
    among = {each for keeper in former.values() if uid in keeper.uids for each in keeper.uids}
    return StateNotTold(
        f"{restored.uri} does not tell which of {listed(among)} each of their states is of, and they are not all there "
        "any more, or not in their order",
        "leave them as they were, or give each that keeps state another uid, and give the state up with "
        "--allow-non-restored-state",
    )


def _refused(uids: Any, error: StateChanged | Any) -> Iterator[Finding]:
    for uid in sorted(uids):
        yield refused(Kind.OPERATOR, uid, error)
