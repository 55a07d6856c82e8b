"""The messages between the agents of executors and the driver, as JSON over HTTP."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from streamjob.ids import ChainUid
from streamjob.snapshot.manifest import FileRef
from streamjob_runtime.checkpointing.upload.uploader import UploadStatistics
from streamjob_runtime.spark.checkpoint_dir.files import StoreVersion

PREFIX = "/v1/agents/"
NAME_HEADER = "streamjob-executor"
INSTANCE_HEADER = "streamjob-instance"
COUNT_HEADER = "streamjob-count"
SIGNATURE_HEADER = "streamjob-signature"
LEAVE = "leave"
"""The kind of the command that lets an executor go."""
PROFILE = "profile"
"""The kind of the command that asks for a profile."""
COUNTING_SECONDS = 60.0
"""How long Java may need to count the samples of a profile."""
POLL_SECONDS = 20.0
"""How long the driver holds back the answer to an agent that asks for commands while there are none."""
CONNECTIONS = 8
"""The most connections that an agent has to its driver at a time."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Attempt(_Message):
    """The driver's attempt; anybody may ask for it, and only who knows the secret can use it."""

    attempt: str


class Registration(_Message):
    """An executor offers itself: its cores, the address at which others reach it, and its build."""

    address: str
    cores: int
    build: dict[str, str]


class Welcome(_Message):
    """The driver takes an executor.

    Args:
        executor: its number in Spark.
        driver_url: the address of Spark's driver.
        application: Spark's id of the job.
        java_options: options that its Java needs.
        store: the URI of the job's root in its store.
        job: its name, namespace and attempt, for the log.
    """

    executor: str
    driver_url: str
    application: str
    java_options: tuple[str, ...]
    store: str
    job: dict[str, str | int] = {}


class Command(_Message):
    """Something that the agent has to do; `id` names it in the answer."""

    id: str
    kind: str
    body: dict[str, Any] = {}


class Poll(_Message):
    """An agent asks for commands."""

    executor: str
    registered: bool


class Commands(_Message):
    """The commands for an agent, and whether Spark has registered its executor."""

    commands: tuple[Command, ...] = ()
    registered: bool = False


class Done(_Message):
    """The result of a command; `error` says in words why it failed, None if it did not."""

    executor: str
    command: str
    error: str | None = None
    body: dict[str, Any] = {}


class Leave(_Message):
    """An executor ends, for a reason in words."""

    executor: str
    reason: str


class Drain(_Message):
    """An executor is to end, and waits for the command `leave`, so that its state can move to others first."""

    executor: str


class Store(_Message):
    """The directory of a state store, as a path of `job:/…`, and the executor that opens it."""

    executor: str
    directory: str


class Adoption(_Message):
    """The files that an executor brings before it opens a state store.

    Args:
        home: the URI of the store from which relative references start.
        chain: the chain of the snapshot whose files they are; holds have them below its name.
    """

    home: str
    chain: str
    files: tuple[FileRef, ...]


class HoldStores(_Message):
    """The driver asks for the files of a chain's cut, in the store.

    Args:
        transfer: names the upload in questions to the driver.
        store: the URI of the store for the files.
        batch: the batch of the cut.
        segments: names of kept segments of channels, by the chain that wrote them.
    """

    transfer: str
    store: str
    epoch: int
    checkpoint: int
    chain: str
    batch: int
    stores: tuple[StoreVersion, ...]
    segments: dict[ChainUid, tuple[str, ...]] = {}


class KeepSegments(_Message):
    """The driver asks to hold segments in flight of a chain's cut, until it asks for them in the store.

    Args:
        chain: the chain that stores them.
        segments: their names, by the chain that wrote them.
    """

    epoch: int
    checkpoint: int
    chain: str
    segments: dict[ChainUid, tuple[str, ...]]


class DropSegments(_Message):
    """Segments that nobody needs any more: their names, by the chain that wrote them."""

    epoch: int
    segments: dict[ChainUid, tuple[str, ...]]


class SegmentAsked(_Message):
    """A segment that an executor is to read and does not have, as a path of `job:/…`."""

    executor: str
    path: str


class SegmentSource(_Message):
    """Where an executor gets a segment.

    Args:
        home: the URI of the store from which relative references start.
        holders: the chains whose holds may have it.
        file: the file in the store.
    """

    home: str
    holders: tuple[ChainUid, ...]
    file: FileRef


class ShareSegment(_Message):
    """The driver asks for a segment in the store, because another executor reads it; a path of `job:/…`."""

    path: str


class Lend(_Message):
    """An agent asks for the key of an object that another executor reads, given the SHA-256 of its content."""

    executor: str
    sha256: str


class Stored(_Message):
    """The files of a cut in the manifest's form, and the work that it took."""

    files: tuple[FileRef, ...]
    statistics: UploadStatistics


class Known(_Message):
    """An agent asks which files of an upload are in the store already."""

    executor: str
    transfer: str
    identities: tuple[str, ...]


class KnownFiles(_Message):
    """Files that are in the store, by the number of their identity in the question."""

    files: dict[int, FileRef]


class Allocate(_Message):
    """An agent asks for the key of a new object, given the SHA-256 of its content."""

    executor: str
    transfer: str
    sha256: str


class Allocated(_Message):
    """The key of a new object."""

    key: str


class HeldCheckpoint(_Message):
    """A checkpoint whose files an agent has to keep, or to drop."""

    epoch: int
    checkpoint: int


class Holdings(_Message):
    """The partitions of which an agent holds files, by chain."""

    partitions: dict[str, tuple[int, ...]]


class HasFiles(_Message):
    """Files of snapshots by the chain that stored them: the question which of them an agent holds, and the answer."""

    files: dict[ChainUid, tuple[str, ...]]


class Profile(_Message):
    """The driver asks for a profile of an executor, of so many seconds."""

    seconds: float


class Profiled(_Message):
    """Where an executor's Java and its agent spend their CPU time, as lines of stacks."""

    java: str
    python: str


class Nothing(_Message):
    """An empty answer."""


class Refusal(_Message):
    """Why the driver refuses a request; `attempt` is the driver's, which may have changed."""

    error: str
    attempt: str
