"""Kits for tests of jobs, sinks and stores; shipped to users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamjob.runtime import JobTest, Session

__all__ = ["JobTest", "Session"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from streamjob import runtime

    runtime.require(f"streamjob.testing.{name}")
    return getattr(runtime, name)
