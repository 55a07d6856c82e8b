"""The publication lock of a job, and what it guards."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from streamjob.protocol.cuts import Publications


@dataclass(frozen=True)
class Publication:
    """One lock for the whole job: whoever publishes a batch or cuts the chains holds it."""

    publications: Publications
    lock: threading.Lock = field(default_factory=threading.Lock)
