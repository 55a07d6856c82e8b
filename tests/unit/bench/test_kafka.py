"""The sides of the benchmark of Kafka."""

from __future__ import annotations

from pathlib import Path

from bench.kafka import SIDES, start_command


def test_the_sides_differ_in_nothing_but_what_is_compared() -> None:
    changes: dict[str, object] = {"sources.events.options.subscribe": "events"}
    commands = {name: " ".join(start_command(side, Path("/work"), changes)) for name, side in SIDES.items()}

    assert "bench.kafka_plain" in commands["plain"]
    assert all("sources.events.options.subscribe=events" in each for each in commands.values())
    assert "sinks.copy.delivery=at-least-once" in commands["at least once"]
    assert "checkpointing.interval=1s" in commands["exactly once, 1 s"]
