"""Every block of code in README and docs is tried as it is printed, or has a reason why it cannot be.

Other tests try whole pages (the modules of ELSEWHERE), the commands of `streamjob` (`test_documented_commands.py`) and
the queries of Prometheus (`test_alerts.py`).
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import sqlglot
import yaml
from jsonschema import Draft7Validator
from tests.architecture.documented_jobs import OF_JOBS, files_of, whole_job
from tests.architecture.documents import ROOT, Block, blocks

from streamjob.job.loading.load import load_job
from streamjob.job.loading.yaml_file import read_documents
from streamjob_operator.resources.snapshot import StreamSnapshot
from streamjob_operator.resources.streamjob import StreamJob, StreamJobSpec

GENERATED = {f"docs/reference/{name}.md" for name in ("cli", "python", "sql")}
"""Their blocks are signatures and texts of the help, and not code."""
ELSEWHERE = {
    "docs/how-to/call-python-from-sql.md": "tests/integration/runtime/test_user_functions.py",
    "docs/how-to/run-in-several-environments.md": "tests/unit/job/test_overlays.py",
    "docs/how-to/write-a-sink.md": "tests/integration/sinks/test_example_sink.py",
    "docs/how-to/write-a-store.md": "tests/integration/store/test_example_store.py",
}
"""Pages, and the tests that try their examples in YAML, SQL and Python."""
OF_OTHERS = {
    ("docs/how-to/monitor.md", "scrape_configs"): "Prometheus reads it",
    ("docs/how-to/run-on-a-schedule.md", "CronJob"): "e2e/test_a_cronjob_runs_up_to_what_is_there.py",
    ("docs/how-to/rescale-a-job.md", "ScaledObject"): "KEDA reads it",
    ("docs/how-to/rescale-a-job.md", "HorizontalPodAutoscaler"): "e2e/test_a_horizontal_pod_autoscaler_scales_a_job.py",
    ("docs/how-to/install-the-controller.md", "rules"): "RBAC: tests/integration/charts/test_rights.py has the rights",
}
"""YAML of other programs: why it is only parsed."""
PROGRAMS = {
    "cat": "tests/integration/examples/test_first_job.py",
    "cd": "the directory exists, or is one of a running job",
    "cp": "root installs a unit; the file exists",
    "curl": "the control API of a running job: tests/integration/api; the rest is HTTP",
    "docker": "an image takes minutes: `make dist` builds both, and e2e runs them",
    "export": "sets a variable",
    "helm": "tests/integration/charts, and e2e/test_helm_installs_upgrades_and_removes_the_controller.py",
    "journalctl": "systemd is not there in tests",
    "kafka-console-consumer.sh": "a tool of Kafka; tests/integration/sinks read these records",
    "kafka-topics.sh": "a tool of Kafka; tests/integration/sinks make such topics",
    "kind": "makes a cluster; e2e has one",
    "kubectl": "needs a cluster; e2e/test_the_quick_start_can_be_followed.py runs a whole page of it",
    "make": "the targets exist: tests/architecture/test_docs.py",
    "pip": "installs from a registry; the extras exist",
    "protoc": "a compiler of others; tests/integration/runtime/test_protobuf.py runs it",
    "python": "the modules and files exist",
    "python3": "the modules and files exist",
    "streamjob": "tests/architecture/test_documented_commands.py",
    "sudo": "another user",
    "systemctl": "systemd is not there in tests",
    "url=$(jq": "reads a file of a running job",
    "useradd": "makes a user",
}
"""The programs of the commands in documents, and where they are tried, or why they are not."""
NO_CODE = {"", "console", "text", "promql"}
"""Languages of output, trees of files, and of queries that `test_alerts.py` compares with the rules."""

BLOCKS = [each for each in blocks() if each.document not in GENERATED]
PREAMBLE = """\
from pyspark.sql.functions import to_timestamp, window

from streamjob import Job

