"""Brings the files of a cut into the store: incremental, packed, asynchronous."""

from streamjob_runtime.upload.packing import HeldFile, Identity, UploadPlan, known_files, plan_upload
from streamjob_runtime.upload.uploader import (
    Progress,
    UploadCancelled,
    Uploader,
    UploadStatistics,
    held_files,
    shared_key,
)

__all__ = [
    "HeldFile",
    "Identity",
    "Progress",
    "UploadCancelled",
    "UploadPlan",
    "UploadStatistics",
    "Uploader",
    "held_files",
    "known_files",
    "plan_upload",
    "shared_key",
]
