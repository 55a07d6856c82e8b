"""Finds the jars of a connector: in the installation, in the user's cache, or by downloading them into the cache."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from streamjob.job.connectors import registry
from streamjob.job.connectors.options import encodings_of
from streamjob.job.model.encoding_spec import PROTOBUF
from streamjob.job.model.spec import JobSpec
from streamjob_runtime.spark.connectors.artifacts import CONNECTORS
from streamjob_runtime.spark.connectors.buckets import S3A, reaches_buckets
from streamjob_runtime.spark.connectors.fetching import DIRECTORY_VARIABLE, Repositories, fetch, is_intact, spark_jars


def installed_directory() -> Path:
    """Return the directory with the connectors of an installation, such as an image; jobs look there first."""
    return Path(sys.prefix) / "var" / "streamjob" / "connectors"


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return the directory for downloads: `STREAMJOB_CONNECTORS_DIR`, or one below the user's cache directory."""
    named = environment.get(DIRECTORY_VARIABLE)
    if named:
        return Path(named)
    caches = environment.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "streamjob" / "connectors"


def needed(spec: JobSpec, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the connectors that a job needs, without those that its `sparkConf` names itself.

    Args:
        environment: for the variables in paths.
    """
    names = {each.format for each in spec.connectors()} | set(compilers(spec))
    if reaches_buckets(spec, environment):
        names.add(S3A)
    return tuple(name for name in sorted(CONNECTORS.keys() & names) if not _brings_its_own(name, spec.spark_conf))


def compilers(spec: JobSpec) -> tuple[str, ...]:
    """Return the connectors that decode and encode a job's records, which it needs under test, too."""
    encodings = [each for part in spec.connectors() for each in encodings_of(part).values()]
    return (PROTOBUF,) if any(each.compiles for each in encodings) else ()


def jars(connector: str, environment: Mapping[str, str], conf: Mapping[str, str] | None = None) -> list[Path]:
    """Return a connector's jars, downloaded if necessary.

    Args:
        connector: a format of `CONNECTORS`.
        environment: the process's environment.
        conf: Spark's configuration, which may name other repositories.

    Raises:
        CannotFetch: they are missing and cannot be downloaded.
        NoJava: there is no Java to run Ivy.
    """
    artifacts = CONNECTORS[connector]
    installed = installed_directory()
    if all(is_intact(each, installed / each.file) for each in artifacts):
        return [installed / each.file for each in artifacts]
    directory = cache_directory(environment)
    fetch(artifacts, directory, environment, Repositories.of(conf or {}))
    return [directory / each.file for each in artifacts]


def _brings_its_own(connector: str, conf: Mapping[str, str]) -> bool:
    known = registry.CONNECTORS.get(connector)
    name = "hadoop-aws" if connector == S3A else None if known is None else known.jar
    if name is None:
        return False
    named = any(name in conf.get(key, "") for key in ("spark.jars", "spark.jars.packages"))
    return named or bool(spark_jars(f"{name}*.jar"))
