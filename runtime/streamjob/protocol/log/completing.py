"""Completing a checkpoint: its manifest, then its record in the log."""

from __future__ import annotations

from streamjob.protocol.log.ownership import Claim, Completion, IllegalStep, complete
from streamjob.protocol.log.registry import Registry
from streamjob.protocol.manifests.stored_manifests import NamedManifest, encode_manifest
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import RecordKind
from streamjob.store.effects import Program, put


def complete_snapshot(
    claim: Claim,
    registry: Registry,
    manifest: Manifest,
    now: float,
    *,
    savepoint_uri: str | None = None,
) -> Program[Completion]:
    """Write a checkpoint's manifest and make the log name it; everything that it refers to must be in the store.

    Args:
        manifest: of a checkpoint that has begun in the registry and refers only to objects from it.
        now: seconds since 1970.
        savepoint_uri: for a savepoint, where the caller has written its manifest as `encode_manifest` returns it.

    Raises:
        Superseded: another owner holds the log, now and for ever.
        OutcomeUnknown: whether the checkpoint is completed is unknown. Do not abort it in the registry; call again with
            the same manifest, which is not written again, or end the epoch.
        StoreUnavailable, StoreDenied: it is not completed and never will be: abort it in the registry.
        IllegalStep: the manifest is not this epoch's, or refers to objects that may be deleted; or see `complete`.
    """
    owner = (claim.identity.job.name, claim.identity.job.namespace, claim.epoch)
    if (manifest.job, manifest.namespace, manifest.epoch) != owner:
        raise IllegalStep(f"the manifest of {manifest.kind} {manifest.id} is not one of {claim!r}")
    kind = RecordKind(manifest.kind)
    claim.check_held()
    content = encode_manifest(manifest)
    if kind is RecordKind.SAVEPOINT:
        if savepoint_uri is None:
            raise IllegalStep(f"savepoint {manifest.id} has no place")
        reference = savepoint_uri
    else:
        reference = key = keys.manifest(manifest.epoch, manifest.id)
        # After a record that may exist, a successor may have deleted the manifest; it must not be created again.
        if not claim.may_name(manifest.id):
            registry.check_protected(manifest)
            yield from put(key, content)
    completion = yield from complete(claim, kind, manifest.id, NamedManifest.of(reference, content), now)
    registry.completed(manifest)
    return completion
