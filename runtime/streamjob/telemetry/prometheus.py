"""Reads the metrics of a Prometheus registry as plain values, so that another format can have the same ones.

The names are those of Prometheus' text form, `_total` included, so that queries and the reference fit both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_UNITS = {"seconds": "s", "bytes": "By", "ratio": "1"}
_CREATED = "_created"


class Kind(StrEnum):
    """The kinds of metrics."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Point:
    """A number with its labels."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class HistogramPoint:
    """A histogram with its labels.

    Args:
        bounds: upper bounds of all buckets but the last, which has none; ascending.
        counts: the number of values in each bucket.
        sum: the sum of all values.
    """

    labels: Mapping[str, str]
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its values.

    Args:
        name: its name in Prometheus' text form.
        description: its meaning.
        unit: its unit in UCUM; empty if it has none.
        points: its values, unless it is a histogram.
        histograms: its values if it is a histogram.
    """

    name: str
    description: str
    unit: str
    kind: Kind
    points: tuple[Point, ...] = ()
    histograms: tuple[HistogramPoint, ...] = ()


def families(metrics: Iterable[Metric]) -> Iterator[Family]:
    """Yield the metrics of a registry.

    Raises:
        ValueError: a metric is of a kind that this has no values for: a defect of the registry.
    """
    for metric in metrics:
        unit = next((_UNITS[part] for part in reversed(metric.name.split("_")) if part in _UNITS), "")
        match metric.type:
            case "gauge":
                yield Family(metric.name, metric.documentation, unit, Kind.GAUGE, _points(metric, metric.name))
            case "counter":
                name = f"{metric.name}_total"
                yield Family(name, metric.documentation, unit, Kind.COUNTER, _points(metric, name))
            case "histogram":
                found = tuple(_histograms(metric))
                yield Family(metric.name, metric.documentation, unit, Kind.HISTOGRAM, histograms=found)
            case _:
                raise ValueError(f"metric {metric.name} is a {metric.type}, for which there is no form")


def _points(metric: Metric, name: str) -> tuple[Point, ...]:
    # A collector may give a bool, which no protocol for numbers takes.
    return tuple(Point(dict(each.labels), float(each.value)) for each in metric.samples if each.name == name)


@dataclass
class _Buckets:
    labels: dict[str, str]
    cumulative: list[tuple[float, float]] = field(default_factory=list)
    sum: float = 0.0


def _histograms(metric: Metric) -> Iterator[HistogramPoint]:
    found: dict[tuple[tuple[str, str], ...], _Buckets] = {}
    for sample in metric.samples:
        if sample.name.endswith(_CREATED):
            continue
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        buckets = found.setdefault(tuple(sorted(labels.items())), _Buckets(labels))
        if sample.name == f"{metric.name}_bucket":
            buckets.cumulative.append((float(sample.labels["le"]), sample.value))
        elif sample.name == f"{metric.name}_sum":
            buckets.sum = sample.value
    for buckets in found.values():
        ordered = sorted(buckets.cumulative)
        below = 0.0
        counts = []
        for _, cumulative in ordered:
            counts.append(round(cumulative - below))
            below = cumulative
        bounds = tuple(bound for bound, _ in ordered if not math.isinf(bound))
        yield HistogramPoint(buckets.labels, bounds, tuple(counts), buckets.sum)
