"""The example that reads and writes Kafka is one job, two topics and one broker."""

from __future__ import annotations

from pathlib import Path

import yaml

from streamjob.job.connectors.kafka_sink import parse_options
from streamjob.job.connectors.options import environment_names
from streamjob.job.loading.load import load_job

EXAMPLE = Path(__file__).parents[3] / "examples" / "kafka"


def test_the_job_is_valid_delivers_exactly_once_and_its_variables_are_set_by_the_compose_file() -> None:
    spec = load_job(EXAMPLE / "job.yaml").spec
    services = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())["services"]

    options = [*(source.options for source in spec.sources), *(sink.options for sink in spec.sinks)]
    named = {name for each in options for value in each.values() for name in environment_names(value)}
    assert named == {"BROKERS"}
    assert services["job"]["environment"]["BROKERS"] == "broker:9092"
    assert [sink.delivery for sink in spec.sinks] == ["exactly-once"]


def test_the_compose_file_makes_the_topics_that_the_job_reads_and_writes() -> None:
    spec = load_job(EXAMPLE / "job.yaml").spec
    services = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())["services"]
    script = services["topics"]["command"][-1]

    topics = [spec.sources[0].options["subscribe"], parse_options(spec.sinks[0].options, "sink").topic]
    assert f"for topic in {' '.join(map(str, topics))}; do" in script
    assert f"--topic {topics[0]} " in services["producer"]["command"][-1]
