"""Committables as they come back from a snapshot."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from streamjob_runtime.sinks.errors import UnreadableCommittable

_Model = TypeVar("_Model", bound=BaseModel)


def read_committable(model: type[_Model], committable: JsonValue, sink: str) -> _Model:
    """Return a committable of a snapshot.

    Args:
        model: its form.
        committable: as it is stored.
        sink: what to call the sink in a message.

    Raises:
        UnreadableCommittable: it has another form.
    """
    try:
        return model.model_validate(committable)
    except ValidationError as error:
        raise UnreadableCommittable(
            f"{sink}: a committable of the snapshot cannot be read: {error}",
            "start from a snapshot that this version or an older one wrote for this sink",
        ) from error
