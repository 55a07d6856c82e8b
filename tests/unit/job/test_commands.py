"""`streamjob validate` and `streamjob plan`, and the reference of the job file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tests.unit.generators import generator
from typer.testing import CliRunner

from streamjob.cli.plan import plan_command
from streamjob.cli.validate import validate_command
from streamjob.errors import InvalidJob

ROOT = Path(__file__).parents[3]
JOB = """
name: small
sources: [{name: a, format: rate, watermark: {column: timestamp, delay: 10s}}]
operators: [{name: b, inputs: [a], sql: "SELECT count(*) FROM a GROUP BY window(timestamp, '1 hour')"}]
sinks: [{name: out, input: b, format: parquet, options: {path: out}}]
"""


def app() -> typer.Typer:
    commands = typer.Typer()
    commands.command("validate")(validate_command)
    commands.command("plan")(plan_command)
    return commands


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    file = tmp_path / "job.yaml"
    file.write_text(JOB, encoding="utf-8")
    return file


def test_a_valid_job_is_said_to_be_one(job_file: Path) -> None:
    result = CliRunner().invoke(app(), ["validate", str(job_file)])

    assert result.exit_code == 0
    assert result.output.startswith(f"{job_file}: the job 'small' is valid (1 source, 1 operator, 1 sink)\n")


def test_validate_says_what_it_did_not_ask(job_file: Path) -> None:
    result = CliRunner().invoke(app(), ["validate", str(job_file)])

    assert "not checked: whether columns, functions and types exist" in result.output
    assert "use --spark" in result.output


def test_an_invalid_job_ends_the_command_with_its_problems(job_file: Path) -> None:
    result = CliRunner().invoke(app(), ["validate", str(job_file), "--set", "sinks.out.format=parqet"])

    assert isinstance(result.exception, InvalidJob)
    assert "did you mean 'parquet'?" in str(result.exception)


@pytest.mark.parametrize(("form", "begins"), [("text", "small: 1 chain"), ("mermaid", "flowchart LR"), ("json", "{")])
def test_a_plan_is_shown_in_each_form(job_file: Path, form: str, begins: str) -> None:
    result = CliRunner().invoke(app(), ["plan", str(job_file), "--format", form, "--set", "name=small"])

    assert result.exit_code == 0
    assert result.output.startswith(begins)
    if form == "json":
        assert json.loads(result.output)["job"] == "small"


def test_checking_a_job_imports_neither_spark_nor_the_network(job_file: Path) -> None:
    code = (
        "import sys; from streamjob.cli.validate import validate_command; validate_command(sys.argv[1]); "
        "print([name for name in ('pyspark', 'py4j', 'boto3', 'httpx', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(job_file)], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


def test_sqlglot_is_only_imported_for_sql(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "name: plain\nsources: [{name: a, format: rate}]\nsinks: [{name: out, input: a, format: noop}]\n",
        encoding="utf-8",
    )
    load = "from streamjob.job.loading.load import load_job"
    code = f"import sys; {load}; load_job(sys.argv[1]); print('sqlglot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_the_reference_of_the_job_file_is_in_step_with_the_models() -> None:
    generate = generator("generate")

    assert generate.TARGET.read_text(encoding="utf-8") == generate.render(), "run `python docs/generate.py`"


def test_the_job_in_the_reference_is_valid(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "reference" / "job-file.md").read_text(encoding="utf-8")
    file = tmp_path / "job.yaml"
    file.write_text(text.split("```yaml\n")[1].split("```")[0], encoding="utf-8")

    assert CliRunner().invoke(app(), ["validate", str(file)]).exit_code == 0


def test_the_plan_in_the_how_to_is_what_the_command_prints(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "how-to" / "read-a-plan.md").read_text(encoding="utf-8")
    file = tmp_path / "job.yaml"
    file.write_text(text.split("```yaml\n")[1].split("```")[0], encoding="utf-8")

    shown = text.split("```\n\n```\n")[1].split("```")[0]

    assert CliRunner().invoke(app(), ["plan", str(file)]).output == shown
