"""JSON as Go writes it, so that the API server finds the bytes of an object unchanged when it writes them again.

The API server compares the data of a ControllerRevision byte by byte, and refuses a patch of its metadata if they
differ. Its patches go through Go's `encoding/json`: compact, keys sorted, and some characters escaped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

_ESCAPES = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
_INTEGERS = range(-(2**63), 2**63)
_LEAST_PLAIN, _LEAST_HUGE = 1e-6, 1e21


def canonical(value: Any) -> str:
    """Return a JSON value as the API server writes it.

    Args:
        value: of mappings with strings for keys, lists, strings, numbers, booleans and None. An integer beyond 64 bits
            becomes the nearest float, as it does in the API server.

    Raises:
        ValueError: it has a number that JSON cannot hold: infinite, not a number, or beyond the largest float.
    """
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts)


async def send_canonically(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Write the body of a request that creates an object in the canonical form; the client's library adds spaces."""
    if request.method == "POST" and request.body:
        sent = json.loads(await request.body.as_bytes())
        await request.update_body(canonical(sent).encode())
    return await handler(request)


def _write(value: Any, parts: list[str]) -> None:
    if isinstance(value, Mapping):
        before = "{"
        # Code points have the order of UTF-8, which is Go's.
        for key in sorted(value):
            parts += (before, _string(key), ":")
            _write(value[key], parts)
            before = ","
        parts.append("}" if value else "{}")
    elif isinstance(value, list | tuple):
        before = "["
        for each in value:
            parts.append(before)
            _write(each, parts)
            before = ","
        parts.append("]" if value else "[]")
    elif isinstance(value, str):
        parts.append(_string(value))
    elif value is None or isinstance(value, bool):
        parts.append(json.dumps(value))
    else:
        parts.append(_number(value))


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).translate(_ESCAPES)


def _number(number: float) -> str:
    if isinstance(number, int) and number in _INTEGERS:
        return str(number)
    try:
        shortest = float(number)
    except OverflowError:
        shortest = math.inf
    if not math.isfinite(shortest):
        raise ValueError(f"JSON has no number {shortest}")
    if shortest == 0:
        # Read back, -0 is the integer 0.
        return "0"
    if _LEAST_PLAIN <= abs(shortest) < _LEAST_HUGE:
        return f"{Decimal(repr(shortest)):f}".removesuffix(".0")
    return repr(shortest).replace("e-0", "e-")
