"""The simulation's replacement for Spark: queries over rows in memory, with checkpoint files like Spark's.

A query lists its inputs and numbers its stateful operators as Spark does, writes the files that the runtime moves and
rewrites at a restore, and looks for its positions and its state where Spark would.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.simulation.model import sha256
from tests.simulation.oracle import Violation
from tests.simulation.revision_flow import Item, partition_of, take
from tests.simulation.revisions import Revision

from streamjob.comparison.rewrite_checks import Contents
from streamjob.ids import BatchId, ChainUid, OperatorUid
from streamjob.job.planning.plan import ChainPlan
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.restoring import rewriting, state_matching
from streamjob_runtime.spark.checkpoint_dir.logs import PARTITIONS, VOID_OFFSET, last_committed, read_offsets
from streamjob_runtime.spark.checkpoint_dir.new_state import replace_description
from streamjob_runtime.spark.checkpoint_dir.operator_metadata import operator_names

Counts = dict[int, dict[str, int]]
"""The rows that an operator has numbered so far, by state partition and key."""
_SQL, _PYTHON = "stateStoreSave", "applyInPandasWithState"


@dataclass
class Standing:
    """A query's state after a batch: its sources' offsets, its positions in streams, its operators' state."""

    offsets: dict[OperatorUid, int] = field(default_factory=dict)
    consumed: dict[ChainUid, int] = field(default_factory=dict)
    counts: dict[OperatorUid, Counts] = field(default_factory=dict)

    def copy(self) -> Standing:
        """Return a place that changes independently."""
        counts = {
            uid: {number: dict(keys) for number, keys in partitions.items()} for uid, partitions in self.counts.items()
        }
        return Standing(dict(self.offsets), dict(self.consumed), counts)


