"""The objects of a batch are compared with a listing: one that was replaced, cut or removed meanwhile is found."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from streamjob_runtime.discovery.objects import Found, Page
from streamjob_runtime.discovery.rereading import changed_since

KEYS = [f"{directory}/{name}" for directory in ("a", "b", "ü") for name in ("1", "2", "2x", "3", "\U0001f600", "﷐")]


class Listing:
    def __init__(self, objects: list[Found]) -> None:
        self.objects = sorted(objects, key=lambda each: each.key.encode())
        self.pages = 0

    def page(self, after: str) -> Page:
        self.pages += 1
        rest = [each for each in self.objects if each.key.encode() > after.encode()]
        return Page(rest[:3], rest[2].key if len(rest) > 3 else None)


@given(
    there=st.sets(st.sampled_from(KEYS), min_size=1),
    share=st.floats(0, 1),
    change=st.sampled_from(["none", "version", "size", "gone"]),
    which=st.integers(0, 20),
)
def test_a_change_of_one_object_is_found_and_nothing_else(
    there: set[str], share: float, change: str, which: int
) -> None:
    objects = [Found(key, 5, 0, "v") for key in sorted(there)]
    read = objects[: max(1, round(len(objects) * share))]
    changed = read[which % len(read)]
    now = {each.key: each for each in objects}
    if change == "gone":
        del now[changed.key]
    elif change != "none":
        now[changed.key] = replace(changed, **{"version": "w"} if change == "version" else {"size": 6})

    found = changed_since(Listing(list(now.values())), read)

    assert found == (None if change == "none" else changed)


def test_a_page_tells_of_all_its_objects() -> None:
    objects = [Found(f"a/{number}", 1, 0, "v") for number in range(3)]
    listing = Listing(objects)

    assert changed_since(listing, objects) is None
    assert listing.pages == 1


def test_nothing_is_asked_once_the_answer_does_not_matter() -> None:
    listing = Listing([])

    assert changed_since(listing, [Found("a", 1, 0, "v")], lambda: True) is None
    assert listing.pages == 0
