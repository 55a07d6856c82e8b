"""Downloads jars from a Maven repository with Spark's Ivy; keeps only jars with the pinned hash."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from streamjob.errors import InvalidInput
from streamjob_runtime.spark.connectors.artifacts import Artifact
from streamjob_runtime.spark.jvm import CLASSES, JAR
from streamjob_runtime.spark.process.java import find_java

DIRECTORY_VARIABLE = "STREAMJOB_CONNECTORS_DIR"
_MINUTES = 10

log = logging.getLogger("streamjob")


class CannotFetch(InvalidInput):
    """A connector's jars are missing and could not be downloaded."""


@dataclass(frozen=True, slots=True)
class Repositories:
    """The repositories in a job's `sparkConf`.

    Args:
        settings: Ivy's settings file (`spark.jars.ivySettings`), which then decides alone; None for Maven Central.
        more: URLs of further Maven repositories (`spark.jars.repositories`), asked after Maven Central.
    """

    settings: Path | None = None
    more: tuple[str, ...] = ()

    @classmethod
    def of(cls, conf: Mapping[str, str]) -> Repositories:
        """Return the repositories that Spark would ask."""
        settings = conf.get("spark.jars.ivySettings")
        more = conf.get("spark.jars.repositories", "")
        return cls(Path(settings) if settings else None, tuple(filter(None, map(str.strip, more.split(",")))))


def is_intact(artifact: Artifact, file: Path) -> bool:
    """Return whether a file exists and has the artifact's hash."""
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == artifact.sha256
    except OSError:
        return False


def fetch(
    artifacts: Sequence[Artifact], directory: Path, environment: Mapping[str, str], repositories: Repositories
) -> None:
    """Download the artifacts that a directory lacks; several processes may do so at the same time.

    Args:
        directory: their directory; created if necessary.
        environment: the process's environment: it selects the Java and, in `SSL_CERT_FILE`, the trusted authorities.
        repositories: where to download from.

    Raises:
        CannotFetch: the directory is not writable, a repository lacks an artifact, or a file has another hash.
        NoJava: there is no Java to run Ivy.
    """
    missing = [each for each in artifacts if not is_intact(each, directory / each.file)]
    if not missing:
        return
    named = ", ".join(each.file for each in missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
    log.warning("Fetching %s into %s: this is done once", named, directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=directory) as scratch:
            reason = _retrieve(missing, Path(scratch), environment, repositories)
            for each in missing:
                fetched = Path(scratch) / each.file
                if not fetched.exists():
                    raise _cannot(missing, directory, reason or f"the repository has no {each.file}")
                if not is_intact(each, fetched):
                    raise _cannot([each], directory, "the downloaded file has another hash")
            for each in missing:
                fetched = Path(scratch) / each.file
                fetched.chmod(0o644)
                fetched.replace(directory / each.file)
    except OSError as error:
        raise _cannot(missing, directory, f"{error.filename or directory}: {error.strerror}") from error


def _retrieve(
    artifacts: Sequence[Artifact], scratch: Path, environment: Mapping[str, str], repositories: Repositories
) -> str:
    """Let Ivy download the artifacts' files into a directory; return why it failed, or an empty text."""
    (scratch / "ivy.xml").write_text(_module(artifacts))
    settings = repositories.settings
    if settings is None:
        settings = scratch / "settings.xml"
        settings.write_text(_settings(repositories.more))
    java = find_java(environment, scratch / "java").executable
    command = [
        *(str(java), "-cp", os.pathsep.join([str(JAR), *map(str, spark_jars("ivy-*.jar"))]), CLASSES["Fetch"]),
        *("-settings", str(settings), "-ivy", str(scratch / "ivy.xml"), "-cache", str(scratch / "cache")),
        *("-retrieve", str(scratch / "[artifact]-[revision].[ext]"), "-types", "jar", "bundle"),
    ]
    try:
        done = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=_MINUTES * 60, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {_MINUTES} minutes"
    if done.returncode == 0:
        return ""
    return _reason(done.stdout + done.stderr)


def _reason(output: str) -> str:
    """Return the most useful line of Ivy's output: a network failure, else a missing artifact, else the last line."""
    lines = [line.strip(" \t:") for line in output.splitlines() if line.strip(" \t:")]
    for telling in ("Exception", "not found"):
        for line in lines:
            if telling in line:
                return line
    return lines[-1] if lines else "Ivy failed, and said nothing"


def _module(artifacts: Sequence[Artifact]) -> str:
    dependencies = "".join(
        f"<dependency org={quoteattr(each.group)} name={quoteattr(each.name)} rev={quoteattr(each.version)}"
        ' conf="*->master" transitive="false"/>'
        for each in artifacts
    )
    head = '<ivy-module version="2.0"><info organisation="streamjob" module="connectors"/>'
    return f"{head}<dependencies>{dependencies}</dependencies></ivy-module>"


def _settings(more: Sequence[str]) -> str:
    """Return settings with Maven Central, Ivy's default, and further repositories."""
    further = "".join(
        f'<ibiblio name="further-{number}" m2compatible="true" root={quoteattr(root)}/>'
        for number, root in enumerate(more)
    )
    return (
        '<ivysettings><settings defaultResolver="all"/><resolvers><chain name="all" returnFirst="true">'
        f'<ibiblio name="central" m2compatible="true"/>{further}</chain></resolvers></ivysettings>'
    )


def spark_jars(pattern: str) -> list[Path]:
    """Return Spark's own jars whose names match a pattern; empty without a Spark."""
    spark = importlib.util.find_spec("pyspark")
    return sorted((Path(spark.origin).parent / "jars").glob(pattern)) if spark is not None and spark.origin else []


def _cannot(artifacts: Sequence[Artifact], directory: Path, reason: str) -> CannotFetch:
    wanted = ", ".join(f"{each.group}:{each.name}:{each.version}" for each in artifacts)
    return CannotFetch(
        f"Jars that the job needs are not here, and could not be fetched: {wanted} ({reason})",
        f"put {', '.join(each.file for each in artifacts)} into {directory}, or set {DIRECTORY_VARIABLE} to the "
        "directory that has them",
    )