schema = "page STRING, seen TIMESTAMP"
"""
"""Stands before Python that is a part of a file: the sentences around it name what it uses."""


def of(*languages: str) -> pytest.MarkDecorator:
    chosen = [pytest.param(each, id=f"{each.document}:{each.line}") for each in BLOCKS if each.language in languages]
    return pytest.mark.parametrize("block", chosen)


def test_each_block_has_a_language_that_is_tried() -> None:
    tried = {"yaml", "python", "sql", "sh", "shell", "json", "toml"}

    assert {each.language for each in BLOCKS} - NO_CODE == tried


def test_no_command_is_in_a_block_without_a_language() -> None:
    lines = [(each, line) for each in BLOCKS if each.language == "" for line in each.text.splitlines()]

    assert [(each, line) for each, line in lines if line.removeprefix("$ ").split(" ")[0] in PROGRAMS] == []


def test_what_is_said_to_be_tried_elsewhere_is() -> None:
    named = [*ELSEWHERE.values(), *OF_OTHERS.values(), *PROGRAMS.values()]
    files = {file for text in named for file in re.findall(r"\b(?:tests|e2e)/[\w/.]+", text)}

    assert {file for file in files if not (ROOT / file.rstrip(".")).exists()} == set()
    assert {page for page, test in ELSEWHERE.items() if Path(page).name not in (ROOT / test).read_text()} == set()


@of("yaml")
def test_yaml_is_what_its_reader_takes(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (content,) = read_documents(block.text)
    keys = set(content) if isinstance(content, dict) else set()
    if block.document in ELSEWHERE or any((block.document, key) in OF_OTHERS for key in (*keys, _kind(content))):
        return
    if _kind(content) == "StreamSnapshot":
        StreamSnapshot.model_validate(content)
    elif block.document == "docs/how-to/autoscale.md" and "spec" not in keys:
        _check_spec({"autoscaling": content.get("autoscaling", {"mode": "Act", **content})})
    elif "spec" in keys and _kind(content) is None:
        _check_spec(content["spec"])
    elif keys and keys <= _fields(StreamJobSpec) and not keys <= OF_JOBS:
        _check_spec(content)
    elif keys and keys <= _values_of_the_chart().keys():
        schema = json.loads((ROOT / "charts" / "streamjob" / "values.schema.json").read_text())
        assert [each.message for each in Draft7Validator(schema).iter_errors(content)] == []
    else:
        monkeypatch.syspath_prepend(tmp_path)
        job = content if _kind(content) else whole_job(block)
        for name, text in files_of(job).items():
            (tmp_path / name).write_text(text)
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(job, sort_keys=False))
        load_job(tmp_path / "job.yaml")


@of("sql")
def test_sql_is_a_job_or_can_be_parsed(block: Block, tmp_path: Path) -> None:
    text = block.text
    if block.document in ELSEWHERE:
        return
    if text.startswith(("SET", "CREATE SOURCE")):
        if "CREATE SINK" not in text:
            (name,) = re.findall(r"CREATE SOURCE (\w+)", text)
            text = f"SET 'name' = 'documented';\n{text}\nCREATE SINK s WITH ('format' = 'console');\n"
            text += f"INSERT INTO s SELECT * FROM {name};"
        (tmp_path / "job.sql").write_text(text)
        load_job(tmp_path / "job.sql")
        return
    dialect = {"docs/how-to/write-to-postgresql.md": "postgres", "docs/how-to/write-files-to-a-bucket.md": "duckdb"}
    assert sqlglot.parse(text, dialect=dialect.get(block.document, "spark"))


@of("python")
def test_python_is_a_job_or_can_be_compiled(block: Block, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the functions of jobs import it")
    compile(block.text, block.document, "exec")
    if block.document in ELSEWHERE or "job.s" not in block.text:
        return
    text = f"{PREAMBLE}\n{block.text}\n"
    if "Job(" not in block.text:
        text = f'{PREAMBLE}\njob = Job("documented")\n{block.text}\njob.sink("s", input=clicks, format="console")\n'
        text = text.replace('schema="user', 'options={"path": "data/clicks"}, schema="user')
    (tmp_path / "documented.py").write_text(text)

    load_job(tmp_path / "documented.py")


@of("json")
def test_json_can_be_parsed(block: Block) -> None:
    rest = block.text
    while rest.strip():
        _, end = json.JSONDecoder().raw_decode(rest.lstrip())
        rest = rest.lstrip()[end:]


@of("toml")
def test_toml_can_be_parsed(block: Block) -> None:
    tomllib.loads(block.text)


@of("sh", "shell")
def test_commands_are_those_of_a_shell_and_name_files_that_exist(block: Block) -> None:
    parsed = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
    assert (parsed.returncode, parsed.stderr) == (0, "")

    lines = block.text.replace("\\\n", " ").splitlines()
    commands = [words for line in lines if (words := shlex.split(line, comments=True))]
    for words in commands:
        while re.match(r"[A-Z_]+=", words[0]) and len(words) > 1:
            del words[0]
    assert {Path(words[0]).name for words in commands} - PROGRAMS.keys() == set()
    named = [word.rstrip("/") for words in commands for word in words if re.match(r"(examples|charts|docs)/", word)]
    assert [each for each in named if not (ROOT / each).exists()] == []


@of("sh", "shell")
def test_values_of_the_chart_in_commands_exist(block: Block) -> None:
    values = _values_of_the_chart()
    for name in re.findall(r"--set ([\w.]+)=", block.text) if "helm" in block.text else ():
        place: Any = values
        for key in name.split("."):
            # An empty mapping, such as that of labels, takes any key.
            assert key in place or place == {}, name
            place = place.get(key, {})


def _kind(content: Any) -> str | None:
    kind = content.get("kind") if isinstance(content, dict) else None
    return str(kind) if kind else None


def _fields(model: Any) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def _check_spec(spec: dict[str, Any]) -> None:
    """Check fields of a StreamJob, in one that has what is missing."""
    job = {"sources": [{"name": "r", "format": "rate"}], "sinks": [{"name": "s", "input": "r", "format": "noop"}]}
    whole = {"checkpointing": {"location": "s3://bucket/snapshots"}, "job": job, **spec}
    if "autoscaling" in whole:
        whole.setdefault("maxParallelism", 16)
    resource = {"apiVersion": "streamjob.io/v1alpha1", "kind": "StreamJob", "metadata": {"name": "documented"}}
    StreamJob.model_validate({**resource, "spec": whole})


def _values_of_the_chart() -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((ROOT / "charts" / "streamjob" / "values.yaml").read_text())
    return values
