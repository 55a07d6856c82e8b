"""The file by which Kubernetes sees that an executor takes part in its job."""

from __future__ import annotations

from pathlib import Path

from streamjob_runtime.executors.agent.agent import Mark


def test_the_mark_stays_from_one_driver_to_the_next_but_not_for_ever(tmp_path: Path) -> None:
    now, file = [0.0], tmp_path / "registered"
    mark = Mark(file, lambda: now[0])
    mark.look()
    assert not file.exists()
    mark.set()
    mark.lost()
    now[0] = 119
    mark.lost()
    mark.look()
    assert file.exists()

    mark.set()
    now[0] = 1000
    mark.look()
    assert file.exists()

    mark.lost()
    now[0] = 1120
    mark.look()
    assert not file.exists()
