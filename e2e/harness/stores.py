"""The scenarios' view of stored snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.harness.namespace import Namespace

from streamjob.store import Store
from streamjob_operator.storage.job_stores import S3Stores


@contextmanager
def opened(namespace: Namespace, uri: str) -> Iterator[Store]:
    """Open the store at a URI, with a namespace's login."""
    store = S3Stores()(uri, namespace.environment)
    try:
        yield store
    finally:
        store.close()
