"""References in the text of a job: `${env:NAME}` to the environment where it runs, `${var:name}` to a `--var`.

Either may have a default, for a name that is not set or empty: `${env:NAME:-text}`. A default may hold references.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_NAMES = {"env": r"[A-Za-z_][A-Za-z0-9_]*", "var": r"[A-Za-z_][A-Za-z0-9_.-]*"}
_DEFAULT = r"(?::-(?P<default>(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*))?"
_REFERENCES = {kind: re.compile(rf"\$\{{{kind}:(?P<name>{name}){_DEFAULT}\}}") for kind, name in _NAMES.items()}

ENVIRONMENT = "env"
VARIABLE = "var"


class Unset(Exception):
    """A reference without a default names something that is not set; `name` is that name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def replaced(text: str, kind: str, look_up: Callable[[str], str | None]) -> str:
    """Return a text with its references replaced.

    Args:
        text: with references.
        kind: `ENVIRONMENT` or `VARIABLE`; references of the other kind stay as they are.
        look_up: returns the value of a name, or None if it is not set.

    Raises:
        Unset: a name is not set, and its reference has no default.
    """

    def value(match: re.Match[str]) -> str:
        found, default = look_up(match["name"]), match["default"]
        # As in a shell, the default also replaces an empty value.
        if default is not None and not found:
            return replaced(default, kind, look_up)
        if found is None:
            raise Unset(match["name"])
        return found

    return _REFERENCES[kind].sub(value, text)


def names_in(text: str, kind: str) -> Iterator[str]:
    """Yield the names that a text refers to, those in defaults included."""
    for match in _REFERENCES[kind].finditer(text):
        yield match["name"]
        yield from names_in(match["default"] or "", kind)


def unset_in(text: str, kind: str, look_up: Callable[[str], str | None]) -> Iterator[str]:
    """Yield the names that keep `replaced` from replacing the references of a text."""
    for match in _REFERENCES[kind].finditer(text):
        found, default = look_up(match["name"]), match["default"]
        if default is not None and not found:
            yield from unset_in(default, kind, look_up)
        elif found is None:
            yield match["name"]


def is_reference(text: str, kind: str) -> bool:
    """Return whether a text is one reference and nothing else."""
    return _REFERENCES[kind].fullmatch(text) is not None


def is_malformed(text: str, kind: str) -> bool:
    """Return whether a text contains the beginning of a reference that is not a complete one."""
    return f"${{{kind}:" in _REFERENCES[kind].sub("", text)


def has_default(text: str, kind: str) -> bool:
    """Return whether a reference in a text has a default that is not empty."""
    return _REFERENCES[kind].sub("", text) != _by_default(text, kind)


def without_defaults(text: str, kind: str) -> str:
    """Return a text with each reference replaced by its default, or by `${env:}` if that is empty or missing."""
    return _REFERENCES[kind].sub(lambda match: _by_default(match["default"] or "", kind) or f"${{{kind}:}}", text)


def _by_default(text: str, kind: str) -> str:
    return replaced(text, kind, lambda _name: "")
