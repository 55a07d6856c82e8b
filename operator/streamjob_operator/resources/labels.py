"""The labels by which the pods of a StreamJob are found."""

from __future__ import annotations

from typing import Final

from streamjob_operator.resources.base import GROUP

UID_LABEL: Final = f"{GROUP}/uid"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"

DRIVER: Final = "driver"
EXECUTOR: Final = "executor"
PREFLIGHT: Final = "preflight"
"""The components of a job."""
