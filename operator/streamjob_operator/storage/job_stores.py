"""The stores of many jobs, each reached with the credentials that its StreamJob names.

Only S3 is asked. A path is one in the driver's pod; the controller's own file system has nothing to do with it.
"""

from __future__ import annotations

import asyncio
import base64
import math
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from streamjob.errors import InvalidInput, StreamJobError
from streamjob.ids import Attempt, Owner
from streamjob.protocol.log.claiming import Marker
from streamjob.protocol.log.records import JobId, LogView, read
from streamjob.protocol.manifests.stored_manifests import MANIFEST_NAME, is_uri, read_manifest
from streamjob.snapshot.keys import job_root
from streamjob.snapshot.manifest import Manifest
from streamjob.store.base import (
    AccessDenied,
    BucketMissing,
    CredentialsExpired,
    CredentialsRejected,
    Store,
    StoreDenied,
)
from streamjob.store.effects import Program, drive
from streamjob.store.s3 import S3Store
from streamjob.store.s3_connection import PATH_STYLE_VARIABLE, S3Connection, S3Credentials, S3Settings
from streamjob_operator.cluster.api import Cluster, NotFound, Refused
from streamjob_operator.cluster.kinds import SECRET, STREAM_JOB
from streamjob_operator.decisions.values.observation import Completion, Reach, StoredLog, StoreProblem, StoreTrouble
from streamjob_operator.resources.parts import Storage
from streamjob_operator.storage.disposal import (
    NotDisposable,
    delete_savepoint,
    dispose_job,
    find_claim,
    restore_claim,
    void_claim,
    why_claimed,
)

_T = TypeVar("_T")
_CONNECTIONS = 64
_AT_ONCE = 16
_LOGIN_SECONDS = 10.0
_CHECK_SECONDS = 60.0
_ACCESS_KEY, _SECRET_KEY, _SESSION_TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"


class NotInReach(InvalidInput):
    """Only drivers get at the snapshots."""


class SecretMissing(InvalidInput):
    """The Secret with a store's credentials does not exist, or lacks a key."""


_PROBLEMS: tuple[tuple[type[StreamJobError], StoreProblem], ...] = (
    (SecretMissing, StoreProblem.SECRET_MISSING),
    (BucketMissing, StoreProblem.BUCKET_MISSING),
    (CredentialsRejected, StoreProblem.CREDENTIALS_REJECTED),
    (CredentialsExpired, StoreProblem.CREDENTIALS_EXPIRED),
    (AccessDenied, StoreProblem.ACCESS_DENIED),
    (StoreDenied, StoreProblem.DENIED),
)


def trouble_of(error: StreamJobError) -> StoreTrouble:
    """Return the trouble that an error of a store, or of the way to it, stands for."""
    found = (problem for kind, problem in _PROBLEMS if isinstance(error, kind))
    return StoreTrouble(
        reason=next(found, StoreProblem.UNREACHABLE), message="; ".join(filter(None, (error.what, error.fix)))
    )


Open = Callable[[str, Mapping[str, str]], Store]
"""Opens the store rooted at an `s3://` URI, with AWS' variables."""


class S3Stores:
    """Opens stores on S3; connections are kept, for making one takes longer than a request."""

    def __init__(self) -> None:
        self._connections: OrderedDict[frozenset[tuple[str, str]], S3Connection] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, uri: str, environment: Mapping[str, str]) -> Store:
        """Return the store rooted at `uri`.

        Raises:
            InvalidInput: the settings cannot be used.
        """
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        with self._lock:
            connection = self._connection(environment)
        return S3Store(connection, bucket, prefix)

    def _connection(self, environment: Mapping[str, str]) -> S3Connection:
        key = frozenset(environment.items())
        found = self._connections.pop(key, None)
        if found is None:
            access, secret = environment.get(_ACCESS_KEY), environment.get(_SECRET_KEY)
            handed = S3Credentials(access, secret, environment.get(_SESSION_TOKEN)) if access and secret else None
            found = S3Connection(S3Settings.from_environment(environment).for_a_controller(), handed)
        self._connections[key] = found
        while len(self._connections) > _CONNECTIONS:
            self._connections.popitem(last=False)
        return found


