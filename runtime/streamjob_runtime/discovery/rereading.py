"""Checks that the objects of a batch are still those that it was to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamjob_runtime.discovery.objects import Found, Lister

_BELOW_SURROGATES, _ABOVE_SURROGATES = 0xD7FF, 0xE000


def changed_since(lister: Lister, read: Iterable[Found], stopped: Callable[[], bool] = lambda: False) -> Found | None:
    """Return the first of the objects that a batch has read which is another one now, or gone; None without one.

    A page of a listing tells the version of many objects.

    Args:
        read: the objects of a batch, as they were found.
        stopped: whether the answer does not matter any more.
    """
    wanted = {each.key: each for each in read}
    keys = sorted(wanted, key=lambda key: key.encode("utf-8", "surrogatepass"))
    there: dict[str, Found] = {}
    for key in keys:
        if stopped():
            return None
        if key in there:
            continue
        end: str | None = _before(key)
        while end is not None and end.encode("utf-8", "surrogatepass") < key.encode("utf-8", "surrogatepass"):
            page = lister.page(end)
            there |= {each.key: each for each in page.objects if each.key in wanted}
            end = page.end
    for key in keys:
        now = there.get(key)
        if now is None or (now.version, now.size) != (wanted[key].version, wanted[key].size):
            return wanted[key]
    return None


def _before(key: str) -> str:
    """Return a text behind which a key comes, and hardly any other: a character less, and the last one of all."""
    last = ord(key[-1])
    if last == 0:
        return key[:-1]
    return f"{key[:-1]}{chr(_BELOW_SURROGATES if last == _ABOVE_SURROGATES else last - 1)}\U0010ffff"
