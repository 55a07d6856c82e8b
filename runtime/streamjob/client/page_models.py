"""The control API's models for the page of a job: what is wrong with it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from streamjob.client.chain_models import View
from streamjob.ids import ChainUid, OperatorUid

Severity = Literal["ok", "attention", "critical"]

ReasonCode = Literal[
    "failed",
    "superseded",
    "restart-loop",
    "restarting",
    "checkpoints-failing",
    "checkpoint-old",
    "store-errors",
    "behind",
    "sink-not-publishing",
    "watermark-held-back",
    "rewriting",
    "restoring",
    "starting",
    "finishing",
    "stopping",
    "finished",
    "stopped",
    "all-well",
]
"""The codes of reasons; of two equally severe reasons, the earlier one counts more."""


class Reason(View):
    """One finding about a job."""

    code: ReasonCode
    severity: Severity
    sentence: str
    chain: ChainUid | None = Field(default=None, description="The chain that it concerns; null for the whole job.")
    sink: OperatorUid | None = Field(default=None, description="The sink that it concerns; null for none.")
    source: OperatorUid | None = Field(default=None, description="The source that it concerns; null for none.")


class Diagnosis(View):
    """The condition of a job in one sentence, and all findings, the most severe first."""

    severity: Severity
    sentence: str = Field(description="The sentence of the first reason.")
    reasons: tuple[Reason, ...]
