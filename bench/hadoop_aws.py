"""Fetches hadoop-aws, which PySpark's package lacks, and the modules of the AWS SDK that it needs, by Spark's Ivy."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pyspark

from streamjob_runtime.java import find_java

HADOOP_AWS = "3.5.0"
AWS_SDK = "2.35.4"
_MODULES = ("s3", "sts", "s3-transfer-manager", "apache-client")

# The SDK's bundle has 686 MB; slf4j and Netty come with Spark.
_IVY = """<ivy-module version="2.0">
  <info organisation="streamjob" module="bench"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
    <exclude org="software.amazon.awssdk" module="bundle"/>
    <exclude org="org.slf4j"/>
    <exclude org="io.netty"/>
  </dependencies>
</ivy-module>
"""


class FetchFailed(Exception):
    """The jars could not be fetched."""


def hadoop_aws_jars(cache: Path) -> list[Path]:
    """Return the jars with which Spark reads and writes `s3a://`, fetched from Maven Central the first time.

    Args:
        cache: directory that outlasts the run.

    Raises:
        FetchFailed: Maven Central, or the mirror that `IVY_SETTINGS` names, did not deliver them.
    """
    target = cache / f"hadoop-aws-{HADOOP_AWS}"
    if not target.is_dir():
        making = cache / f".hadoop-aws-{os.getpid()}"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        _fetch(cache / "ivy", making)
        making.rename(target)
    return sorted(target.glob("*.jar"))


def _fetch(ivy_cache: Path, target: Path) -> None:
    wanted = [("org.apache.hadoop", "hadoop-aws", HADOOP_AWS)]
    wanted += [("software.amazon.awssdk", name, AWS_SDK) for name in _MODULES]
    lines = [
        f'    <dependency org="{organisation}" name="{name}" rev="{version}" conf="default->default"/>'
        for organisation, name, version in wanted
    ]
    description = target / "ivy.xml"
    description.write_text(_IVY.format(dependencies="\n".join(lines)))
    java = find_java(os.environ, target / "java")
    jars = Path(pyspark.__file__).parent / "jars"
    command = [str(java.executable), "-cp", f"{jars}/*", "org.apache.ivy.Main"]
    if settings := os.environ.get("IVY_SETTINGS"):
        command += ["-settings", settings]
    command += ["-cache", str(ivy_cache), "-ivy", str(description), "-types", "jar", "bundle"]
    command += ["-retrieve", f"{target}/[artifact]-[revision].[ext]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not (target / f"hadoop-aws-{HADOOP_AWS}.jar").is_file():
        raise FetchFailed(f"hadoop-aws {HADOOP_AWS} could not be fetched:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
