"""What becomes of the content of a job file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from streamjob.errors import InvalidJob
from streamjob.job.loading.load import load_job
from streamjob.job.model.spec import JobSpec


def load(directory: Path, content: dict[str, Any]) -> JobSpec:
    """Write a job file and load it."""
    (directory / "job.yaml").write_text(yaml.safe_dump(content))
    return load_job(directory / "job.yaml").spec


def problems(directory: Path, content: dict[str, Any]) -> str:
    """Return what is said of a job file that is refused."""
    with pytest.raises(InvalidJob) as raised:
        load(directory, content)
    return str(raised.value)