class Query:
    """The query of a chain."""

    def __init__(self, revision: Revision, chain: ChainPlan) -> None:
        self._revision = revision
        self.chain = chain
        self._members = {each.uid for each in chain.operators}
        self._root = OperatorUid(chain.uid)
        self.stateful: list[OperatorUid] = []
        self.leaves: list[OperatorUid] = []
        self._visit(self._root)
        self.sources = tuple(each.uid for each in chain.sources)
        self.channels = {each.uid: each.source for each in chain.channels}

    def _visit(self, uid: OperatorUid) -> None:
        if uid not in self._members:
            self.leaves.append(uid)
            return
        step = self._revision.by_uid[uid]
        if step.counts:
            self.stateful.append(uid)
        for each in step.inputs:
            self._visit(each)
        # Feedback comes through a channel, even from the operator itself.
        self.leaves += self._fed_back(uid)

    def _fed_back(self, uid: OperatorUid) -> tuple[OperatorUid, ...]:
        back = self._revision.by_uid[uid].feedback
        return () if back is None else (back,)

    def name(self, uid: OperatorUid) -> str:
        """Return what Spark calls a stateful operator."""
        return _PYTHON if self._revision.by_uid[uid].python else _SQL

    def dataflow(self) -> Dataflow:
        """Return what the runtime knows of the query: what stands in a union twice is read once."""
        directories = [list(dict.fromkeys(self.leaves)).index(uid) for uid in self.leaves]
        query: Any = self
        return Dataflow(query, "append", tuple(self.leaves), tuple(directories), {}, {}, self.channels)

    def run(self, standing: Standing, reads: Mapping[OperatorUid, Sequence[Item]], partitions: int) -> list[Item]:
        """Return what a batch hands on; the place changes."""
        return list(self._rows(self._root, standing, reads, partitions))

    def _rows(
        self, uid: OperatorUid, standing: Standing, reads: Mapping[OperatorUid, Sequence[Item]], partitions: int
    ) -> Iterator[Item]:
        if uid not in self._members:
            yield from reads[uid]
            return
        step = self._revision.by_uid[uid]
        for each in step.inputs:
            for item in self._rows(each, standing, reads, partitions):
                yield self._handed_on(uid, item, standing, partitions, again=False)
        for each in self._fed_back(uid):
            for item in reads[each]:
                if take(step, item, again=True) is not None:
                    yield self._handed_on(uid, item, standing, partitions, again=True)

    def _handed_on(self, uid: OperatorUid, item: Item, standing: Standing, partitions: int, *, again: bool) -> Item:
        step = self._revision.by_uid[uid]
        taken = take(step, item, again=again)
        assert taken is not None
        if not step.counts:
            return taken
        counts = standing.counts.setdefault(uid, {}).setdefault(partition_of(taken.key, partitions), {})
        counts[str(taken.key)] = number = counts.get(str(taken.key), 0) + 1
        return taken.marked(uid, number)

    def files(self, batch: BatchId, standing: Standing, partitions: int) -> dict[str, bytes]:
        """Return Spark's checkpoint after a batch."""
        directories = self.dataflow().directories
        files = {"metadata": b'{"id":"any"}'}
        lines = []
        for uid, directory in zip(self.leaves, directories, strict=True):
            if uid in self.channels:
                lines.append(json.dumps({"pos": standing.consumed[self.channels[uid]]}))
            else:
                offset = standing.offsets.get(uid)
                lines.append(VOID_OFFSET if offset is None else str(offset))
                files[f"sources/{directory}/0"] = uid.encode()
        conf = {PARTITIONS: str(partitions)}
        head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": conf})
        files[f"offsets/{batch}"] = "\n".join(("v1", head, *lines)).encode()
        files[f"commits/{batch}"] = _commit(len(self.stateful), partitions)
        for number, uid in enumerate(self.stateful):
            files[f"state/{number}/_metadata/metadata"] = _metadata(number, self.name(uid))
            for partition in range(partitions):
                counts = standing.counts.get(uid, {}).get(partition, {})
                files[f"state/{number}/{partition}/1.zip"] = json.dumps({"of": uid, "counts": counts}).encode()
        return files

    def read(self, place: Path, batch: BatchId, partitions: int) -> Standing:
        """Return where a checkpoint stands, as Spark would find it. Raises Violation for one that it cannot go on."""
        entry = read_offsets(place, batch)
        lines = entry.offsets(self.dataflow().directories)
        standing = Standing()
        if entry.metadata["conf"][PARTITIONS] != str(partitions):
            raise Violation(f"chain {self.chain.uid} is restored with {entry.metadata['conf']}, not {partitions}")
        for uid, (directory, offset) in zip(self.leaves, lines, strict=True):
            if uid in self.channels:
                position = int(json.loads(offset)["pos"])
                if standing.consumed.setdefault(self.channels[uid], position) != position:
                    raise Violation(f"chain {self.chain.uid} reads {uid} from two positions")
            elif offset != VOID_OFFSET:
                standing.offsets[uid] = int(offset)
                if (place / "sources" / directory / "0").read_text() != uid:
                    raise Violation(f"chain {self.chain.uid} finds another source's files for {uid}")
        names = operator_names(place, batch)
        if list(names.items()) != [(number, self.name(uid)) for number, uid in enumerate(self.stateful)]:
            raise Violation(f"chain {self.chain.uid} keeps the state of {self.stateful} and finds that of {names}")
        for number, uid in enumerate(self.stateful):
            standing.counts[uid] = {}
            for partition in range(partitions):
                found = json.loads((place / "state" / str(number) / str(partition) / "1.zip").read_text())
                if found["of"] != uid:
                    raise Violation(f"operator {uid} of chain {self.chain.uid} goes on with the state of {found['of']}")
                standing.counts[uid][partition] = found["counts"]
        return standing


def _commit(operators: int, partitions: int) -> bytes:
    ids = {str(number): [["any"]] * partitions for number in range(operators)}
    return ("v2\n" + json.dumps({"nextBatchWatermarkMs": 0, "stateUniqueIds": ids})).encode()


