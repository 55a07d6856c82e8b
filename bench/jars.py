"""Brings jars that only the benchmarks need from Maven Central, verified against their pins."""

from __future__ import annotations

import os
from pathlib import Path

from streamjob_runtime.spark.connectors.artifacts import read_pins
from streamjob_runtime.spark.connectors.fetching import Repositories, fetch


def fetched_jars(pins: str, directory: Path) -> list[Path]:
    """Return the paths of jars, which are fetched the first time.

    Args:
        pins: lines of coordinates and SHA-256 checksums.
        directory: for the jars; it outlasts the run.

    Raises:
        CannotFetch: Maven Central, or the mirror that `IVY_SETTINGS` names, did not deliver a jar.
    """
    artifacts, settings = read_pins(pins), os.environ.get("IVY_SETTINGS")
    fetch(artifacts, directory, os.environ, Repositories(Path(settings) if settings else None))
    return [directory / each.file for each in artifacts]


def hadoop_aws_jars(cache: Path) -> list[Path]:
    """Return the jars with which Spark reads and writes `s3a://`, fetched the first time.

    PySpark's package lacks hadoop-aws. The bundle of the AWS SDK that it asks for has 686 MB; these are the modules
    that it needs, and slf4j and Netty come with Spark.

    Args:
        cache: directory that outlasts the run.

    Raises:
        CannotFetch: Maven Central, or the mirror that `IVY_SETTINGS` names, did not deliver them.
    """
    return fetched_jars(Path(__file__).with_name("hadoop-aws.txt").read_text(), cache / "hadoop-aws")
