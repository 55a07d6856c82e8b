"""The evaluation of measurements in the benchmark of Kafka."""

from __future__ import annotations

from pathlib import Path

from bench.kafka import SIDES, start_command
from bench.kafka_model import CostRun, Kafka, LatencyRun
from bench.kafka_report import NAMES, cost_table, latency_table, render
from bench.model import Circumstances

WHERE = Circumstances(command="make bench-kafka", begun="a", ended="b", machine="c", versions={"Spark": "4.3.0"})


def run(number: int, records: int, wall: float, cpu: float, load: float = 0.5) -> CostRun:
    return CostRun(
        side="plain", round=number, records=records, wall=wall, cpu=cpu, broker_cpu=cpu / 4, load_before=load
    )


def test_what_a_further_million_records_cost_is_told_without_the_start() -> None:
    runs = [
        *(run(0, 1_000_000, 20.0, 16.0), run(0, 3_000_000, 40.0, 24.0)),
        *(run(1, 1_000_000, 20.0, 16.0), run(1, 3_000_000, 30.0, 32.0)),
        run(2, 3_000_000, 99.0, 99.0),
    ]

    [row] = cost_table(runs).rows

    assert row[:5] == (NAMES["plain"], "2", "150,000 (100,000–200,000)", "6.0 (4.0–8.0)", "1.5 (1.0–2.0)")


def test_the_latency_of_a_side_is_that_of_its_records() -> None:
    seconds = [number / 100 for number in range(1, 201)]

    made = LatencyRun.of("exactly once, 1 s", 200, seconds, 0.5)

    assert latency_table([made]).rows == ((NAMES["exactly once, 1 s"], "200", "1.00", "1.98", "2.00"),)


def test_the_report_says_how_busy_the_machine_was() -> None:
    results = Kafka(
        circumstances=WHERE,
        value_bytes=100,
        partitions=4,
        batch=1000,
        costs=(run(0, 1_000_000, 2, 2), run(0, 2_000_000, 3, 3, 2.5)),
        latencies=(LatencyRun.of("plain", 200, [0.1], 0.5),),
    )

    report = render(results)

    assert "Load average before a run: median 1.5, most 2.5" in report
    assert "Load average before a run: median 0.5, most 0.5" in report
    assert str(WHERE) in report
    assert "200 records a second" in report


def test_each_side_is_named_in_the_report_and_differs_from_the_others_in_little() -> None:
    assert set(SIDES) == set(NAMES)
    changes: dict[str, object] = {"sources.events.options.subscribe": "events"}
    commands = {name: " ".join(start_command(side, Path("/work"), changes)) for name, side in SIDES.items()}

    assert "bench.kafka_plain" in commands["plain"]
    assert all("sources.events.options.subscribe=events" in each for each in commands.values())
    assert "sinks.copy.delivery=at-least-once" in commands["at least once"]
    assert "checkpointing.interval=1s" in commands["exactly once, 1 s"]
