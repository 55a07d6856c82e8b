"""The example that writes to PostgreSQL is one job, one table and one server."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from streamjob.job.connectors.options import environment_names
from streamjob.job.connectors.postgresql import parse_options
from streamjob.job.loading.load import load_job

EXAMPLE = Path(__file__).parents[3] / "examples" / "postgresql"


def test_the_job_is_valid_and_its_variables_are_set_by_the_compose_file() -> None:
    (sink,) = load_job(EXAMPLE / "job.yaml").spec.sinks
    services = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())["services"]

    named = {name for value in sink.options.values() for name in environment_names(value)}
    assert named <= services["job"]["environment"].keys()
    assert services["job"]["environment"]["PGPASSWORD"] == services["database"]["environment"]["WRITER_PASSWORD"]


def test_the_script_makes_the_table_with_the_key_that_the_job_names() -> None:
    (sink,) = load_job(EXAMPLE / "job.yaml").spec.sinks
    options = parse_options(sink.options)
    script = (EXAMPLE / "init.sql").read_text()

    assert f"CREATE TABLE {options.table} (" in script
    assert f"PRIMARY KEY ({', '.join(options.key)})" in script
    assert f"CREATE ROLE {options.user} " in script
    assert f"CREATE SCHEMA {options.staging_schema} AUTHORIZATION {options.user};" in script
    assert set(re.findall(r"GRANT (.*) ON", script)) == {"SELECT, INSERT, UPDATE"}
