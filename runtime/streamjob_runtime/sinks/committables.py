"""Parses committables from a snapshot."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from streamjob_runtime.sinks.errors import UnreadableCommittable

_Model = TypeVar("_Model", bound=BaseModel)


def read_committable(model: type[_Model], committable: JsonValue, sink: str) -> _Model:
    """Return a committable of a snapshot.

    Args:
        model: the model of the committable.
        committable: its stored form.
        sink: the sink's name in messages.

    Raises:
        UnreadableCommittable: it has an unknown form.
    """
    try:
        return model.model_validate(committable)
    except ValidationError as error:
        raise UnreadableCommittable(
            f"{sink}: a committable of the snapshot cannot be read: {error}",
            "start from a snapshot that this version or an older one wrote for this sink",
        ) from error
