"""The job as its driver is given it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.operator.objects.samples import JOB, OWNER, argument, container, pod, revision

from streamjob.job.loading.load import load_job
from streamjob_operator.objects import job_config_map


def file_of(**spec: Any) -> dict[str, Any]:
    """Return the content of the job file of a spec."""
    return dict(yaml.safe_load(job_config_map(OWNER, revision(**spec))["data"]["job.yaml"]))


def test_the_job_file_is_one_that_can_be_run(tmp_path: Path) -> None:
    built = job_config_map(OWNER, revision(parallelism=3, checkpointing={"location": "/data/state", "interval": "5s"}))
    (tmp_path / "job.yaml").write_text(built["data"]["job.yaml"])

    spec = load_job(tmp_path / "job.yaml").spec

    assert (spec.name, spec.parallelism, spec.checkpointing.interval) == ("views", 3, 5.0)
    assert spec.sinks[0].options == {"path": "/data/report"}


@pytest.mark.parametrize(
    "text", ["1e3", "-1E5", ".5e1", "0o17", "yes", "1:30", "null", "~", "two\nlines\n", " padded "]
)
def test_a_text_that_looks_like_something_else_reaches_the_driver_as_that_text(tmp_path: Path, text: str) -> None:
    job = {**JOB, "sparkConf": {"spark.test.text": text}}
    (tmp_path / "job.yaml").write_text(job_config_map(OWNER, revision(job=job))["data"]["job.yaml"])

    assert load_job(tmp_path / "job.yaml").spec.spark_conf["spark.test.text"] == text


def test_the_heap_is_a_part_of_the_drivers_memory_whatever_the_job_says() -> None:
    job = {**JOB, "sparkConf": {"spark.driver.memory": "64g", "spark.sql.ansi.enabled": "false"}}

    conf = file_of(job=job, driver={"memory": "2g"})["sparkConf"]

    assert conf["spark.driver.memory"] == "1536m"
    assert conf["spark.sql.ansi.enabled"] == "false"


def test_the_config_map_of_a_revision_never_changes_and_goes_with_the_streamjob() -> None:
    of = revision()
    built = job_config_map(OWNER, of)

    assert built["immutable"] is True
    assert built["metadata"]["name"].startswith(of.name)
    assert built["metadata"]["ownerReferences"][0]["uid"] == OWNER.uid
    assert built == job_config_map(OWNER, of)


def test_a_streamjob_does_not_take_over_what_one_of_its_name_left_behind() -> None:
    other = OWNER.model_copy(update={"uid": "77777777-0000-4000-8000-000000000000"})

    assert (
        job_config_map(OWNER, revision())["metadata"]["name"] != job_config_map(other, revision())["metadata"]["name"]
    )


def test_an_application_of_the_image_is_run_with_the_resources_fields_over_its_own(tmp_path: Path) -> None:
    built = pod(
        mainApplicationFile="local:///opt/app/job.yaml",
        parallelism=3,
        maxParallelism=12,
        checkpointing={"location": "s3://state/jobs", "interval": "1500ms", "mode": "unaligned"},
        sparkConf={"spark.app.note": "yes"},
        hadoopConf={"fs.s3a.endpoint": "http://s3"},
    )
    given = container(built)["args"]
    changes = [value for option, value in pairwise(given) if option == "--set"]
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({"name": "own", **JOB}))

    spec = load_job(tmp_path / "job.yaml", changes).spec

    assert given[:2] == ["run", "/opt/app/job.yaml"]
    assert argument(built, "--location") == "s3://state/jobs"
    assert (spec.parallelism, spec.max_parallelism) == (3, 12)
    assert (spec.checkpointing.interval, spec.checkpointing.mode) == (1.5, "unaligned")
    assert spec.spark_conf == {
        "spark.app.note": "yes",
        "spark.hadoop.fs.s3a.endpoint": "http://s3",
        "spark.driver.memory": "768m",
    }
    assert "job.yaml" not in job_config_map(OWNER, revision(mainApplicationFile="local:///opt/app/job.yaml"))["data"]
