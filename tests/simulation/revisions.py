"""A job from one life to the next: its graph by uid, its slots and state partitions, and random changes of all that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tests.simulation.world import Choices

from streamjob.ids import ChainUid, OperatorUid
from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.loops import closes_a_cycle, loops_of
from streamjob.job.planning.plan import Plan, plan

PYTHON = "simulated:function"
COUNT = "SELECT k, count(*) FROM ({}) GROUP BY k"


@dataclass(frozen=True)
class Input:
    """A source; `bounded` ones have an end from the start."""

    uid: OperatorUid
    name: str
    bounded: bool


@dataclass(frozen=True)
class Step:
    """An operator: it hands on each of its inputs' rows, and with `counts` numbers those of each key.

    `feedback` is its input from later operators; it takes no row from there more than `laps` times.
    """

    uid: OperatorUid
    name: str
    inputs: tuple[OperatorUid, ...]
    counts: bool = False
    python: bool = False
    chain: bool = True
    feedback: OperatorUid | None = None
    laps: int = 1


@dataclass(frozen=True)
class Output:
    """A sink."""

    uid: OperatorUid
    name: str
    input: OperatorUid


@dataclass(frozen=True)
class Revision:
    """A job as it is in one life.

    Args:
        inputs: its sources.
        steps: its operators, each after its inputs.
        outputs: its sinks.
        slots: its parallelism.
        partitions: its state partitions; None for those that its state has.
        allow: state without an operator is discarded.
        changes: what has been changed since the revision before.
    """

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    slots: int = 1
    partitions: int | None = None
    allow: bool = False
    changes: tuple[str, ...] = ()
    number: int = field(default=0, compare=False)

    @cached_property
    def spec(self) -> JobSpec:
        """The job as its author writes it."""
        names = {each.uid: each.name for each in self.readable}
        fields: dict[str, Any] = {"name": "simulated", "parallelism": self.slots}
        if self.partitions is not None:
            fields["maxParallelism"] = self.partitions
        return JobSpec.model_validate(
            fields
            | {
                "sources": [
                    {"name": each.name, "uid": each.uid, "format": "rate", "bounded": each.bounded}
                    for each in self.inputs
                ],
                "operators": [_operator(each, names) for each in self.steps],
                "sinks": [
                    {"name": each.name, "uid": each.uid, "input": names[each.input], "format": "simulated:Sink"}
                    for each in self.outputs
                ],
            }
        )

    @cached_property
    def plan(self) -> Plan:
        """How it runs."""
        return plan(self.spec)

    @cached_property
    def graph(self) -> Mapping[str, Any]:
        """Return its graph for manifests."""
        return graph_of(self.spec)

    @cached_property
    def looped(self) -> frozenset[ChainUid]:
        """The chains that are in loops."""
        return frozenset(chain.uid for chain in self.plan.chains if chain.loop)

    @cached_property
    def by_uid(self) -> Mapping[OperatorUid, Step]:
        """The operators."""
        return {each.uid: each for each in self.steps}

    @property
    def readable(self) -> tuple[Input | Step, ...]:
        """Return the possible inputs of operators."""
        return (*self.inputs, *self.steps)

    def readers(self, uid: OperatorUid) -> tuple[Step, ...]:
        """Return the operators that read a source or an operator, through feedback, too."""
        return tuple(each for each in self.steps if uid in (*each.inputs, each.feedback))

    def has_sink(self, uid: OperatorUid) -> bool:
        """Return whether a source or an operator has a sink."""
        return any(each.input == uid for each in self.outputs)


def _operator(step: Step, names: Mapping[OperatorUid, str]) -> dict[str, Any]:
    read = [*(names[each] for each in step.inputs)]
    inputs: list[Any] = list(read)
    if step.feedback is not None:
        read.append(names[step.feedback])
        inputs.append({"from": names[step.feedback], "feedback": True, "schema": "k INT"})
    union = " UNION ALL ".join(f"SELECT * FROM {each}" for each in read)
    code = {"python": PYTHON} if step.python else {"sql": COUNT.format(union) if step.counts else union}
    return {"name": step.name, "uid": step.uid, "inputs": inputs, "chain": step.chain, **code}


def draw_revision(choices: Choices) -> Revision:
    """Return a job of one to two sources and two to four operators, some with a loop."""
    inputs = tuple(Input(OperatorUid(f"s{n}"), f"s{n}", choices.pick(3) == 2) for n in range(1 + choices.pick(2)))
    steps: list[Step] = []
    for number in range(2 + choices.pick(3)):
        uid = OperatorUid(f"o{number}")
        readable = [*(each.uid for each in inputs), *(each.uid for each in steps)]
        unread = [each for each in readable if not any(each in step.inputs for step in steps)]
        first = readable[-1] if number and choices.pick(3) else (unread or readable)[0]
        second = (*(None,) * 6, *readable)[choices.pick(6 + len(readable))]
        steps.append(
            Step(
                uid,
                f"o{number}",
                (first,) if second in (None, first) else (first, second),
                counts=choices.pick(3) > 0,
                python=choices.pick(4) == 3,
                chain=choices.pick(4) < 3,
            )
        )
    drawn = Revision(inputs, tuple(steps), (), slots=1 + choices.pick(3), partitions=(4, 2, 3)[choices.pick(3)])
    if choices.pick(3) == 2:
        drawn = close_a_loop(drawn, choices)
    return with_sinks(without_unread(drawn))


def close_a_loop(revision: Revision, choices: Choices) -> Revision:
    """Return the job with a feedback edge more, if there is room for one."""
    if any(each.feedback for each in revision.steps):
        return revision
    names = {each.uid: each.name for each in revision.steps}
    pairs = [
        (reader, writer)
        for reader in revision.steps
        for writer in revision.steps
        if closes_a_cycle(revision.spec, names[writer.uid], names[reader.uid])
    ]
    reader, writer = pairs[choices.pick(len(pairs))]
    looped = replace(reader, feedback=writer.uid, laps=1 + choices.pick(2))
    return replace(revision, steps=_with(revision.steps, looped))


def with_sinks(revision: Revision) -> Revision:
    """Return the job with a sink for each operator without readers."""
    outputs = revision.outputs
    for step in revision.steps:
        others = [each for each in revision.readers(step.uid) if each.feedback != step.uid]
        if not others and not any(each.input == step.uid for each in outputs):
            uid = _fresh("k", (each.uid for each in outputs), revision.number)
            outputs += (Output(uid, uid, step.uid),)
    return replace(revision, outputs=outputs)


def without_unread(revision: Revision) -> Revision:
    """Return the job without unread sources."""
    return replace(revision, inputs=tuple(each for each in revision.inputs if revision.readers(each.uid)))


Change = Callable[[Revision, Choices], "Revision | None"]
"""Returns the changed job; None if there is nothing to change in that way."""


def change(revision: Revision, choices: Choices, number: int) -> Revision:
    """Return the job with one to three random changes."""
    changed = replace(revision, allow=choices.pick(3) == 2, changes=(), number=number)
    for _ in range(1 + choices.pick(3)):
        name, apply = tuple(CHANGES.items())[choices.pick(len(CHANGES))]
        found = apply(changed, choices)
        if found is not None:
            changed = replace(with_sinks(without_unread(found)), changes=(*changed.changes, name))
    return changed


def _more_or_fewer_slots(revision: Revision, choices: Choices) -> Revision:
    return replace(revision, slots=(1, 2, 3, 5)[choices.pick(4)])


def _other_partitions(revision: Revision, choices: Choices) -> Revision:
    return replace(revision, partitions=(None, 4, 2, 3, 7)[choices.pick(5)])


def _rename(revision: Revision, choices: Choices) -> Revision:
    step = _one(revision.steps, choices)
    return replace(revision, steps=_with(revision.steps, replace(step, name=f"{step.uid}_{revision.number}")))


def _rename_source(revision: Revision, choices: Choices) -> Revision:
    one = _one(revision.inputs, choices)
    renamed = replace(one, name=f"{one.uid}_{revision.number}")
    return replace(revision, inputs=tuple(renamed if each is one else each for each in revision.inputs))


def _fuse_or_split(revision: Revision, choices: Choices) -> Revision:
    step = _one(revision.steps, choices)
    return replace(revision, steps=_with(revision.steps, replace(step, chain=not step.chain)))


def _insert(revision: Revision, choices: Choices) -> Revision:
    reader = _one(revision.steps, choices)
    read = reader.inputs[choices.pick(len(reader.inputs))]
    uid = _fresh("i", revision.by_uid, revision.number)
    new = Step(uid, uid, (read,), choices.pick(3) == 2, choices.pick(4) == 3, chain=choices.pick(2) == 0)
    inputs = tuple(uid if each == read else each for each in reader.inputs)
    steps = _with(revision.steps, replace(reader, inputs=inputs))
    place = steps.index(replace(reader, inputs=inputs))
    return replace(revision, steps=(*steps[:place], new, *steps[place:]))


def _append(revision: Revision, choices: Choices) -> Revision:
    read = _one((*revision.steps, *revision.inputs), choices).uid
    uid = _fresh("n", revision.by_uid, revision.number)
    new = Step(uid, uid, (read,), choices.pick(2) == 1, choices.pick(4) == 3, chain=choices.pick(2) == 0)
    return replace(revision, steps=(*revision.steps, new))


def _remove(revision: Revision, choices: Choices) -> Revision | None:
    step = _one(revision.steps, choices)
    if len(revision.steps) == 1 or step.feedback is not None or any(step.uid == e.feedback for e in revision.steps):
        return None
    steps = []
    for each in revision.steps:
        if each is not step:
            inputs = [other for read in each.inputs for other in (step.inputs if read == step.uid else (read,))]
            steps.append(replace(each, inputs=tuple(dict.fromkeys(inputs))))
    outputs = tuple(replace(e, input=step.inputs[0]) if e.input == step.uid else e for e in revision.outputs)
    sources = {each.uid for each in revision.inputs}
    return replace(revision, steps=tuple(steps), outputs=tuple(e for e in outputs if e.input not in sources))


def _prune(revision: Revision, choices: Choices) -> Revision | None:
    """Remove an operator without readers, and its sinks."""
    ends = [each for each in revision.steps if not revision.readers(each.uid)]
    if not ends or len(revision.steps) == 1:
        return None
    step = _one(ends, choices)
    if step.inputs[0] not in revision.by_uid and len(revision.readers(step.inputs[0])) == 1:
        return None
    return replace(
        revision,
        steps=tuple(each for each in revision.steps if each is not step),
        outputs=tuple(each for each in revision.outputs if each.input != step.uid),
    )


def _add_source(revision: Revision, choices: Choices) -> Revision:
    uid = _fresh("s", (each.uid for each in revision.inputs), revision.number)
    reader = _one(revision.steps, choices)
    inputs = (uid, *reader.inputs) if choices.pick(2) else (*reader.inputs, uid)
    return replace(
        revision,
        inputs=(*revision.inputs, Input(uid, uid, choices.pick(3) == 2)),
        steps=_with(revision.steps, replace(reader, inputs=inputs)),
    )


def _remove_input(revision: Revision, choices: Choices) -> Revision | None:
    several = [each for each in revision.steps if len(each.inputs) > 1]
    if not several:
        return None
    step = _one(several, choices)
    gone = step.inputs[choices.pick(len(step.inputs))]
    inputs = tuple(each for each in step.inputs if each != gone)
    changed = replace(revision, steps=_with(revision.steps, replace(step, inputs=inputs)))
    return changed if _is_sound(changed) else None


def _rewire(revision: Revision, choices: Choices) -> Revision | None:
    """Let an operator read another source or operator, in the place of one that it reads."""
    return _read(revision, choices, instead=True)


def _read_more(revision: Revision, choices: Choices) -> Revision | None:
    """Let an operator read another source or operator, too."""
    return _read(revision, choices, instead=False)


def _read(revision: Revision, choices: Choices, *, instead: bool) -> Revision | None:
    step = _one(revision.steps, choices)
    names = {each.uid: each.name for each in revision.steps}
    behind = {each.uid for each in revision.steps if closes_a_cycle(revision.spec, names[each.uid], step.name)}
    readable = [each.uid for each in revision.readable if each.uid not in {*behind, *step.inputs}]
    beside = [each.uid for each in revision.steps if each.uid in readable and {*each.inputs} & {*step.inputs}]
    if not readable:
        return None
    # One that reads the same may be fused with it then, if it has no sink of its own.
    read = _one(beside if beside and choices.pick(3) else readable, choices)
    outputs = tuple(each for each in revision.outputs if each.input != read or choices.pick(4) == 0)
    gone = _one(step.inputs, choices) if instead else None
    inputs = (*(each for each in step.inputs if each != gone), read)
    changed = replace(revision, steps=_with(revision.steps, replace(step, inputs=inputs)), outputs=outputs)
    return changed if _is_sound(changed) else None


def _turn_inputs(revision: Revision, choices: Choices) -> Revision:
    step = _one(revision.steps, choices)
    return replace(revision, steps=_with(revision.steps, replace(step, inputs=step.inputs[::-1])))


def _swap(revision: Revision, choices: Choices) -> Revision | None:
    """Let an operator and its only reader change places."""
    pairs = [
        (first, second)
        for second in revision.steps
        for first in revision.steps
        if second.inputs == (first.uid,) and revision.readers(first.uid) == (second,)
        if first.feedback is None and second.feedback is None and not revision.has_sink(first.uid)
        if not any(each.feedback in (first.uid, second.uid) for each in revision.steps)
    ]
    if not pairs:
        return None
    first, second = _one(pairs, choices)
    steps = []
    for each in revision.steps:
        if each is first:
            steps += [replace(second, inputs=first.inputs), replace(first, inputs=(second.uid,))]
        elif each is not second:
            inputs = tuple(first.uid if read == second.uid else read for read in each.inputs)
            steps.append(replace(each, inputs=inputs))
    outputs = tuple(replace(e, input=first.uid) if e.input == second.uid else e for e in revision.outputs)
    return replace(revision, steps=tuple(steps), outputs=outputs)


def _add_sink(revision: Revision, choices: Choices) -> Revision:
    uid = _fresh("k", (each.uid for each in revision.outputs), revision.number)
    return replace(revision, outputs=(*revision.outputs, Output(uid, uid, _one(revision.steps, choices).uid)))


def _remove_sink(revision: Revision, choices: Choices) -> Revision | None:
    others = [each for each in revision.outputs if revision.readers(each.input)]
    if not others:
        return None
    gone = _one(others, choices)
    return replace(revision, outputs=tuple(each for each in revision.outputs if each is not gone))


def _loop(revision: Revision, choices: Choices) -> Revision:
    return close_a_loop(revision, choices)


def _open_loop(revision: Revision, choices: Choices) -> Revision:
    return replace(revision, steps=tuple(replace(each, feedback=None) for each in revision.steps))


def _turn_file(revision: Revision, choices: Choices) -> Revision:
    return replace(revision, inputs=revision.inputs[::-1], outputs=revision.outputs[::-1])


CHANGES: Mapping[str, Change] = {
    "slots": _more_or_fewer_slots,
    "partitions": _other_partitions,
    "operator renamed": _rename,
    "source renamed": _rename_source,
    "fused or split": _fuse_or_split,
    "operator inserted": _insert,
    "operator appended": _append,
    "operator removed": _remove,
    "branch removed": _prune,
    "source added": _add_source,
    "input removed": _remove_input,
    "operator moved": _rewire,
    "input added": _read_more,
    "inputs turned": _turn_inputs,
    "operators swapped": _swap,
    "sink added": _add_sink,
    "sink removed": _remove_sink,
    "loop closed": _loop,
    "loop opened": _open_loop,
    "file turned": _turn_file,
}
HARMLESS = frozenset({"slots", "partitions", "operator renamed", "source renamed", "file turned"})
"""Changes that can never be refused."""


def _is_sound(revision: Revision) -> bool:
    """Return whether every loop is still closed, and fed from outside."""
    loops = loops_of(revision.spec)
    for step in revision.steps:
        if step.feedback is None:
            continue
        if step.name not in loops or revision.by_uid[step.feedback].name not in loops[step.name]:
            return False
    return True


def _with(steps: tuple[Step, ...], changed: Step) -> tuple[Step, ...]:
    return tuple(changed if each.uid == changed.uid else each for each in steps)


def _one(values: Any, choices: Choices) -> Any:
    return values[choices.pick(len(values))]


def _fresh(letter: str, used: Iterable[str], number: int) -> OperatorUid:
    taken = set(used)
    return next(OperatorUid(uid) for uid in (f"{letter}{number}_{each}" for each in range(99)) if uid not in taken)
