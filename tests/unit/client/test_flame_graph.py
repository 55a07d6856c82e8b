"""A profile as a flame graph, and as lines for other tools."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from streamjob.client.flame_graph import folded, hottest, svg
from streamjob.client.profile_models import ProcessProfile, ProfileState, ProfileView
from streamjob.ids import TriggerId

HOSTILE = '</title><script>alert(1)</script>"&\x00\ud800;'


def view(*processes: ProcessProfile) -> ProfileView:
    return ProfileView(id=TriggerId("p"), state=ProfileState.COMPLETED, seconds=30.0, started=1.0, processes=processes)


def process(*names: str) -> ProcessProfile:
    """Return a process in which each function calls the next, for half of its time."""
    nodes = tuple((number, number, 1000.0 / 2**number) for number in range(len(names)))
    return ProcessProfile(process="driver", language="java", cpu_ms=1000.0, frames=names, nodes=nodes)


def test_boxes_hang_from_their_callers_and_are_as_wide_as_their_time() -> None:
    root = ElementTree.fromstring(svg(view(process("driver", "main", "run"))))

    rects = [each.attrib for each in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert [float(each["width"]) for each in rects] == [1600, 800, 400]
    assert [float(each["y"]) for each in rects] == sorted(float(each["y"]) for each in rects)


def test_hostile_names_are_text() -> None:
    drawn = svg(view(process("driver", HOSTILE), ProcessProfile(process=HOSTILE, language="python", failure=HOSTILE)))

    root = ElementTree.fromstring(drawn)
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
    assert "<script" not in drawn
    assert "javascript" not in drawn
    assert "href" not in drawn


def test_lines_have_the_time_of_each_stack_without_its_callees() -> None:
    assert folded(view(process("driver", "main", "run"))) == (
        "driver java 500\ndriver java;main 250\ndriver java;main;run 250\n"
    )


def test_a_hostile_name_adds_no_line_and_no_frame() -> None:
    lines = folded(view(process("driver", "a;b\nc 7"))).splitlines()

    assert lines == ["driver java 500", "driver java;a,b c 7 500"]


def test_the_hottest_functions_come_first_and_calls_of_itself_count_once() -> None:
    assert hottest(process("driver", "f", "f", "g")) == [("driver", 500.0), ("f", 375.0), ("g", 125.0)]


@pytest.mark.parametrize("processes", [(), (process(),), (process("driver"),)])
def test_a_profile_without_stacks_is_a_picture_too(processes: tuple[ProcessProfile, ...]) -> None:
    ElementTree.fromstring(svg(view(*processes)))
