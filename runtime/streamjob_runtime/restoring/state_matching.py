"""Compares the state that a chain takes over with its new query's state, which Spark plans for this.

Spark itself compares types and numbers. It does not compare the owners of state and the names of columns, and would
accept the state of something else; these are compared here.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.comparison.compatibility import Restored
from streamjob.comparison.graphs import begins_to_keep
from streamjob.comparison.operator_matching import Keeper, Matched, match, not_told
from streamjob.comparison.refusals import StateChanged, StateGone, StateNotTold
from streamjob.comparison.state_forms import differences, tells_more
from streamjob.comparison.verdicts import Finding, Kind, Verdict
from streamjob.ids import BatchId, OperatorUid
from streamjob.job.plan import ChainPlan
from streamjob.snapshot.manifest import ChainState
from streamjob.snapshot.state_form import StateForm
from streamjob.stored.state_owners import from_the_output, owners
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.chain.query_planning import describe_state, what_spark_refuses
from streamjob_runtime.spark.checkpoint_dir.graft import graft_state
from streamjob_runtime.spark.checkpoint_dir.operator_metadata import Columns, operator_names, store_schemas
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
) -> tuple[Finding, ...]:
    """Put a restored checkpoint's state where the new query looks for it; return the findings for its owners.

    Args:
        spark: the session.
        graph: the job's graph.
        restored: the snapshot.
        state: the state that the chain takes over.
        chain: the chain.
        dataflow: its query.
        checkpoint: its checkpoint directory, which already has the query's inputs.
    """
    former = _former(restored, state, chain, checkpoint)
    with tempfile.TemporaryDirectory(prefix="described-", dir=checkpoint.parent) as scratch:
        described = Path(scratch)
        describe_state(spark, dataflow, described)
        names = operator_names(described, BatchId(0))
        whose = owners(graph, chain.uids(), list(names.values()))
        planned = {
            number: Keeper(frozenset(uids), name) for (number, name), uids in zip(names.items(), whose, strict=True)
        }
        matched = match(former, planned)
        refused = [*_refusals(matched, former, planned, restored, chain)]
        was = _ordered(restored.manifest.graph, state.operators)
        for uid in sorted(not_told(matched, former, was, _ordered(graph, chain.uids()))):
            refused += _refused([uid], _not_told(former, uid, restored))
        if refused:
            return tuple(refused)
        if not state.forms and any(map(tells_more, dataflow.forms)):
            log.warning(
                "%s does not say in which form chain %s keeps its state: what its aggregates collect, its windows and "
                "its keys are compared by name and type only",
                restored.uri,
                chain.uid,
            )
        there = operator_names(checkpoint, state.batch)
        refused = [*_differences(matched, planned, dict(zip(there, state.forms, strict=False)), dataflow)]
        if refused:
            return tuple(refused)
        if dict(matched.numbers) != {number: number for number in there}:
            graft_state(checkpoint, state.batch, matched.numbers)
        refused = [*_changed(matched, planned, described, checkpoint)]
    if not refused and planned and (reason := _asked(spark, dataflow, checkpoint, state.batch)) is not None:
        keepers = frozenset(uid for each in planned.values() for uid in each.uids)
        refused = [*_refused(keepers, _not_fitting(keepers, f"Spark: {reason}"))]
    return tuple(refused) or (*_moved(matched, former, planned),)


def _asked(spark: SparkSession, dataflow: Dataflow, checkpoint: Path, batch: BatchId) -> str | None:
    """Ask Spark, with a copy of the state's descriptions: Spark writes a description of the next batch there."""
    with tempfile.TemporaryDirectory(prefix="asked-", dir=checkpoint.parent) as scratch:
        for file in checkpoint.glob("**/*"):
            path = file.relative_to(checkpoint)
            if file.is_file() and describes(path.as_posix()):
                target = Path(scratch) / path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        relocate(Path(scratch))
        return what_spark_refuses(spark, dataflow, Path(scratch), batch)


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


