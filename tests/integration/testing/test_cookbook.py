"""Each recipe of the cookbook does what it says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.core import core
from tests.integration.job_files import job_files

from streamjob.job.loading.job_tests import file_beside, read_tests_file
from streamjob.job.loading.load import load_job
from streamjob_runtime.testing.file_tests import run_tests
from streamjob_runtime.testing.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COOKBOOK = Path(__file__).resolve().parents[3] / "docs" / "cookbook"
RECIPES = sorted(
    each.name
    for each in COOKBOOK.iterdir()
    if each.suffix in (".yaml", ".sql", ".py") and not each.name.endswith(".tests.yaml")
)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("recipe", core(RECIPES, "top-n-per-window.yaml"))
def test_a_recipe_passes_its_tests(spark: SparkSession, tmp_path: Path, recipe: str) -> None:
    loaded = load_job(COOKBOOK / recipe)
    beside = file_beside(COOKBOOK / recipe)
    tests = loaded.tests or read_tests_file(beside, loaded.spec)
    results = list(run_tests(loaded, tests, Session(spark, job_files(spark)), tmp_path))

    assert [(each.name, each.failures) for each in results] == [(each.name, ()) for each in tests]


def test_every_recipe_is_on_the_page_of_the_cookbook() -> None:
    text = (COOKBOOK / "README.md").read_text()

    assert [each for each in RECIPES if f"]({each})" not in text] == []
