"""The registry of shared files: objects that new checkpoints may refer to, and objects that must not be deleted.

A stored file is referred to instead of uploaded again, but only if it certainly stays. A former owner may have been
stopped while it held a list of deletions. That list was made for its last completion. So it certainly spares only what
the newest checkpoint of the log refers to. Hence a new epoch builds on the newest checkpoint of the log and on
checkpoints of its own, and on nothing else.

A deletion may also take effect late, inside the store. Hence a key that was given up is never written again: the same
content gets the next generation of its key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamjob.ids import CheckpointId, Epoch, Key
from streamjob.protocol.log.ownership import IllegalStep
from streamjob.protocol.manifests.stored_manifests import is_uri
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import Manifest

REMEMBERED = 100_000
"""Number of given-up contents that are remembered one by one; beyond it, all further keys use the next generation."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where the bytes of a file are: from `offset` in the shared file `object`."""

    object: Key
    offset: int


class Registry:
    """The shared files of one epoch.

    Objects handed to a pending checkpoint are protected until the checkpoint completes or is aborted. Not safe for
    threads by itself: hold one lock for all calls, and pass it as `guard` to `drive` for the programs that share it.

    Args:
        remembered: see REMEMBERED.
    """

    def __init__(self, epoch: Epoch, *, remembered: int = REMEMBERED) -> None:
        self._epoch = epoch
        self._pending: dict[CheckpointId, set[Key]] = {}
        self._retained: dict[CheckpointId, frozenset[Key]] = {}
        self._reusable: dict[CheckpointId, dict[tuple[str, int], Location]] = {}
        self._claimed: set[Key] = set()
        self._orphans: set[Key] = set()
        self._stray_manifests: set[Key] = set()
        self._allocated: dict[Key, str] = {}
        self._generations: dict[str, int] = {}
        self._base_generation = 0
        self._remembered = remembered

    @property
    def epoch(self) -> Epoch:
        """The epoch whose files these are."""
        return self._epoch

    def begin(self, checkpoint: CheckpointId) -> None:
        """Register a pending checkpoint of this epoch. Raises IllegalStep if it is or was pending."""
        if checkpoint in self._pending or checkpoint in self._retained:
            raise IllegalStep(f"checkpoint {checkpoint} has begun already")
        self._pending[checkpoint] = set()

    def reuse(self, checkpoint: CheckpointId, sha256: str, length: int) -> Location | None:
        """Return where a file's content is stored already, or None if it must be uploaded."""
        pins = self._pins(checkpoint)
        for known in reversed(self._reusable.values()):
            location = known.get((sha256, length))
            if location is not None:
                pins.add(location.object)
                return location
        return None

    def allocate(self, checkpoint: CheckpointId, sha256: str) -> Key:
        """Return the key to upload an object to; the same for the same content, as long as it may be written."""
        key = self._key(sha256)
        self._pins(checkpoint).add(key)
        return key

    def lend(self, sha256: str) -> Key:
        """Return the key to upload an object to that another process reads; it is protected until the epoch ends."""
        key = self._key(sha256)
        self._claimed.add(key)
        return key

    def _key(self, sha256: str) -> Key:
        key = keys.shared_file(self._epoch, sha256, self._generations.get(sha256, self._base_generation))
        self._allocated[key] = sha256
        return key

    def check_protected(self, manifest: Manifest) -> None:
        """Raise IllegalStep if a manifest refers to an object that was not given to its pending checkpoint."""
        loose = set(manifest.objects()) - self._pins(manifest.id)
        if loose:
            raise IllegalStep(f"checkpoint {manifest.id} refers to objects that nothing protects: {sorted(loose)}")

    def completed(self, manifest: Manifest) -> None:
        """Record that the log names a checkpoint of this epoch: its files are retained, and may be referred to."""
        pins = self._pins(manifest.id)
        del self._pending[manifest.id]
        if manifest.kind != "savepoint":
            self.adopt(manifest, reusable=True)
        self._orphans |= pins

    def aborted(self, checkpoint: CheckpointId) -> None:
        """Record that the log does not name a checkpoint and never will; not for one with unknown outcome."""
        self._orphans |= self._pins(checkpoint)
        self._stray_manifests.add(keys.manifest(self._epoch, checkpoint))
        del self._pending[checkpoint]

    def adopt(self, manifest: Manifest, *, reusable: bool) -> None:
        """Protect a retained checkpoint.

        Args:
            reusable: whether new checkpoints may refer to its files: for one of this epoch, and for the newest of the
                log if the job was restored from it.
        """
        self._retained[manifest.id] = frozenset(own_key(name) for name in manifest.objects())
        if reusable:
            self._reusable[manifest.id] = {
                (file.sha256, file.length): Location(Key(file.object), file.offset)
                for file in manifest.files()
                if keys.shared_epoch(Key(file.object)) is not None
            }

    def spare(self, manifest: Manifest) -> None:
        """Protect, for the rest of the epoch, the objects of a checkpoint that another job has claimed."""
        self._claimed |= {own_key(name) for name in manifest.objects()}

    def knows(self, checkpoint: CheckpointId) -> bool:
        """Return whether the registry protects a retained checkpoint."""
        return checkpoint in self._retained

    def is_pending(self, checkpoint: CheckpointId) -> bool:
        """Return whether a checkpoint of this epoch has begun and neither completed nor been aborted."""
        return checkpoint in self._pending

    def needed(self) -> frozenset[Key]:
        """Return the protected objects: those of retained and pending checkpoints, and of claimed ones."""
        return frozenset(self._claimed.union(*self._retained.values(), *self._pending.values()))

    def subsume(self, checkpoints: Iterable[CheckpointId]) -> frozenset[Key]:
        """Stop protecting checkpoints; return the objects that they referred to."""
        freed: set[Key] = set()
        for checkpoint in checkpoints:
            freed |= self._retained.pop(checkpoint, frozenset())
            self._reusable.pop(checkpoint, None)
        return frozenset(freed)

    def condemn(self, candidates: Iterable[Key]) -> frozenset[Key]:
        """Give up the candidates, and leftovers of earlier checkpoints, that nothing needs; return them.

        None of them is offered for use again. Objects of later epochs, and objects that are not shared files, are
        spared.
        """
        needed = self.needed()
        doomed = frozenset(key for key in {*candidates, *self._orphans} if key not in needed and self._may_delete(key))
        self._orphans.clear()
        for key in doomed:
            sha256 = self._allocated.pop(key, None)
            if sha256 is not None:
                self._generations[sha256] = self._generations.get(sha256, self._base_generation) + 1
        if len(self._generations) > self._remembered:
            self._base_generation = max(self._generations.values())
            self._generations.clear()
        return doomed

    def take_stray_manifests(self) -> frozenset[Key]:
        """Return the manifests that aborted checkpoints may have left, once."""
        strays = frozenset(self._stray_manifests)
        self._stray_manifests.clear()
        return strays

    def _may_delete(self, key: Key) -> bool:
        epoch = keys.shared_epoch(key)
        return epoch is not None and epoch <= self._epoch

    def _pins(self, checkpoint: CheckpointId) -> set[Key]:
        try:
            return self._pending[checkpoint]
        except KeyError:
            raise IllegalStep(f"checkpoint {checkpoint} is not pending") from None


def own_key(reference: str) -> Key:
    """Return the key below the job's root for a reference to an object, in any spelling.

    A URI counts as one of the job's own shared files if it ends like one: rather too much is protected than too little.
    """
    at = reference.rfind("/" + keys.SHARED_PREFIX)
    return Key(reference[at + 1 :] if is_uri(reference) and at >= 0 else reference)
