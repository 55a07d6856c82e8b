"""Values as JSON, without Spark; pure."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any


def exact_number(text: str) -> float | str:
    """Return a number with digits after the point, as JSON values have it; as text if a float would lose digits."""
    number = float(text)
    return number if math.isfinite(number) and Decimal(repr(number)) == Decimal(text) else text


def json_value(value: Any) -> Any:
    """Return a value of an Arrow table as Spark writes it to JSON."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(json.dumps(value))
        case Decimal():
            return exact_number(str(value))
        case datetime():
            text = value.isoformat(timespec="microseconds")
            return f"{text.removesuffix('+00:00')}Z" if text.endswith("+00:00") else text
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return {name: json_value(each) for name, each in value.items()}
        case [*pairs] if pairs and all(isinstance(each, tuple) for each in pairs):
            return {str(json_value(key)): json_value(each) for key, each in pairs}
        case [*_]:
            return [json_value(each) for each in value]
    return str(value)
