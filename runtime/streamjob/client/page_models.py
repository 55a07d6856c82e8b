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
    "rows-dropped-late",
    "times-ahead",
    "watermark-held-back",
    "files-changed",
    "rewriting",
    "migrating",
    "replaying",
    "restoring",
    "starting",
    "waiting",
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


class ChainPoint(View):
    """A chain at a moment of the past; null for figures that were not known."""

    busy: float | None = None
    backpressured: float | None = None
    rows_per_second: float | None = Field(default=None, description="Records read per second.")
    batch_seconds: float | None = Field(default=None, description="Duration of the last batch.")


class HistoryPoint(View):
    """A job at a moment of the past; null for figures that were not known."""

    at: float
    lag_records: float | None = Field(default=None, description="Unread records of all sources.")
    lag_seconds: float | None = Field(default=None, description="The largest lag of a source.")
    rows_per_second: float | None = Field(default=None, description="Records read from sources per second.")
    batch_seconds: float | None = Field(default=None, description="The longest of the chains' last batches.")
    checkpoint_age_seconds: float | None = Field(default=None, description="Age of the last checkpoint.")
    chains: dict[ChainUid, ChainPoint] = Field(default_factory=dict)


class HistoryView(View):
    """The figures of the last hour, as far as the process has run, oldest first."""

    interval_seconds: float = Field(description="Seconds from one point to the next.")
    points: tuple[HistoryPoint, ...]


EventKind = Literal["state", "restart", "checkpoint", "request", "input"]
EventWeight = Literal["routine", "notable", "bad"]


class EventView(View):
    """Something that happened in a job."""

    id: int = Field(description="Number of the event in this process, from 1.")
    at: float
    kind: EventKind
    weight: EventWeight = Field(description="Its importance for a person.")
    sentence: str
    details: dict[str, str | int | float | None] = Field(
        default_factory=dict, description="More about it, such as the whole error (`text`) or the id of a checkpoint."
    )


class EventsView(View):
    """The latest events of this process, newest first."""

    events: tuple[EventView, ...]
