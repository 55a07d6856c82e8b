"""Uploads the files of a cut: incrementally, in packs, asynchronously."""

from streamjob_runtime.checkpointing.upload.packing import (
    HeldFile,
    Identity,
    UploadPlan,
    known_files,
    pieces,
    plan_upload,
)
from streamjob_runtime.checkpointing.upload.repacking import packs_of, packs_to_rewrite
from streamjob_runtime.checkpointing.upload.uploader import (
    HeldFileChanged,
    Progress,
    UploadCancelled,
    Uploader,
    UploadStatistics,
    held_files,
    shared_key,
)

__all__ = [
    "HeldFile",
    "HeldFileChanged",
    "Identity",
    "Progress",
    "UploadCancelled",
    "UploadPlan",
    "UploadStatistics",
    "Uploader",
    "held_files",
    "known_files",
    "packs_of",
    "packs_to_rewrite",
    "pieces",
    "plan_upload",
    "shared_key",
]
