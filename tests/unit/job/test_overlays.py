"""Overlays: files that are merged into a job, one for each environment."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from streamjob.cli.plan import plan_command
from streamjob.cli.validate import validate_command
from streamjob.errors import InvalidInput, InvalidJob
from streamjob.job.loading.load import load_job
from streamjob.job.model.spec import JobSpec

BASE = """
name: small
checkpointing: {interval: 10s, numRetained: 5}
sources:
- {name: a, uid: a-1, format: csv, schema: "x INT", options: {path: in, header: true}}
- {name: b, format: rate}
operators:
- {name: both, inputs: [a, b], sql: "SELECT x FROM a CROSS JOIN b"}
sinks:
- {name: out, input: both, format: parquet, options: {path: out}, partitionBy: [x]}
- {name: debug, input: b, format: console}
sparkConf: {spark.driver.memory: 1g}
"""


def files(directory: Path, *texts: str) -> list[Path]:
    paths = [directory / f"{index}.yaml" for index in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def merged(directory: Path, *overlays: str, base: str = BASE, **given: Any) -> JobSpec:
    first, *others = files(directory, base, *overlays)
    return load_job(first, overlays=others, **given).spec


def problems(directory: Path, *overlays: str, base: str = BASE) -> list[str]:
    with pytest.raises(InvalidJob) as caught:
        merged(directory, *overlays, base=base)
    return [str(each).replace(f"{directory}/", "").replace("\n    fix: ", "; ") for each in caught.value.problems]


def test_mappings_are_merged_field_by_field(tmp_path: Path) -> None:
    spec = merged(tmp_path, "checkpointing: {interval: 1m}\nsparkConf: {spark.x: y}\nparallelism: 8")

    assert (spec.checkpointing.interval, spec.checkpointing.num_retained, spec.parallelism) == (60.0, 5, 8)
    assert spec.spark_conf == {"spark.driver.memory": "1g", "spark.x": "y"}


def test_a_part_is_merged_with_the_one_of_its_name(tmp_path: Path) -> None:
    spec = merged(tmp_path, "sources: [{name: a, options: {path: s3://bucket/in}}]")

    assert spec.source("a").options == {"path": "s3://bucket/in", "header": "true"}
    assert [each.name for each in spec.sources] == ["a", "b"]


def test_a_part_is_merged_with_the_one_of_its_uid_which_may_rename_it(tmp_path: Path) -> None:
    overlay = """
    sources: [{uid: a-1, name: c, options: {header: null}}]
    operators: [{name: both, inputs: [c, b], sql: "SELECT x FROM c CROSS JOIN b"}]
    """
    spec = merged(tmp_path, overlay)

    assert (spec.source("c").uid, spec.source("c").options) == ("a-1", {"path": "in"})
    assert [each.name for each in spec.operator("both").inputs] == ["c", "b"]


def test_an_unknown_part_is_added(tmp_path: Path) -> None:
    spec = merged(tmp_path, "sinks: [{name: copy, input: both, format: noop}]")

    assert [each.name for each in spec.sinks] == ["out", "debug", "copy"]


def test_a_part_and_a_mapping_are_deleted_and_replaced(tmp_path: Path) -> None:
    overlay = """
    checkpointing: {$patch: replace, interval: 1m}
    sinks:
    - {name: debug, $patch: delete}
    - {name: out, $patch: replace, input: both, format: noop}
    sparkConf: {$patch: delete}
    """
    spec = merged(tmp_path, overlay)

    assert (spec.checkpointing.interval, spec.checkpointing.num_retained) == (60.0, 3)
    assert [(each.name, each.format, dict(each.options)) for each in spec.sinks] == [("out", "noop", {})]
    assert spec.spark_conf == {}


def test_other_lists_are_replaced(tmp_path: Path) -> None:
    spec = merged(tmp_path, "sinks: [{name: out, partitionBy: []}]")

    assert spec.sink("out").partition_by == ()


def test_later_files_override_earlier_ones_and_the_command_line_overrides_all(tmp_path: Path) -> None:
    first, second, third = files(tmp_path, BASE, "parallelism: 3\nmaxParallelism: 30", "parallelism: 4")

    spec = load_job(first, ["maxParallelism=40"], overlays=[second, third]).spec

    assert (spec.parallelism, spec.max_parallelism) == (4, 40)


def test_variables_are_replaced_after_merging(tmp_path: Path) -> None:
    base = BASE.replace("path: in", "path: '${var:in}'")

    assert merged(tmp_path, "sources: [{name: a, options: {path: there}}]", base=base).source("a").options["path"] == (
        "there"
    )
    spec = merged(tmp_path, "sources: [{name: a, options: {path: '${var:x}'}}]", variables=["x=y"])
    assert spec.source("a").options["path"] == "y"


def test_paths_are_relative_to_the_first_file(tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    (base,) = files(tmp_path, BASE)
    (overlay,) = files(tmp_path / "envs", "sources: [{name: a, options: {path: other}}]")

    loaded = load_job(base, overlays=[overlay])

    assert loaded.options(loaded.spec.source("a"))["path"] == f"{tmp_path}/other"


def test_a_stream_job_may_have_an_overlay_for_a_run_without_a_cluster(tmp_path: Path) -> None:
    body = "\n".join(f"    {line}" for line in BASE.splitlines())
    resource = f"apiVersion: streamjob.io/v1alpha1\nkind: StreamJob\nmetadata: {{name: small}}\nspec:\n  job:\n{body}"

    assert merged(tmp_path, "parallelism: 5", base=resource).parallelism == 5


def test_problems_name_the_file_and_the_field(tmp_path: Path) -> None:
    overlay = """
    checkpointing: {interval: soon}
    sources: [{name: a, options: {path: '${var:in}'}, fromat: json}]
    sinks: [{name: debgu, $patch: delete}, {name: out, $patch: drop, input: bth}]
    """

    found = problems(tmp_path, overlay)
    assert [each.split("; give it by")[0] for each in found] == [
        "1.yaml: checkpointing: interval: 'soon' is not a duration; write it like 10s, 5m, 1h or 250ms",
        "1.yaml: source 'a': options.path refers to the variable 'in', which is not given",
        "1.yaml: source 'a': has no field 'fromat'; did you mean 'format'?",
        "1.yaml: sink 'debgu': $patch: delete names a sink that the files before do not have; did you mean 'debug'?",
        "1.yaml: sink 'out': $patch cannot be 'drop'; write delete or replace",
        "0.yaml + 1.yaml: sink 'out': has the unknown input 'bth'; did you mean 'both'?",
    ]


def test_a_problem_of_the_base_names_the_base(tmp_path: Path) -> None:
    found = problems(tmp_path, "parallelism: 2", base=BASE.replace("format: rate", "format: rte"))

    assert [each.split(": ")[0] for each in found] == ["0.yaml"]


@pytest.mark.parametrize(
    ("overlay", "said"),
    [("", "is empty"), ("- a", "is not one mapping"), ("kind: StreamJob", "is a resource"), ("a: [", "as YAML")],
)
def test_an_overlay_has_fields_of_a_job(tmp_path: Path, overlay: str, said: str) -> None:
    with pytest.raises(InvalidJob, match=said):
        merged(tmp_path, overlay)


@pytest.mark.parametrize("arguments", [["0.yaml", "-f", "1.yaml"], ["-f", "0.yaml", "-f", "1.yaml", "--var", "p=7"]])
def test_commands_take_overlays_and_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    files(tmp_path, BASE, "parallelism: '${var:p:-7}'")
    monkeypatch.chdir(tmp_path)
    commands = typer.Typer()
    commands.command("validate")(validate_command)
    commands.command("plan")(plan_command)
    arguments = arguments if "--var" in arguments else [*arguments, "--set", "name=other"]

    validated = CliRunner().invoke(commands, ["validate", *arguments])
    planned = CliRunner().invoke(commands, ["plan", *arguments])

    assert validated.output.startswith("0.yaml + 1.yaml: the job "), validated.output
    assert planned.exit_code == 0


def test_a_command_needs_a_file() -> None:
    commands = typer.Typer()
    commands.command("validate")(validate_command)

    result = CliRunner().invoke(commands, [])

    assert isinstance(result.exception, InvalidInput)
    assert "no file of a job is named" in str(result.exception)


def test_the_files_and_the_message_of_the_how_to_are_those_of_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "run-in-several-environments.md"
    base, overlay = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "job.yaml").write_text(base, encoding="utf-8")
    (tmp_path / "production.yaml").write_text(overlay, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    here, there = load_job("job.yaml"), load_job("job.yaml", overlays=["production.yaml"], variables=["region=eu"])
    with pytest.raises(InvalidJob) as caught:
        load_job("job.yaml", overlays=["production.yaml"])

    assert [each.name for each in here.spec.sinks] == ["report", "debug"]
    assert [(each.name, each.options["path"]) for each in there.spec.sinks] == [("report", "/data/eu/report")]
    assert there.location() == "s3://checkpoints/eu"
    quoted = re.findall(
        r"```\njob.yaml \+ production.yaml: .*?\n(.*?)\n```", page.read_text(encoding="utf-8"), re.DOTALL
    )
    assert quoted
    assert quoted[0] in str(caught.value)
