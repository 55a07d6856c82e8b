"""The example that writes to a lake is one job, one catalog and one bucket."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import yaml

from streamjob.job.connectors.iceberg import catalog_properties, parse_options
from streamjob.job.connectors.options import environment_names
from streamjob.job.loading.load import load_job

EXAMPLE = Path(__file__).parents[3] / "examples" / "lakehouse"


def test_the_job_is_valid_delivers_exactly_once_and_its_variables_are_set_by_the_compose_file() -> None:
    (sink,) = load_job(EXAMPLE / "job.yaml").spec.sinks
    services = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())["services"]

    assert sink.delivery == "exactly-once"
    named = {name for value in sink.options.values() for name in environment_names(value)}
    assert named == {"CATALOG_PASSWORD", "S3_KEY", "S3_SECRET"}
    assert named <= services["job"]["environment"].keys()
    assert services["job"]["environment"]["S3_KEY"] == services["s3"]["environment"]["ROOT_ACCESS_KEY"]


def test_catalog_and_bucket_are_those_that_the_compose_file_makes() -> None:
    (sink,) = load_job(EXAMPLE / "job.yaml").spec.sinks
    services = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())["services"]
    options, properties = parse_options(sink.options), catalog_properties(sink.options)

    assert options.create_table
    assert properties["uri"].endswith("@catalog:5432/" + services["catalog"]["environment"]["POSTGRES_DB"])
    assert urlsplit(properties["s3.endpoint"]).netloc == "s3" + services["s3"]["command"][1]
    assert properties["s3.endpoint"] == services["bucket"]["environment"]["AWS_ENDPOINT_URL"]
    assert f"--bucket {urlsplit(str(options.catalog_warehouse)).netloc};" in services["bucket"]["command"][-1]


def test_what_shows_the_table_is_mounted_beside_the_job() -> None:
    volumes = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())["services"]["job"]["volumes"]

    assert {"./job.yaml:/job/job.yaml:ro", "./read.py:/job/read.py:ro"} <= set(volumes)
    assert (EXAMPLE / "read.py").exists()