@dataclass(slots=True)
class JobStores:
    """Reads and deletes stored snapshots of jobs.

    Args:
        ambient: whether the controller's own credentials may be used for a job that names none. Then everybody who can
            create a StreamJob can read and delete with the controller's credentials.
        clock: seconds of a clock that never goes back.
    """

    cluster: Cluster
    open_store: Open = field(default_factory=S3Stores)
    ambient: bool = False
    clock: Callable[[], float] = time.monotonic
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _logins: dict[tuple[str, str], tuple[float, dict[str, str]]] = field(default_factory=dict, repr=False)

    def reach(self, uri: str, storage: Storage) -> Reach:
        """Return whether the objects at a URI can be read and deleted from here."""
        if not uri.startswith("s3://"):
            return Reach.VOLUME
        named = storage.credentials_secret_ref is not None or self.ambient
        return Reach.STORE if named else Reach.NO_CREDENTIALS

    async def log(self, namespace: str, name: str, location: str, storage: Storage) -> StoredLog:
        """Return the upper end of a job's log.

        Raises:
            StreamJobError: it cannot be read now, or not from here.
        """
        root = job_root(location, namespace, name)
        view = await self._drive(root, namespace, storage, lambda: read(JobId(namespace, name), checkpoints=1))
        return stored_log(view, root)

    async def manifest(self, namespace: str, uri: str, storage: Storage) -> Manifest:
        """Return the manifest at a URI.

        Raises:
            StreamJobError: it cannot be read now, or not from here.
        """
        directory, _, name = uri.rpartition("/")
        return await self._drive(f"{directory}/", namespace, storage, lambda: read_manifest(name))

    async def dispose(
        self, namespace: str, name: str, location: str, storage: Storage, attempt: int, now: float
    ) -> int:
        """Claim a job's log and delete the job's own snapshots; return how many objects that were.

        Raises:
            StreamJobError: not everything was deleted.
        """
        owner = Owner(uuid.uuid4().hex)
        return await self._drive(
            job_root(location, namespace, name),
            namespace,
            storage,
            lambda: dispose_job(JobId(namespace, name), owner, Attempt(attempt), now),
        )

    async def delete_savepoint(self, namespace: str, path: str, storage: Storage) -> int:
        """Delete the savepoint whose manifest is at `path`; return how many objects that were.

        Raises:
            NotDisposable: another job has claimed it, and is not known to be gone.
            StreamJobError: not everything was deleted.
        """
        directory = path.removesuffix(MANIFEST_NAME)
        claim = await self._drive(directory, namespace, storage, lambda: find_claim(directory, namespace))
        if claim is not None:
            why = await self.claimed(namespace, path, storage)
            if why is None:
                await self._drive(directory, namespace, storage, lambda: void_claim(claim, directory, namespace))
                # A claimant that read the old marker in the meantime is visible only now.
                why = await self.claimed(namespace, path, storage)
            if why is not None:
                raise NotDisposable(f"the savepoint at {directory} is not deleted: {why}", "end that job first")
        return await self._drive(directory, namespace, storage, lambda: delete_savepoint(directory, namespace))

    async def claimed(self, namespace: str, path: str, storage: Storage) -> str | None:
        """Return which other job needs the savepoint whose manifest is at `path`, and why; None for none.

        Raises:
            StreamJobError: the claim is unknown.
        """
        directory = path.removesuffix(MANIFEST_NAME)
        claim = await self._drive(directory, namespace, storage, lambda: find_claim(directory, namespace))
        if claim is None:
            return None
        why = await self._needed(claim, directory, namespace, storage)
        if why is not None:
            await self._drive(directory, namespace, storage, lambda: restore_claim(claim))
        return why

    async def _needed(self, claim: Marker, directory: str, namespace: str, storage: Storage) -> str | None:
        job = JobId(claim.namespace, claim.job)
        said = f"job {claim.namespace}/{claim.job} has claimed it to start from"
        try:
            # The controller may watch fewer namespaces than those that may have claimants.
            jobs = await self.cluster.list(STREAM_JOB, claim.namespace, metadata_only=True)
        except (Refused, NotFound) as error:
            return f"{said}, and whether there is such a StreamJob cannot be asked: {error.said}"
        if any(each["metadata"]["name"] == claim.job for each in jobs):
            return f"{said}, and there is a StreamJob of that name"
        root = f"{claim.root.rstrip('/')}/"
        try:
            why = await self._drive(root, namespace, storage, lambda: why_claimed(job, directory))
        except StreamJobError as error:
            return f"{said}, and whether it still does is not to be seen at {root}: {error.what}"
        return None if why is None else f"{said}, and its log at {root} may still need it: {why}"

    async def environment(self, namespace: str, storage: Storage) -> dict[str, str]:
        """Return the AWS variables for a StreamJob's storage.

        Raises:
            SecretMissing: the Secret that it names is not there, or lacks a key.
        """
        values: dict[str, str] = {}
        if storage.endpoint:
            values["AWS_ENDPOINT_URL"] = storage.endpoint
        if storage.region:
            values["AWS_REGION"] = storage.region
        if storage.path_style_access is not None:
            values[PATH_STYLE_VARIABLE] = "true" if storage.path_style_access else "false"
        if storage.credentials_secret_ref is not None:
            values |= await self._credentials(namespace, storage.credentials_secret_ref.name)
        return values

    async def check_credentials(self, namespace: str, storage: Storage) -> None:
        """Return normally if the Secret that a StreamJob's storage names, if any, was complete a minute ago or later.

        Raises:
            SecretMissing: it is not there, or lacks a key.
            ClusterError: it cannot be read.
        """
        if storage.credentials_secret_ref is not None:
            await self._credentials(namespace, storage.credentials_secret_ref.name, _CHECK_SECONDS)

    async def _credentials(self, namespace: str, name: str, age: float = _LOGIN_SECONDS) -> dict[str, str]:
        read, known = self._logins.get((namespace, name), (-math.inf, {}))
        if self.clock() < read + age:
            return known
        fix = f"Create it with the keys {_ACCESS_KEY} and {_SECRET_KEY}, or correct storage.credentialsSecretRef."
        try:
            data = (await self.cluster.get(SECRET, namespace, name)).get("data") or {}
        except NotFound:
            raise SecretMissing(f"there is no Secret {name} in namespace {namespace}", fix) from None
        found = {
            key: base64.b64decode(data[key]).decode().strip()
            for key in (_ACCESS_KEY, _SECRET_KEY, _SESSION_TOKEN)
            if data.get(key)
        }
        missing = [key for key in (_ACCESS_KEY, _SECRET_KEY) if not found.get(key)]
        if missing:
            raise SecretMissing(f"the Secret {name} in namespace {namespace} lacks {' and '.join(missing)}", fix)
        # Thousands of jobs may share one: it is read once in a while, and not for each look.
        self._logins[(namespace, name)] = self.clock(), found
        return found

    async def _drive(self, root: str, namespace: str, storage: Storage, program: Callable[[], Program[_T]]) -> _T:
        reach = self.reach(root, storage)
        if reach is Reach.VOLUME:
            raise NotInReach(f"{root} is a place in the driver's pod", "Keep snapshots on S3 to manage them from here.")
        if reach is Reach.NO_CREDENTIALS:
            raise NotInReach(
                f"there are no credentials for {root}, and the controller may not use its own",
                "Name a Secret in storage.credentialsSecretRef.",
            )
        environment = await self.environment(namespace, storage)

        def run() -> _T:
            return drive(self.open_store(root, environment), program())

        async with self._places:
            return await asyncio.to_thread(run)


def stored_log(view: LogView, root: str) -> StoredLog:
    """Return the part of a log that decisions need."""
    newest = view.newest
    completion = None
    if newest is not None and newest.id is not None and newest.manifest is not None:
        path = newest.manifest if is_uri(newest.manifest) else root + newest.manifest
        completion = Completion(
            id=newest.id, kind=newest.kind, path=path, epoch=newest.epoch, attempt=newest.attempt, time=newest.time
        )
    return StoredLog(attempt=view.attempt, newest=completion)
