"""Brings hadoop-aws, which PySpark's package lacks, with the modules of the AWS SDK that it needs.

The SDK's bundle, which hadoop-aws asks for, has 686 MB; slf4j and Netty come with Spark.
"""

from __future__ import annotations

from pathlib import Path

from bench.jars import fetched_jars


def hadoop_aws_jars(cache: Path) -> list[Path]:
    """Return the jars with which Spark reads and writes `s3a://`, fetched the first time.

    Args:
        cache: directory that outlasts the run.

    Raises:
        CannotFetch: Maven Central, or the mirror that `IVY_SETTINGS` names, did not deliver them.
    """
    return fetched_jars(Path(__file__).with_name("hadoop-aws.txt").read_text(), cache / "hadoop-aws")
