"""The references of the resources say what the models say, and their examples are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from tests.unit.generators import generator

from streamjob.job.loading.load import load_job
from streamjob_operator.resources import conditions, snapshot, status
from streamjob_operator.resources.snapshot import StreamSnapshot
from streamjob_operator.resources.streamjob import StreamJob

ROOT = Path(__file__).resolve().parents[4]


GENERATOR = generator("generate_resources")


def written(name: str) -> str:
    """Return a page of the reference."""
    return (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")


def example(name: str) -> str:
    """Return the example of a page."""
    return written(name).split("```yaml\n")[1].split("```")[0]


@pytest.mark.parametrize("name", ["streamjob.md", "streamsnapshot.md", "reasons.md"])
def test_a_reference_is_in_step_with_the_models(name: str) -> None:
    assert written(name) == GENERATOR.TARGETS[name](), "run `python docs/generate_resources.py`"


@pytest.mark.parametrize("name", ["streamjob.md", "streamsnapshot.md"])
def test_every_section_that_a_page_links_to_is_there(name: str) -> None:
    page = written(name)
    there = {re.sub(r"[^a-z0-9-]", "", title.lower()) for title in re.findall(r"^## (.*)$", page, re.MULTILINE)}

    linked = set(re.findall(r"\]\(#([a-z0-9-]+)\)", page))
    assert linked
    assert linked <= there


def test_the_job_of_the_reference_is_valid(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(example("streamjob.md"))

    assert load_job(tmp_path / "job.yaml").spec.name == "departures"
    assert StreamJob.model_validate(yaml.safe_load(example("streamjob.md"))).spec.driver.cores == 2


def test_the_snapshot_of_the_reference_is_valid() -> None:
    found = StreamSnapshot.model_validate(yaml.safe_load(example("streamsnapshot.md")))

    assert found.spec.job_ref.name == "departures"


def test_every_state_and_condition_is_explained() -> None:
    page = written("streamjob.md")

    assert set(conditions.MEANINGS) == set(conditions.ConditionType)
    assert set(status.MEANINGS) == set(status.LifecycleState)
    assert set(snapshot.MEANINGS) == set(snapshot.SnapshotState)
    assert all(f"| `{each}` | " in page for each in [*conditions.ConditionType, *status.LifecycleState])
