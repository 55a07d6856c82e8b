"""Sources whose files are found by ourselves, and read by our own stream: in buckets, and in lake tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from streamjob.clock import Clock
from streamjob.job.model.spec import SourceSpec
from streamjob_runtime.chain.sources.discovered_files import DiscoveredFiles
from streamjob_runtime.chain.sources.discovered_table import DiscoveredTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from streamjob_runtime.discovery.search_thread import SearchThread


class Discovered(Protocol):
    """The files of such a source; the methods raise what those of DiscoveredFiles and DiscoveredTable raise."""

    def stream(
        self, spark: SparkSession, form: str, options: Mapping[str, str], schema: StructType | None, surplus: Any = None
    ) -> DataFrame:
        """Return the rows of the files."""
        ...

    def offer_sample(self) -> None:
        """Offer some files to the query that reads them next, for a look at them."""
        ...

    def discoverer(self, folder: Path, clock: Clock) -> SearchThread:
        """Return what finds the files for a query."""
        ...

    def check_read(self, folder: Path, before: str, now: str, stopped: Callable[[], bool]) -> None:
        """Check that the files of a batch are those that were found."""
        ...


def discovered(source: SourceSpec, options: Mapping[str, str]) -> Discovered | None:
    """Return the files of a source, given its resolved options; None if Spark finds them.

    Raises:
        MissingExtra: the packages for its tables are not installed.
    """
    return DiscoveredFiles.of(source, options) or DiscoveredTable.of(source, options)
