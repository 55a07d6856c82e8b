"""Files that Spark deletes from its checkpoint leave nothing on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from streamjob_runtime.spark.gateway import java_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.spark_checkpoint.conftest import Lab

pytestmark = pytest.mark.spark


def copied_by_spark(jvm: Any, lab: Lab, target: Path) -> None:
    """Put a file where Spark's state store puts its snapshots, and as it does: through Hadoop's local file system."""
    local = lab.root / "local.sst"
    local.write_bytes(b"sorted")
    path = jvm.org.apache.hadoop.fs.Path
    files = path(str(target)).getFileSystem(jvm.org.apache.hadoop.conf.Configuration())
    files.copyFromLocalFile(path(str(local)), path(str(target)))


def test_the_checksum_of_a_deleted_file_of_state_goes_with_it(lab: Lab) -> None:
    jvm = java_of(lab.spark)
    folder = lab.directory("SSTs")
    folder.mkdir()
    copied_by_spark(jvm, lab, folder / "old.sst")
    copied_by_spark(jvm, lab, folder / "new.sst")
    path = jvm.org.apache.hadoop.fs.Path
    manager = jvm.io.streamjob.LocalCheckpointFileManager(path(str(folder)), jvm.org.apache.hadoop.conf.Configuration())

    manager.delete(path(str(folder / "old.sst")))
    manager.delete(path(str(folder / "never.sst")))

    assert sorted(file.name for file in folder.iterdir()) == [".new.sst.crc", "new.sst"]
