"""Stores of snapshots: one small interface, implemented for local directories and S3."""

from streamjob.store.base import (
    AccessDenied,
    BucketMissing,
    CredentialsExpired,
    CredentialsRejected,
    ObjectInfo,
    ObjectMissing,
    Store,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreUnavailable,
    UnsuitableStore,
)
from streamjob.store.local import LocalStore
from streamjob.store.names import InvalidKey

__all__ = [
    "AccessDenied",
    "BucketMissing",
    "CredentialsExpired",
    "CredentialsRejected",
    "InvalidKey",
    "LocalStore",
    "ObjectInfo",
    "ObjectMissing",
    "Store",
    "StoreDenied",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "UnsuitableStore",
]
