"""Brings hadoop-aws, which PySpark's package lacks, with the modules of the AWS SDK that it needs.

The SDK's bundle, which hadoop-aws asks for, has 686 MB; slf4j and Netty come with Spark.
"""

from __future__ import annotations

import os
from pathlib import Path

from streamjob_runtime.spark.connectors.artifacts import read_pins
from streamjob_runtime.spark.connectors.fetching import Repositories, fetch

_PINS = read_pins(Path(__file__).with_name("hadoop-aws.txt").read_text())


def hadoop_aws_jars(cache: Path) -> list[Path]:
    """Return the jars with which Spark reads and writes `s3a://`, fetched the first time.

    Args:
        cache: directory that outlasts the run.

    Raises:
        CannotFetch: Maven Central, or the mirror that `IVY_SETTINGS` names, did not deliver them.
    """
    directory = cache / "hadoop-aws"
    settings = os.environ.get("IVY_SETTINGS")
    fetch(_PINS, directory, os.environ, Repositories(Path(settings) if settings else None))
    return [directory / each.file for each in _PINS]
