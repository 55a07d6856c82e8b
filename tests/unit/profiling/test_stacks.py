"""Stacks as lines, and as the tree of a flame graph."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamjob_runtime.profiling.stacks import parse, profile_of, written

NAMES = st.text(st.characters(exclude_characters=";\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", codec="utf-8"), min_size=1)


def test_the_tree_has_each_parent_before_its_children_and_the_sum_of_their_time() -> None:
    stacks = {("main", "run", "parse"): 30.0, ("main", "run"): 10.0, ("main", "wait"): 20.0, ("other",): 40.0}

    process = profile_of("driver", "python", stacks)

    assert [(process.frames[frame], depth, millis) for frame, depth, millis in process.nodes] == [
        ("driver", 0, 100.0),
        ("main", 1, 60.0),
        ("run", 2, 40.0),
        ("parse", 3, 30.0),
        ("wait", 2, 20.0),
        ("other", 1, 40.0),
    ]
    assert process.cpu_ms == 100.0


def test_a_function_that_calls_itself_has_one_name_and_a_box_for_each_call() -> None:
    process = profile_of("driver", "java", {("main", "f", "f", "f"): 5.0})

    assert process.frames == ("driver", "main", "f")
    assert [node[1] for node in process.nodes] == [0, 1, 2, 3, 4]


def test_what_is_too_small_to_see_is_left_out_but_counts() -> None:
    process = profile_of("driver", "java", {("main", "large"): 9999.0, ("main", "small"): 1.0})

    assert "small" not in process.frames
    assert process.cpu_ms == 10_000.0


def test_no_stack_gives_a_process_without_time() -> None:
    process = profile_of("driver", "java", {})

    assert process.nodes == ((0, 0, 0.0),)


@given(st.dictionaries(st.lists(NAMES, min_size=1).map(tuple), st.integers(1, 10**6).map(lambda n: n / 10)))
def test_lines_give_the_same_stacks_again(stacks: dict[tuple[str, ...], float]) -> None:
    assert parse(written(stacks)) == stacks
