"""Measures throughput from Kafka to Kafka against plain Spark's: `python -m bench.kafka --help`.

Each run has a process of its own, and all go to the same broker, each to a topic of its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.entry import Benchmark, parser, run
from bench.latencies import PARTITIONS
from bench.proc import cpu_seconds
from bench.processes import RunFailed, environment, measure
from bench.results import Page, Records, Row, head
from bench.running import JOBS, command, settings
from bench.tables import Table, interleaved, loads, longest, mid, per_million, spread
from tests.servers.kafka import KafkaServer

JOB = JOBS / "kafka.yaml"
VALUE_BYTES = 100
BATCH = 250_000
_KEYS = 100_000


@dataclass(frozen=True)
class Side:
    """A way to measure: what is changed in the job; plain Spark runs its query without streamjob."""

    name: str
    changes: dict[str, object]
    plain: bool = False


SIDES = {
    "plain": Side("plain Spark, Kafka source and sink, at least once", {}, plain=True),
    "at least once": Side(
        "streamjob, `delivery: at-least-once`, a checkpoint every 10 s", {"sinks.copy.delivery": "at-least-once"}
    ),
    "exactly once, 10 s": Side("streamjob, exactly once, a checkpoint every 10 s", {}),
    "each batch": Side(
        "streamjob, exactly once by `publish: batch`, a checkpoint every 10 s", {"sinks.copy.publish": "batch"}
    ),
    "exactly once, 1 s": Side("streamjob, exactly once, a checkpoint every second", {"checkpointing.interval": "1s"}),
}


class CostRun(Row):
    """One run of one side from the first record of a topic to its last.

    `cpu` are the CPU seconds of its process tree, `broker_cpu` those of the broker meanwhile.
    """

    side: str
    round: int
    records: int
    wall: float
    cpu: float
    broker_cpu: float
    load_before: float


COSTS = Records("kafka-costs", CostRun)


def start_command(side: Side, directory: Path, changes: dict[str, object], job: Path = JOB) -> list[str]:
    """Return the command that runs a side."""
    changed: dict[str, object] = {**side.changes, **changes}
    if not side.plain:
        return command(job, str(directory / "snapshots"), directory / "work", changed)
    scratch = str(directory / "scratch")
    return [sys.executable, "-m", "bench.kafka_plain", str(job), "--scratch", scratch, *settings(changed)]


def fill(server: KafkaServer, topic: str, records: int) -> None:
    """Create a topic with the given number of records."""
    server.create_topic(topic, PARTITIONS)
    rows = ((f"key-{number % _KEYS}", f"{number:0{VALUE_BYTES}}") for number in range(records))
    server.produce(topic, rows, producer=server.producer(batch_size="262144", linger_ms="20"))


def cost(server: KafkaServer, work: Path, side: str, number: int, topic: str, records: int, timeout: float) -> CostRun:
    """Run a side to the end of a topic. Raises RunFailed if it failed, or records are missing."""
    plan = SIDES[side]
    copy = f"copy-{list(SIDES).index(side)}-{number}-{records}"
    directory = work / copy
    directory.mkdir(parents=True)
    server.create_topic(copy, PARTITIONS)
    changes: dict[str, object] = {
        # Commits of jobs with one name at two locations look as if checkpoints were lost.
        "name": copy,
        "sources.events.bounded": "true",
        "sources.events.options.subscribe": topic,
        "sources.events.options.maxOffsetsPerTrigger": BATCH,
        "sinks.copy.options.topic": copy,
    }
    before = cpu_seconds(server.pid)
    used = measure(start_command(plan, directory, changes), directory, timeout)
    broker = cpu_seconds(server.pid) - before
    # After each transaction a partition has a mark, which counts as a record here.
    found = sum(server.end_offsets(copy, isolation="read_committed").values())
    server.delete_topic(copy)
    if found < records:
        raise RunFailed(f"{side}: {found:,} of {records:,} records arrived")
    return CostRun(
        side=side,
        round=number,
        records=records,
        wall=used.wall,
        cpu=used.cpu,
        broker_cpu=broker,
        load_before=used.load_before,
    )


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-kafka", __doc__, "one round of few records")
    add = made.add_argument
    add("--rounds", type=int, default=3, metavar="N", help="rounds of all sides (3)")
    add("--records", type=int, default=3_000_000, metavar="N", help="records of the long run of a side (3,000,000)")
    add("--few", type=int, default=1_000_000, metavar="N", help="records of the short one (1,000,000)")
    add("--timeout", type=float, default=300.0, metavar="S", help="seconds that one run may take (300)")
    options = made.parse_args()
    if options.quick:
        options.rounds, options.records, options.few = 1, 600_000, 200_000
    return options


_COST = """\
A topic of {partitions} partitions with values of {value_bytes} bytes is read from its first record to its last, in
batches of at most {batch:,}, and written to another one, in two task slots; the only broker is on the same machine, as
are all clients. All sides have the same settings of Spark. "A further million" is the difference of a run of {many:,}
records and one of {few:,}, so that starts and ends do not count; minimum and maximum are in brackets. CPU is user and
system time, of the whole process tree and of the broker. {rounds} {load}
"""


def _render() -> str:
    costs = COSTS.load()
    sizes = sorted({run.records for run in costs.runs})
    cost_text = _COST.format(
        partitions=PARTITIONS,
        value_bytes=VALUE_BYTES,
        batch=BATCH,
        many=sizes[-1],
        few=sizes[0],
        rounds=interleaved(costs.runs),
        load=loads(costs.runs),
    )
    parts = [head("How fast records get from Kafka to Kafka", "bench-kafka", "kafka.py"), f"{costs.where}\n", cost_text]
    return "\n".join([*parts, cost_table(costs.runs).markdown()])


PAGE = Page("KAFKA", _render)


def cost_table(costs: Sequence[CostRun]) -> Table:
    """Return what each side takes for a further million records, and for a whole run."""

    def further(side: str, figure: Callable[[CostRun], float]) -> list[float]:
        return list(per_million(costs, side, figure).values())

    return Table.of(
        [side for side in SIDES if further(side, lambda run: run.wall)],
        ("", lambda side: SIDES[side].name),
        ("rounds", lambda side: len(further(side, lambda run: run.wall))),
        ("records / s", lambda side: spread((1e6 / each for each in further(side, lambda run: run.wall)), ",.0f")),
        ("CPU s / million", lambda side: spread(further(side, lambda run: run.cpu), ".1f")),
        ("broker's CPU s / million", lambda side: spread(further(side, lambda run: run.broker_cpu), ".1f")),
        ("whole run s", lambda side: mid((run.wall for run in longest(costs, side)), ".1f")),
        ("CPU s", lambda side: mid((run.cpu for run in longest(costs, side)), ".1f")),
    )


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results after every round."""
    options, work = benchmark.options, benchmark.work
    costs: list[CostRun] = []
    with KafkaServer() as server, environment({"BENCH_KAFKA": server.bootstrap}):
        topics = {records: f"events-{records}" for records in (options.records, options.few)}
        for records, topic in topics.items():
            fill(server, topic, records)
        for number, turn in benchmark.rounds(list(SIDES)):
            for side in turn:
                for records, topic in topics.items():
                    costs.append(cost(server, work, side, number, topic, records, options.timeout))
                    benchmark.tell(costs[-1])
            benchmark.keep(COSTS, costs)
            benchmark.show(f"behind round {number + 1}", cost_table(costs))


if __name__ == "__main__":
    run(arguments(), PAGE, bench)
