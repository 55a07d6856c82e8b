"""Sees to it that the process may open as many files as a job needs."""

from __future__ import annotations

import resource

from streamjob.errors import InvalidInput

MINIMUM = 1024
"""Spark's jars, sockets and a small state take some hundreds."""

_LIMIT = resource.RLIMIT_NOFILE


class TooFewDescriptors(InvalidInput):
    """The process may not open as many files and connections as a job needs."""


def ensure_descriptors() -> None:
    """Raise the process's own limit of open files to the minimum, if it is lower and may be raised.

    Raises:
        TooFewDescriptors: it may not be raised so far.
    """
    soft, hard = resource.getrlimit(_LIMIT)
    wanted = soft_limit(soft, hard)
    if wanted != soft:
        resource.setrlimit(_LIMIT, (wanted, hard))


def soft_limit(soft: int, hard: int) -> int:
    """Return the soft limit that a process needs, given those it has. Raises TooFewDescriptors."""
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited or soft >= MINIMUM:
        return soft
    if hard != unlimited and hard < MINIMUM:
        raise too_few(f"`ulimit -n` is {soft}, and may be raised to {hard} only")
    return MINIMUM


def too_few(what: str) -> TooFewDescriptors:
    """Return the error for a process that ran into the limit, or will."""
    return TooFewDescriptors(
        f"This process may not open enough files: {what}",
        f"raise the limit to {MINIMUM} or more, for a large state to 65536: `ulimit -n` in a shell, LimitNOFILE in a"
        " unit of systemd, the container runtime's default for a pod",
    )
