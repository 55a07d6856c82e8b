"""The executors that a job asks for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExecutorOptions:
    """The executors that a job runs on.

    Args:
        instances: their number.
        cores: of each.
        memory: of Java's heap in each, as Java takes it; for executors that this process starts.
        address: the address by which they reach the driver; None to start them as processes of this machine.
    """

    instances: int
    cores: int = 1
    memory: str = "1g"
    address: str | None = None
