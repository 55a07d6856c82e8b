"""The examples that bring their servers: what their compose files name is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).parents[3] / "examples"
COMPOSE = sorted(EXAMPLES.glob("*/compose.yaml"))

pytestmark = pytest.mark.parametrize("file", COMPOSE, ids=lambda file: str(file.parent.name))


def services(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(file.read_text())["services"]
    return found


def test_images_are_of_a_version_and_the_runtime_is_the_one_that_the_guide_builds(file: Path) -> None:
    images = {service["image"] for service in services(file).values()}

    assert "streamjob-runtime" in images
    assert "docker build --target runtime -t streamjob-runtime ../.." in file.read_text()
    assert [image for image in images - {"streamjob-runtime"} if not re.search(r":v?\d", image)] == []


def test_what_is_mounted_and_waited_for_is_there(file: Path) -> None:
    document = yaml.safe_load(file.read_text())

    for service in document["services"].values():
        sources = [volume.split(":")[0] for volume in service.get("volumes", ())]
        files = [source for source in sources if source.startswith("./") and source != "./state"]
        assert [source for source in files if not (file.parent / source).is_file()] == []
        assert {source for source in sources if not source.startswith("./")} <= set(document["volumes"])
        assert set(service.get("depends_on", ())) <= set(document["services"])


def test_variables_that_the_guide_exports_are_those_that_the_file_asks_for(file: Path) -> None:
    text = file.read_text()
    exported = re.search(r"^#.* export (.*?)(?:    #.*)?$", text, re.MULTILINE)

    assert exported is not None
    assert set(re.findall(r"(\w+)=", exported[1])) == set(re.findall(r"\$\{(\w+):\?", text))
