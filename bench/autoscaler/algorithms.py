"""The algorithms that are compared, each with the job that it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.autoscaler.flink import Flink, documented_example
from bench.autoscaler.ours import IN_PLACE, RESTARTS, Ours
from bench.autoscaler.specified import Specified, in_place
from bench.autoscaler.trial import Autoscaler
from bench.autoscaler.world import Kind

_FLINK_RESTART = Kind(restart=60.0)
_RESTART = Kind()
_IN_PLACE = Kind(in_place=True, restart=1.0, restart_spread=0.0)


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm.

    Args:
        make: makes it.
        kind: the job.
        published: moves a day, late minutes a day, worst lag and over-provisioning in the specification.
    """

    make: Callable[[], Autoscaler]
    kind: Kind
    published: tuple[float, float, float, float]


OURS_RESTART, OURS_IN_PLACE = "streamjob, restarts of 17 s", "streamjob, in place"
SPECIFIED_RESTART, SPECIFIED_IN_PLACE = "the specified rules, restarts of 17 s", "the specified rules, in place"
FLINK = "Flink, defaults, restarts of 60 s"
FLINK_EXAMPLE = "Flink, its documented example, 60 s"
FLINK_TRACKED = "Flink, its example, 17 s, tracked"

ALGORITHMS: dict[str, Algorithm] = {
    FLINK: Algorithm(Flink, _FLINK_RESTART, (4.5, 18.5, 1008, 128)),
    FLINK_EXAMPLE: Algorithm(documented_example, _FLINK_RESTART, (6.4, 5.0, 312, 218)),
    FLINK_TRACKED: Algorithm(lambda: documented_example(track=True), _RESTART, (6.5, 2.9, 123, 191)),
    SPECIFIED_RESTART: Algorithm(lambda: Specified(20.0), _RESTART, (9.2, 0.0, 61, 104)),
    SPECIFIED_IN_PLACE: Algorithm(in_place, _IN_PLACE, (35, 0.0, 35, 61)),
    OURS_RESTART: Algorithm(lambda: Ours(RESTARTS), _RESTART, (9.2, 0.0, 61, 104)),
    OURS_IN_PLACE: Algorithm(lambda: Ours(IN_PLACE), _IN_PLACE, (35, 0.0, 35, 61)),
}
