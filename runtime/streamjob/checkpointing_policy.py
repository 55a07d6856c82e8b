"""The part of the checkpointing policy that can change while the job runs, declared once.

The job file, the StreamJob resource, the control API and the coordinator derive their models from it, so a field that
is added here exists in all of them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from streamjob.durations import Seconds
from streamjob.figures import Figure, Unit

CheckpointingMode = Literal["aligned", "unaligned"]


class LiveCheckpointingPolicy(BaseModel):
    """When and how checkpoints are taken, and how many are retained; times in seconds.

    Raises:
        ValidationError: a value is outside its range; it is a ValueError.
    """

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    interval: Annotated[Seconds | None, Figure("checkpoint_interval_seconds", Unit.SECONDS)] = Field(
        default=10.0, ge=0.1, description="Time from one periodic checkpoint to the next."
    )
    timeout: Seconds = Field(default=600.0, gt=0, description="A checkpoint that takes longer is aborted.")
    min_pause: Seconds = Field(
        default=0.0, ge=0, description="Minimum time from a completed checkpoint to the next periodic one."
    )
    mode: CheckpointingMode = Field(
        default="aligned",
        description="`aligned`: barriers wait for each other, and no data is in flight. `unaligned`: in-flight data "
        "is part of the checkpoint.",
    )
    aligned_checkpoint_timeout: Seconds | None = Field(
        default=None,
        ge=0,
        description="An aligned checkpoint becomes unaligned if some chain has not cut within this time after the "
        "trigger.",
    )
    tolerable_failed_checkpoints: int = Field(
        default=10, ge=0, description="Number of failed checkpoints in a row that the job tolerates."
    )
    num_retained: int = Field(default=3, ge=1, description="Number of completed checkpoints to keep.")
