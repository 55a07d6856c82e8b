"""Kits for tests of jobs, sinks and stores; shipped to users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamjob_runtime.testing.job_test import JobTest
    from streamjob_runtime.testing.session import Session

__all__ = ["JobTest", "Session"]

_RUNTIME = {"JobTest": "streamjob_runtime.testing.job_test", "Session": "streamjob_runtime.testing.session"}
"""Where the classes are that run jobs, and so need the extra `runtime`."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from streamjob.extras import from_extra

    with from_extra(f"streamjob.testing.{name}", "runtime"):
        import_module("pyspark")
    return getattr(import_module(_RUNTIME[name]), name)
