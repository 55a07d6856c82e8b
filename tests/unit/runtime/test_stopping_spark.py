"""Stopping Spark must not hide how the job ended."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from streamjob_runtime.spark.holder import SparkHolder
from streamjob_runtime.spark.session import SessionSettings


class StuckJava:
    stdin = SimpleNamespace(close=lambda: None)

    def __init__(self) -> None:
        self.killed = False

    def poll(self) -> None:
        return None

    def wait(self, seconds: float) -> None:
        raise subprocess.TimeoutExpired("java", seconds)

    def kill(self) -> None:
        self.killed = True


def test_a_spark_that_neither_answers_nor_ends_is_killed(tmp_path: Path) -> None:
    process = StuckJava()

    class Context:
        _gateway: Any = SimpleNamespace(proc=process, shutdown=lambda: None)
        _jvm: Any = None

    def stop() -> None:
        raise ConnectionError("Answer from Java side is empty")

    holder = SparkHolder(settings(tmp_path))
    holder._session = cast("Any", SimpleNamespace(sparkContext=Context(), stop=stop))

    holder.stop()

    assert process.killed


def settings(workdir: Path) -> SessionSettings:
    return SessionSettings(name="job", parallelism=1, max_parallelism=1, workdir=workdir)
