"""Where the tasks of a session run, by its master."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamjob_runtime.spark.gateway import runs_tasks
from streamjob_runtime.spark.jvm import EXECUTORS_MASTER


@pytest.mark.parametrize(
    ("master", "here"),
    [
        ("local", True),
        ("local[2]", True),
        ("local[*, 3]", True),
        (EXECUTORS_MASTER, False),
        ("local-cluster[2, 1, 1024]", False),
        ("spark://host:7077", False),
        (None, False),
    ],
)
def test_tasks_run_in_this_process_only_if_spark_is_local(master: str | None, here: bool) -> None:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    assert runs_tasks(session) is here