def _metadata(number: int, name: str) -> bytes:
    info = {
        "operatorInfo": {"operatorId": number, "operatorName": name},
        "stateStoreInfo": [{"storeName": "default"}],
    }
    return f"v1\n{json.dumps(info)}".encode()


@contextmanager
def without_spark() -> Iterator[None]:
    """Let the runtime ask the queries of this module where it would ask Spark."""
    with ExitStack() as stack:
        for module, name, twin in (
            (state_matching, "describe_state", _describe_state),
            (state_matching, "why_state_does_not_fit", _why_state_does_not_fit),
            (state_matching, "begin_empty", _begin_empty),
            (rewriting._State, "_repartition", _repartition),
            (rewriting._State, "_contents", _contents),
            (rewriting._State, "_is_keyed", lambda *_: True),
        ):
            stack.enter_context(patch.object(module, name, twin))
        yield


def _describe_state(spark: object, chain: ChainUid, dataflow: Dataflow, checkpoint: Path) -> None:
    query: Any = dataflow.output
    for number, uid in enumerate(query.stateful):
        folder = checkpoint / "state" / str(number) / "_metadata"
        folder.mkdir(parents=True)
        (folder / "metadata").write_bytes(_metadata(number, query.name(uid)))
        (folder / "uid").write_text(uid)


def _begin_empty(
    spark: object, place: Path, location: str, batch: BatchId, numbers: Collection[int], described: Path
) -> None:
    partitions = int(read_offsets(place, batch).metadata["conf"][PARTITIONS])
    for number in numbers:
        replace_description(place, number, described)
        operator = place / "state" / str(number)
        empty = json.dumps({"of": (operator / "_metadata" / "uid").read_text(), "counts": {}})
        for partition in range(partitions):
            (operator / str(partition)).mkdir()
            (operator / str(partition) / "1.zip").write_text(empty)


def _why_state_does_not_fit(
    spark: object, chain: ChainUid, dataflow: Dataflow, checkpoint: Path, batch: BatchId
) -> str | None:
    query: Any = dataflow.output
    fits = [*operator_names(checkpoint, batch).values()] == [query.name(uid) for uid in query.stateful]
    return None if fits else "other operators"


def _repartition(self: Any, partitions: int) -> BatchId:
    checkpoint = self.chain.checkpoint
    before = last_committed(checkpoint)
    assert before is not None
    entry = read_offsets(checkpoint, before)
    entry.metadata["conf"][PARTITIONS] = str(partitions)
    batch = BatchId(before + 1)
    (checkpoint / "offsets" / str(batch)).write_text(entry.render())
    operators = [each for each in (checkpoint / "state").iterdir() if each.name.isdigit()]
    for operator in operators:
        contents = [json.loads(file.read_text()) for file in operator.glob("[0-9]*/1.zip")]
        for old in operator.glob("[0-9]*"):
            shutil.rmtree(old)
        for partition in range(partitions):
            counts = {
                key: number
                for each in contents
                for key, number in each["counts"].items()
                if partition_of(int(key), partitions) == partition
            }
            target = operator / str(partition) / "1.zip"
            target.parent.mkdir()
            target.write_text(json.dumps({"of": contents[0]["of"], "counts": counts}))
    (checkpoint / "commits" / str(batch)).write_bytes(_commit(len(operators), partitions))
    return batch


def _contents(self: Any, number: int, batch: BatchId, partitions: int) -> dict[tuple[str, str], Contents]:
    rows = checksum = misplaced = 0
    for file in (self.chain.checkpoint / "state" / str(number)).glob("[0-9]*/1.zip"):
        for key, count in json.loads(file.read_text())["counts"].items():
            rows += 1
            checksum += int(sha256(f"{key} {count}".encode())[:8], 16)
            misplaced += int(file.parent.name) != partition_of(int(key), partitions)
    return {("default", "default"): Contents(rows, checksum, misplaced)}
