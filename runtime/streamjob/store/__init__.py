"""Stores of snapshots: one interface of few verbs, a local directory and S3."""

from streamjob.store.base import (
    ObjectInfo,
    ObjectMissing,
    Store,
    StoreError,
    StoreUnavailable,
    UnsuitableStore,
)

__all__ = ["ObjectInfo", "ObjectMissing", "Store", "StoreError", "StoreUnavailable", "UnsuitableStore"]
