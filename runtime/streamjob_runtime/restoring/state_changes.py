"""Finds the operators of a chain that need state in another form, and plans how it follows from the former one."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from streamjob.comparison.empty_starts import EMPTY
from streamjob.comparison.operator_matching import Keeper, Matched
from streamjob.comparison.refusals import StateChanged
from streamjob.comparison.state_forms import differences
from streamjob.errors import CannotRestore
from streamjob.ids import BatchId, OperatorUid
from streamjob.job.model.spec import JobSpec
from streamjob.migration.kinds import continues
from streamjob.migration.planning import plan
from streamjob.migration.state import Family, KeptState, NotCarried, wishes_of
from streamjob.migration.variables import WITH_VARIABLES
from streamjob.migration.ways_out import reason, ways_out
from streamjob.snapshot.manifest import ChainState
from streamjob.snapshot.state_form import StateForm
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.chain.query_planning import initial_buffers
from streamjob_runtime.migrating.transforming import OperatorMigration
from streamjob_runtime.spark.checkpoint_dir.logs import read_offsets
from streamjob_runtime.spark.checkpoint_dir.operator_metadata import operator_names, store_schemas
from streamjob_runtime.spark.gateway import java_session, our_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FAMILIES = TypeAdapter(tuple[Family, ...])


@dataclass(frozen=True)
class Changes:
    """The changes of the state of a chain.

    Args:
        described: a checkpoint directory in which Spark has described the state of the new query's first batch.
        checkpoint: the restored checkpoint.
        location: the URI by which Spark opens it.
        state: the state that the chain takes over.
        strict: whether a migration after which something is missing is refused.
    """

    spark: SparkSession
    dataflow: Dataflow
    described: Path
    checkpoint: Path
    location: str
    state: ChainState
    strict: bool

    def plan(
        self, matched: Matched, planned: Mapping[int, Keeper], spec: JobSpec, decided: Collection[int]
    ) -> tuple[dict[int, OperatorMigration], dict[int, CannotRestore]]:
        """Plan the migrations of operators by their numbers in the new query; and why state of others does not follow.

        Args:
            matched: the former operator for each operator of the new query.
            planned: the operators of the new query.
            spec: the job, which may say how state follows.
            decided: the numbers of operators that do not take over state.
        """
        migrations: dict[int, OperatorMigration] = {}
        causes: dict[int, CannotRestore] = {}
        before = self._forms(self.checkpoint, self.state.batch, self.state.forms)
        after = self._forms(self.described, BatchId(0), self.dataflow.forms)
        differ = {number for number, had in matched.numbers.items() if self._differ(had, number, before, after)}
        with_variables = {number for number in matched.numbers if planned[number].name == WITH_VARIABLES}
        if not differ | with_variables:
            return migrations, causes
        former = self._kept(self.checkpoint, self.state.batch, before)
        needed = self._kept(self.described, BatchId(0), after)
        differ |= {each for each in with_variables if not continues(former[matched.numbers[each]], needed[each])}
        changed = {number: had for number, had in matched.numbers.items() if number in differ - set(decided)}
        for number, had in changed.items():
            uids = planned[number].uids
            was, now, wishes = former[had], needed[number], wishes_of(spec, uids)
            try:
                migration = plan(was, now, wishes, self._closed_us(), alone=len(needed) == 1)
            except NotCarried as refusal:
                causes[number] = not_fitting(uids, reason(str(refusal), was, wishes), ways_out(uids, was, now))
                continue
            if self.strict and migration.gaps:
                ways = ways_out(uids, was, now, only_strict=True)
                causes[number] = not_fitting(uids, reason("; ".join(migration.gaps), was, wishes), ways)
                continue
            begins = any("initial." in part for family in migration.families for part in family.value)
            initial = initial_buffers(self.spark, self.dataflow, number) if begins else None
            place = (self.spark, self.checkpoint, self.location, self.state.batch, self.described, number)
            label = f"the state of {listed(uids)}"
            migrations[number] = OperatorMigration(*place, uids, label, was, now, migration, initial)
        return migrations, causes

    def _forms(self, checkpoint: Path, batch: BatchId, forms: tuple[StateForm, ...]) -> dict[int, StateForm]:
        numbers = operator_names(checkpoint, batch)
        return dict(zip(numbers, forms, strict=True)) if len(numbers) == len(forms) else {}

    def _differ(self, had: int, number: int, before: Mapping[int, StateForm], after: Mapping[int, StateForm]) -> bool:
        """Return whether an operator keeps state in another form, or in columns that Spark describes otherwise."""
        if had in before and number in after and differences(before[had], after[number]):
            return True
        then, now = (
            store_schemas(checkpoint / "state" / str(each))
            for checkpoint, each in ((self.checkpoint, had), (self.described, number))
        )
        return any(then[store] != now[store] for store in then.keys() & now.keys())

    def _kept(self, checkpoint: Path, batch: BatchId, forms: Mapping[int, StateForm]) -> dict[int, KeptState]:
        location, session = checkpoint.absolute().as_uri(), java_session(self.spark)
        return {
            each["number"]: KeptState(
                each["name"], forms.get(each["number"]), _FAMILIES.validate_python(each["families"])
            )
            for each in json.loads(our_java(self.spark).StateRows.describe(session, location, batch))
        }

    def _closed_us(self) -> int | None:
        # The watermark by which the last batch has dropped state: the next one has not dropped any yet.
        watermark_ms = int(read_offsets(self.checkpoint, self.state.batch).metadata.get("batchWatermarkMs", 0))
        return watermark_ms * 1000 if watermark_ms > 0 else None


def not_fitting(uids: Set[OperatorUid], reason: str, ways: str = "undo the change") -> StateChanged:
    """Return the refusal of state that an operator cannot continue with."""
    return StateChanged(
        f"The state of {listed(uids)} does not fit what it keeps: {reason}",
        f"{ways}, or give the state up with --allow-non-restored-state: {EMPTY}",
    )


def listed(uids: Set[OperatorUid]) -> str:
    """Return uids in words."""
    return " or ".join(repr(uid) for uid in sorted(uids))
