"""The metrics that the control API's views declare, in Prometheus' form; pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client.metrics_core import Metric

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.client.models import (
    BatchTimesView,
    ChainView,
    ChannelView,
    CheckpointsView,
    ExecutorsView,
    ExecutorView,
    InputView,
    JobView,
    LastCheckpointView,
    LastPublishedView,
    LookupView,
    OperatorView,
    PartitionView,
    SinkView,
    TableView,
    TaskStatistics,
)
from streamjob.figures import Figure, Unit, figures_of
from streamjob.protocol.coordination.statistics import Counts
from streamjob_runtime.monitoring.metered_store import Verb, VerbCount

_TOTAL = "_total"


class Family(Metric):
    """A metric that knows its labels even while it has no values.

    Args:
        name: its name after `streamjob_`; that of a counter ends in `_total`.
        text: what it is.
        labels: the names of its labels.
    """

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        kind = "counter" if name.endswith(_TOTAL) else "gauge"
        super().__init__(f"streamjob_{name.removesuffix(_TOTAL)}", text, kind)
        self.labels = tuple(labels)

    def add(self, labels: Sequence[str], value: float) -> None:
        """Add a value with the values of its labels."""
        name = f"{self.name}{_TOTAL}" if self.type == "counter" else self.name
        self.add_sample(name, dict(zip(self.labels, labels, strict=True)), value)


class _Objects(NamedTuple):
    """Objects of one model with the values of their labels."""

    model: type
    labels: tuple[str, ...]
    each: Sequence[tuple[tuple[str, ...], object]]
    scope: str = ""


def figure_metrics(
    job: JobView,
    checkpoints: CheckpointsView,
    policy: LiveCheckpointingPolicy | None,
    store: Mapping[Verb, VerbCount] | None,
    now: float,
) -> Iterable[Family]:
    """Return the metrics of all figures, without values where there are none.

    Args:
        checkpoints: the statistics of its checkpoints.
        policy: the checkpointing policy in force, if it has metrics.
        store: the calls of the store, if they have metrics.
        now: seconds since 1970.
    """
    found: dict[str, Family] = {}
    objects: list[_Objects] = [*_of_job(job), *_of_chains(job), *_of_checkpoints(job.last_checkpoint, checkpoints)]
    if policy is not None:
        objects.append(_Objects(LiveCheckpointingPolicy, (), [((), policy)]))
    if store is not None:
        objects.append(_Objects(VerbCount, ("verb",), [((verb,), count) for verb, count in store.items()]))
    for model, labels, each_object, scope in objects:
        for name, figure in figures_of(model):
            if not figure.metric or figure.scope != scope:
                continue
            more = [figure.by] if figure.by else [figure.label[0]] if figure.label else []
            family = found.setdefault(figure.metric, Family(figure.metric, figure.text, (*labels, *more)))
            for values, each in each_object:
                for value, number in _values(figure, getattr(each, name), now):
                    family.add((*values, *value), number)
    return found.values()


def _values(figure: Figure, value: object, now: float) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield the values of a field in base units, with the labels that only the figure has."""
    if isinstance(value, Mapping):
        yield from (((name,), float(each)) for name, each in value.items())
    elif isinstance(value, (int, float)) and value != figure.unless:
        label = (figure.label[1],) if figure.label else ()
        yield label, _in_base_units(figure.unit, value, now)


def _in_base_units(unit: Unit, value: float, now: float) -> float:
    if unit in (Unit.MS, Unit.TIME_MS):
        return value / 1000
    return max(0.0, now - value) if unit is Unit.AGE else value


def _of_job(job: JobView) -> Iterator[_Objects]:
    executors = job.executors
    yield _Objects(JobView, (), [((), job)])
    yield _Objects(ChannelView, ("from", "to"), [((each.source, each.target), each) for each in job.channels])
    yield _Objects(SinkView, ("sink",), [((each.uid,), each) for each in job.sinks])
    published = [((each.uid,), each.last_published) for each in job.sinks if each.last_published is not None]
    yield _Objects(LastPublishedView, ("sink",), published)
    yield _Objects(ExecutorsView, (), [] if executors is None else [((), executors)])
    each_executor = () if executors is None else executors.executors
    yield _Objects(ExecutorView, ("executor",), [((each.name,), each) for each in each_executor])
    yield _Objects(TableView, ("table",), [((each.name,), each) for each in job.tables])
    yield _Objects(LookupView, ("operator", "table"), [((each.uid, each.table), each) for each in job.lookups])


def _of_chains(job: JobView) -> Iterator[_Objects]:
    chains = job.chains
    inputs = [(chain, each) for chain in chains for each in chain.inputs]
    sources = [each for _, each in inputs if each.chain is None]
    yield _Objects(ChainView, ("chain",), [((chain.uid,), chain) for chain in chains])
    times = [((chain.uid,), chain.batch_times) for chain in chains if chain.batch_times is not None]
    yield _Objects(BatchTimesView, ("chain",), times)
    operators = [((chain.uid, each.uid), each) for chain in chains for each in chain.operator_figures]
    yield _Objects(OperatorView, ("chain", "operator"), operators)
    yield _Objects(InputView, ("chain", "input"), [((chain.uid, each.uid), each) for chain, each in inputs])
    yield _Objects(InputView, ("source",), [((each.uid,), each) for each in sources], "source")
    partitions = [((each.uid, part.topic, str(part.partition)), part) for each in sources for part in each.partitions]
    yield _Objects(PartitionView, ("source", "topic", "partition"), partitions)


def _of_checkpoints(last: LastCheckpointView | None, checkpoints: CheckpointsView) -> Iterator[_Objects]:
    yield _Objects(Counts, (), [((), checkpoints.counts)])
    yield _Objects(LastCheckpointView, (), [] if last is None else [((), last)])
    tasks = [] if last is None else [((chain,), task) for chain, task in last.tasks.items()]
    yield _Objects(TaskStatistics, ("chain",), tasks)
