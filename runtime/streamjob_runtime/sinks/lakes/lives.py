"""Names of a sink's lives; pure.

A life is one opening of a sink: an epoch and a random name. It numbers the batches that it stages. A checkpoint always
covers all of them up to some number, so one number per life shows which batches are committed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from streamjob.ids import Epoch

_NAME = re.compile(r"(\d+)-([0-9a-f]{16})")


@dataclass(frozen=True, slots=True, order=True)
class Life:
    """One opening of a sink: its epoch, and 16 random hexadecimal digits."""

    epoch: Epoch
    distinction: str

    def __str__(self) -> str:
        return f"{self.epoch}-{self.distinction}"


def life_of(name: str) -> Life | None:
    """Return the life with a name; None if it is not such a name."""
    match = _NAME.fullmatch(name)
    return Life(Epoch(int(match[1])), match[2]) if match else None
