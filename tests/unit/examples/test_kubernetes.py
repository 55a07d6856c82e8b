"""The examples for a cluster: they are valid, and match their documents."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from streamjob.job.loading.load import load_job
from streamjob_operator.decisions.values.revision import difference, revision_of
from streamjob_operator.resources.effect_of_changes import Change
from streamjob_operator.resources.snapshot import StreamSnapshot
from streamjob_operator.resources.streamjob import StreamJob

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "kubernetes"
FILES = sorted(EXAMPLES.rglob("*.yaml"))


def documents(kind: str, folder: Path = EXAMPLES) -> list[tuple[Path, dict[str, Any]]]:
    """Return the files below a folder that hold a resource of the kind, with it."""
    return [
        (file, each)
        for file in sorted(folder.rglob("*.yaml"))
        for each in yaml.safe_load_all(file.read_text())
        if each.get("kind") == kind
    ]


def named(pairs: list[tuple[Path, dict[str, Any]]]) -> list[Any]:
    """Return them as parameters, by the name of the file."""
    return [pytest.param(*pair, id=str(pair[0].relative_to(EXAMPLES))) for pair in pairs]


JOBS = pytest.mark.parametrize(("file", "resource"), named(documents("StreamJob")))


@JOBS
def test_a_job_is_valid(file: Path, resource: dict[str, Any]) -> None:
    job = StreamJob.model_validate(resource)
    loaded = load_job(file)

    assert loaded.spec.name == job.metadata.name
    assert loaded.location() == job.spec.checkpointing.location
    assert loaded.missing_variables({}) == []


@JOBS
def test_a_job_finds_its_data_on_the_volumes_that_it_mounts(file: Path, resource: dict[str, Any]) -> None:
    spec = StreamJob.model_validate(resource).spec
    mounts = [each["mountPath"] for each in spec.driver.volume_mounts]
    parts = [*resource["spec"]["job"]["sources"], *resource["spec"]["job"]["sinks"]]
    outside = [each["name"] for each in parts if not each["options"]["path"].startswith(tuple(f"{m}/" for m in mounts))]

    assert {each["name"] for each in spec.driver.volume_mounts} == {each["name"] for each in spec.volumes}
    assert outside == []


@pytest.mark.parametrize(("file", "resource"), named(documents("StreamSnapshot")))
def test_a_snapshot_is_valid_and_of_a_job_beside_it(file: Path, resource: dict[str, Any]) -> None:
    snapshot = StreamSnapshot.model_validate(resource)
    beside = {each["metadata"]["name"] for _, each in documents("StreamJob", file.parent)}

    assert snapshot.spec.job_ref.name in beside


def test_an_unknown_field_would_be_found() -> None:
    (_, resource), *_ = documents("StreamJob")

    with pytest.raises(ValidationError):
        StreamJob.model_validate({**resource, "spec": {**resource["spec"], "upgradeModus": "savepoint"}})


@pytest.mark.parametrize(("file", "resource"), named(documents("Pod")))
def test_a_pod_satisfies_the_restricted_pod_security_standard(file: Path, resource: dict[str, Any]) -> None:
    (container,) = resource["spec"]["containers"]

    assert resource["spec"]["securityContext"]["runAsNonRoot"] is True
    assert resource["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False


@pytest.mark.parametrize(("file", "resource"), named(documents("Pod")))
def test_the_program_of_a_pod_can_be_compiled(file: Path, resource: dict[str, Any]) -> None:
    (container,) = resource["spec"]["containers"]

    compile(container["command"][-1], str(file), "exec")


@pytest.mark.parametrize("file", [each for each in FILES if each.name == "kustomization.yaml"])
def test_a_kustomization_names_files_that_exist(file: Path) -> None:
    content = yaml.safe_load(file.read_text())
    names = [*content["resources"], *content.get("configurations", [])]
    names += [name for each in content.get("configMapGenerator", []) for name in each["files"]]

    assert [name for name in names if not (file.parent / name).is_file()] == []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Give a copy of the GitOps repository in which the upgrade is applied."""
    copy = tmp_path / "gitops"
    shutil.copytree(EXAMPLES / "gitops", copy)
    subprocess.run(["git", "apply", "--unsafe-paths", "upgrade.patch"], cwd=copy, check=True, timeout=60)
    return copy


def test_the_upgrade_of_the_gitops_repository_is_one_that_keeps_the_state(repository: Path) -> None:
    ((_, before),) = documents("StreamJob", EXAMPLES / "gitops" / "flights")
    ((file, after),) = documents("StreamJob", repository / "flights")
    old, new = StreamJob.model_validate(before), StreamJob.model_validate(after)
    uids = [{each["name"] for each in job["spec"]["job"]["operators"]} for job in (before, after)]

    assert load_job(file).spec.sink("report").input == "bad_hours"
    assert difference(revision_of("departures", old.spec), revision_of("departures", new.spec)) is Change.UPGRADE
    assert uids[0] < uids[1]
    assert after["spec"]["upgradeMode"] == "savepoint"


def test_the_code_of_the_gitops_repository_has_the_functions_that_its_job_names(repository: Path) -> None:
    for folder in (EXAMPLES / "gitops", repository):
        ((_, job),) = documents("StreamJob", folder / "flights")
        named_functions = {each["python"] for each in job["spec"]["job"]["operators"]}
        code = (folder / "flights" / "delays.py").read_text()

        assert [name for name in named_functions if f"\ndef {name.removeprefix('delays:')}(" not in code] == []


def test_a_job_elsewhere_is_the_same_job_from_a_savepoint_of_the_primary() -> None:
    primary, elsewhere = (
        yaml.safe_load((EXAMPLES / "disaster-recovery" / name).read_text())
        for name in ("primary.yaml", "elsewhere.yaml")
    )
    savepoint = elsewhere["spec"]["initialSavepointPath"]

    assert elsewhere["metadata"] == primary["metadata"]
    assert elsewhere["spec"]["job"] == primary["spec"]["job"]
    assert savepoint.startswith(primary["spec"]["savepoints"]["location"] + f"/{primary['metadata']['name']}-")
    assert elsewhere["spec"]["checkpointing"]["location"] != primary["spec"]["checkpointing"]["location"]


def test_a_job_that_computes_again_shares_neither_log_nor_output_with_the_one_that_goes_on() -> None:
    primary, again = (
        yaml.safe_load((EXAMPLES / "disaster-recovery" / name).read_text())
        for name in ("primary.yaml", "the-day-before.yaml")
    )
    taken = yaml.safe_load((EXAMPLES / "disaster-recovery" / "by-hand.yaml").read_text())
    outputs = [job["spec"]["job"]["sinks"][0]["options"]["path"] for job in (primary, again)]

    assert again["metadata"]["name"] != primary["metadata"]["name"]
    assert outputs[0] != outputs[1]
    assert again["spec"]["initialSnapshotRef"]["name"] == taken["metadata"]["name"]
