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
        share_files: whether they reach local paths of sources and sinks, although they are on other machines.
    """

    instances: int
    cores: int = 1
    memory: str = "1g"
    address: str | None = None
    share_files: bool = False

    @property
    def reach_local_files(self) -> bool:
        """Whether the executors reach the local paths of sources and sinks."""
        return self.address is None or self.share_files
