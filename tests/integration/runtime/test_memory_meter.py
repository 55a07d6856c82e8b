"""The driver measures its heap behind a collection, and the memory of its container."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamjob_runtime.monitoring.memory_meter import MemoryMeter, container_memory
from streamjob_runtime.spark.gateway import java_of, running_java

MIB = 1024**2


@pytest.mark.spark
def test_the_live_heap_is_that_of_the_last_collection(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text(f"{4096 * MIB}\n")
    (tmp_path / "memory.stat").write_text(f"anon {3072 * MIB}\nfile {64 * MIB}\n")
    java_of(spark).java.lang.System.gc()
    meter = MemoryMeter(running_java, tmp_path)
    meter.observe(100.0)

    view = meter.view
    assert view is not None
    assert 10 * MIB < view.heap_live < view.heap
    assert view.container == 4096 * MIB
    assert view.outside_heap is not None
    assert 0 <= view.outside_heap <= 3072 * MIB
    meter.observe(109.0)
    assert meter.view is view
    meter.observe(110.0)
    assert meter.view.measured == 110.0


def test_without_a_container_or_java_nothing_is_known(tmp_path: Path) -> None:
    meter = MemoryMeter(lambda: None, tmp_path)
    meter.observe(1.0)

    assert meter.view is None
    assert container_memory(tmp_path) == (None, None)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.stat").write_text("anon 5\n")
    assert container_memory(tmp_path) == (None, None)
