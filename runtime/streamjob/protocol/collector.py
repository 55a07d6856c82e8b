"""Deletion: what no retained checkpoint refers to, by the owner of the log alone, and only after a completion.

First everything is classified, and nothing is deleted if a retained manifest cannot be read. Then the claim is checked.
It may be lost right after, with the list of deletions in hand; that does no harm, because the list holds nothing that
the newest checkpoint of the log refers to, nothing of a later epoch, and no later epoch builds on anything else
(`registry`). Manifests go before their files, so what has a manifest is whole.

After the first completion of an epoch the whole store is swept: crashed epochs and stopped owners leave garbage of
which nobody has a list. From then on the registry knows all there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from streamjob.errors import CannotRestore
from streamjob.ids import Key, LogSeq
from streamjob.protocol.manifests import read_manifest
from streamjob.protocol.ownership import Completion, IllegalStep, verify
from streamjob.protocol.registry import Registry
from streamjob.protocol.retention import prune_below, subsumed
from streamjob.snapshot import keys
from streamjob.snapshot.record import LogRecord
from streamjob.store.base import StoreError
from streamjob.store.effects import PAGE_SIZE, Program, delete, list_all, list_page


class CannotCollect(StoreError):
    """A retained manifest cannot be read, so nobody knows what it needs: nothing is deleted."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection deleted: checkpoints and shared files; `swept` says that the whole store was gone through."""

    subsumed: tuple[LogRecord, ...]
    manifests: frozenset[Key]
    files: frozenset[Key]
    swept: bool


@dataclass(frozen=True, slots=True)
class _Survey:
    manifests: frozenset[Key] = frozenset()
    files: frozenset[Key] = frozenset()


@final
class Collector:
    """Deletes in one epoch; one call at a time. It goes on where a failed call stopped.

    Args:
        registry: the epoch's; shared with the uploads, so under the same lock.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._swept = False
        self._manifests: set[Key] = set()
        self._files: set[Key] = set()
        self._pruned_below = LogSeq(0)

    def collect(self, completion: Completion, num_retained: int) -> Program[Collected]:
        """Delete what a completion made superfluous, and prune the log.

        Args:
            completion: the permit; the latest completion of this epoch, or an earlier one.
            num_retained: how many checkpoints are retained.

        Raises:
            Superseded: another owner holds the log; nothing was deleted in this call.
            CannotCollect: a retained manifest cannot be read; nothing was deleted in this call.
            StoreUnavailable, StoreDenied: not everything was deleted; the next call goes on.
        """
        held, registry = completion.claim, self._registry
        if held.epoch != registry.epoch:
            raise IllegalStep(f"the registry of epoch {registry.epoch} cannot tell what epoch {held.epoch} needs")
        held.check_held()
        swept = not self._swept
        survey = _Survey()
        if swept:
            yield from self._learn_retained(completion, num_retained)
            survey = yield from _list_objects()

        # No effect from here to the end of the classification: what uploads and completions do meanwhile counts.
        dropped = subsumed(held.retained, num_retained)
        held.give_up(dropped)
        freed = registry.subsume(record.id for record in dropped if record.id is not None)
        retained = {record.manifest for record in held.retained}
        self._manifests |= {Key(record.manifest) for record in dropped if record.manifest is not None}
        self._manifests |= registry.take_stray_manifests()
        self._manifests |= {key for key in survey.manifests if key not in retained and self._is_garbage(key)}
        self._files |= registry.condemn(freed | survey.files)
        self._swept = True

        manifests, files = frozenset(self._manifests), frozenset(self._files)
        if manifests or files or prune_below(held) > self._pruned_below:
            yield from verify(held)
            yield from _delete_in_order(manifests)
            self._manifests -= manifests
            yield from _delete_in_order(files)
            self._files -= files
            yield from self._prune(completion)
        return Collected(dropped, manifests, files, swept)

    def _learn_retained(self, completion: Completion, num_retained: int) -> Program[None]:
        for record in completion.claim.retained[-num_retained:]:
            assert record.id is not None
            assert record.manifest is not None
            if self._registry.knows(record.id):
                continue
            try:
                manifest = yield from read_manifest(record.manifest)
            except CannotRestore as error:
                raise CannotCollect(
                    f"nothing is deleted: checkpoint {record.id} is retained, and {error.what}",
                    "it is subsumed by later checkpoints, and deletion goes on then",
                ) from error
            self._registry.adopt(manifest, reusable=False)

    def _is_garbage(self, key: Key) -> bool:
        ids = keys.manifest_ids(key)
        if ids is None:
            return False
        epoch, checkpoint = ids
        return epoch < self._registry.epoch or (
            epoch == self._registry.epoch and not self._registry.is_pending(checkpoint)
        )

    def _prune(self, completion: Completion) -> Program[None]:
        below = prune_below(completion.claim)
        if below <= self._pruned_below:
            return
        after = ""
        more = True
        while more:
            page = yield from list_page(keys.LOG_PREFIX, after)
            doomed = [info.key for info in page.objects if (seq := keys.log_seq(info.key)) is not None and seq < below]
            yield from delete(tuple(doomed))
            more = page.more and len(doomed) == len(page.objects)
            after = page.objects[-1].key if page.objects else after
        self._pruned_below = below


def _list_objects() -> Program[_Survey]:
    files = yield from list_all(keys.SHARED_PREFIX)
    manifests = yield from list_all(keys.CHECKPOINTS_PREFIX)
    return _Survey(frozenset(info.key for info in manifests), frozenset(info.key for info in files))


def _delete_in_order(doomed: frozenset[Key]) -> Program[None]:
    ordered = sorted(doomed)
    for start in range(0, len(ordered), PAGE_SIZE):
        yield from delete(tuple(ordered[start : start + PAGE_SIZE]))
