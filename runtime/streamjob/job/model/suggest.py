"""Suggests the intended name for an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to `name`, or None if none is close; ignores case, `_` and `-`."""
    plain = {_plain(each): each for each in known}
    close = get_close_matches(_plain(name), plain, n=1, cutoff=0.6)
    return plain[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str], kind: str) -> str:
    """Return the advice for an unknown name.

    Args:
        name: the name in the file.
        known: the valid names.
        kind: the kind of name, in the plural: `formats`, `inputs`.
    """
    names = list(known)
    if (match := nearest(name, names)) is not None:
        return f"did you mean {match!r}?"
    return f"the {kind} are {', '.join(sorted(names))}" if names else f"there are no {kind}"


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