def _refusals(
    matched: Matched,
    former: Mapping[int, Keeper],
    planned: Mapping[int, Keeper],
    restored: Restored,
    chain: ChainPlan,
) -> Iterator[Finding]:
    base = restored.origin(chain.uid).base
    assert base is not None
    for number in matched.new:
        uids = planned[number].uids
        yield from _refused(uids, begins_to_keep(min(uids), base))
    for number in matched.gone:
        keeper = former[number]
        if uids := keeper.uids & frozenset(chain.uids()):
            error = StateGone(
                f"{_list(uids)} no longer keeps the state of its {keeper.name} in {restored.uri}",
                "give it another uid, and give the state up with --allow-non-restored-state",
            )
            if not restored.allow:
                yield from _refused(uids, error)


def _ordered(graph: Mapping[str, Any], operators: Sequence[OperatorUid]) -> list[OperatorUid]:
    return [OperatorUid(each["uid"]) for each in from_the_output(graph, frozenset(operators))]


def _not_told(former: Mapping[int, Keeper], uid: OperatorUid, restored: Restored) -> StateNotTold:
    among = {each for keeper in former.values() if uid in keeper.uids for each in keeper.uids}
    return StateNotTold(
        f"{restored.uri} does not tell which of {_list(among)} each of their states is of, and they are not all there "
        "any more, or not in their order",
        "leave them as they were, or give each that keeps state another uid, and give the state up with "
        "--allow-non-restored-state",
    )


def _differences(
    matched: Matched, planned: Mapping[int, Keeper], former: Mapping[int, StateForm], dataflow: Dataflow
) -> Iterator[Finding]:
    forms = dict(zip(planned, dataflow.forms, strict=False)) if len(dataflow.forms) == len(planned) else {}
    for number, had in matched.numbers.items():
        if number in forms and had in former:
            uids = planned[number].uids
            for reason in differences(former[had], forms[number]):
                yield from _refused(uids, _not_fitting(uids, reason))


def _changed(matched: Matched, planned: Mapping[int, Keeper], described: Path, checkpoint: Path) -> Iterator[Finding]:
    for number in matched.numbers:
        now, then = (store_schemas(each / "state" / str(number)) for each in (described, checkpoint))
        for store in now.keys() & then.keys():
            for what, before, after in zip(("key", "value"), then[store], now[store], strict=True):
                if before != after:
                    uids = planned[number].uids
                    reason = f"its {what} was ({_columns(before)}), and is ({_columns(after)})"
                    yield from _refused(uids, _not_fitting(uids, reason))


def _moved(matched: Matched, former: Mapping[int, Keeper], planned: Mapping[int, Keeper]) -> Iterator[Finding]:
    for number, had in matched.numbers.items():
        if number != had:
            for uid in planned[number].uids:
                name = planned[number].name
                why = f"its {name} continues with its state, as number {number} of the query, not {had}"
                yield Finding(kind=Kind.OPERATOR, uid=uid, verdict=Verdict.REWRITTEN, why=why)
    for number in matched.gone:
        for uid in former[number].uids:
            why = f"the state of its {former[number].name} is given up"
            yield Finding(kind=Kind.OPERATOR, uid=uid, verdict=Verdict.DROPPED, why=why)


def _not_fitting(uids: frozenset[OperatorUid] | Any, reason: str) -> StateChanged:
    return StateChanged(
        f"The state of {_list(uids)} does not fit what it keeps: {reason}",
        "undo the change, or give the operator another uid and `chain: false`, and give its state up with "
        "--allow-non-restored-state: it starts empty, so earlier rows of open groups are missing in its results",
    )


def _refused(uids: Any, error: StateChanged | Any) -> Iterator[Finding]:
    for uid in sorted(uids):
        yield Finding(kind=Kind.OPERATOR, uid=uid, verdict=Verdict.REFUSED, why=error.what, refusal=error)


def _list(uids: Any) -> str:
    return " or ".join(repr(uid) for uid in sorted(uids))


def _columns(columns: Columns) -> str:
    return ", ".join(f"{name} {kind.strip(chr(34))}" for name, kind in columns)
