"""The examples that bring their servers: what their compose files name is there, and is what their jobs need."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from streamjob.job.connectors import iceberg, kafka_sink, postgresql
from streamjob.job.connectors.options import environment_names
from streamjob.job.loading.load import load_job
from streamjob.job.model.spec import JobSpec

EXAMPLES = Path(__file__).parents[3] / "examples"

each_compose_file = pytest.mark.parametrize(
    "file", sorted(EXAMPLES.glob("*/compose.yaml")), ids=lambda file: str(file.parent.name)
)


def services(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(file.read_text())["services"]
    return found


def example(name: str) -> tuple[JobSpec, dict[str, Any]]:
    """Return the job of an example and the services of its compose file."""
    return load_job(EXAMPLES / name / "job.yaml").spec, services(EXAMPLES / name / "compose.yaml")


@each_compose_file
def test_images_are_of_a_version_and_the_runtime_is_the_one_that_the_guide_builds(file: Path) -> None:
    images = {service["image"] for service in services(file).values()}

    assert "streamjob-runtime" in images
    assert "docker build --target runtime -t streamjob-runtime ../.." in file.read_text()
    assert [image for image in images - {"streamjob-runtime"} if not re.search(r":v?\d", image)] == []


@each_compose_file
def test_what_is_mounted_and_waited_for_is_there(file: Path) -> None:
    document = yaml.safe_load(file.read_text())

    for service in document["services"].values():
        sources = [volume.split(":")[0] for volume in service.get("volumes", ())]
        files = [source for source in sources if source.startswith("./") and source != "./state"]
        assert [source for source in files if not (file.parent / source).is_file()] == []
        assert {source for source in sources if not source.startswith("./")} <= set(document["volumes"])
        assert set(service.get("depends_on", ())) <= set(document["services"])


@each_compose_file
def test_variables_that_the_guide_exports_are_those_that_the_file_asks_for(file: Path) -> None:
    text = file.read_text()
    exported = re.search(r"^#.* export (.*?)(?:    #.*)?$", text, re.MULTILINE)

    assert exported is not None
    assert set(re.findall(r"(\w+)=", exported[1])) == set(re.findall(r"\$\{(\w+):\?", text))


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("kafka", {"BROKERS"}),
        ("lakehouse", {"CATALOG_PASSWORD", "S3_KEY", "S3_SECRET"}),
        ("postgresql", {"DATABASE_HOST", "PGPASSWORD"}),
    ],
)
def test_the_job_is_valid_delivers_exactly_once_and_its_variables_are_set_by_the_compose_file(
    name: str, variables: set[str]
) -> None:
    spec, served = example(name)

    (sink,) = spec.sinks
    assert sink.delivery == "exactly-once"
    options = [*(source.options for source in spec.sources), sink.options]
    assert {each for given in options for value in given.values() for each in environment_names(value)} == variables
    environment = served["job"]["environment"]
    assert variables <= environment.keys()
    match name:
        case "kafka":
            assert environment["BROKERS"] == "broker:9092"
        case "lakehouse":
            assert environment["S3_KEY"] == served["s3"]["environment"]["ROOT_ACCESS_KEY"]
        case "postgresql":
            assert environment["PGPASSWORD"] == served["database"]["environment"]["WRITER_PASSWORD"]


def test_the_compose_file_makes_the_topics_that_the_job_reads_and_writes() -> None:
    spec, served = example("kafka")

    topics = [spec.sources[0].options["subscribe"], kafka_sink.parse_options(spec.sinks[0].options, "sink").topic]
    assert f"for topic in {' '.join(map(str, topics))}; do" in served["topics"]["command"][-1]
    assert f"--topic {topics[0]} " in served["producer"]["command"][-1]


def test_catalog_and_bucket_are_those_that_the_compose_file_makes() -> None:
    spec, served = example("lakehouse")
    options, properties = (
        iceberg.parse_options(spec.sinks[0].options),
        iceberg.catalog_properties(spec.sinks[0].options),
    )

    assert options.create_table
    assert properties["uri"].endswith("@catalog:5432/" + served["catalog"]["environment"]["POSTGRES_DB"])
    assert urlsplit(properties["s3.endpoint"]).netloc == "s3" + served["s3"]["command"][1]
    assert properties["s3.endpoint"] == served["bucket"]["environment"]["AWS_ENDPOINT_URL"]
    assert f"--bucket {urlsplit(str(options.catalog_warehouse)).netloc};" in served["bucket"]["command"][-1]


def test_what_shows_the_table_is_mounted_beside_the_job() -> None:
    _, served = example("lakehouse")

    assert {"./job.yaml:/job/job.yaml:ro", "./read.py:/job/read.py:ro"} <= set(served["job"]["volumes"])
    assert (EXAMPLES / "lakehouse" / "read.py").exists()


def test_the_script_makes_the_table_with_the_key_that_the_job_names() -> None:
    spec, _ = example("postgresql")
    options = postgresql.parse_options(spec.sinks[0].options)
    script = (EXAMPLES / "postgresql" / "init.sql").read_text()

    assert f"CREATE TABLE {options.table} (" in script
    assert f"PRIMARY KEY ({', '.join(options.key)})" in script
    assert f"CREATE ROLE {options.user} " in script
    assert f"CREATE SCHEMA {options.staging_schema} AUTHORIZATION {options.user};" in script
    assert set(re.findall(r"GRANT (.*) ON", script)) == {"SELECT, INSERT, UPDATE"}
