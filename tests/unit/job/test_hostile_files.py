"""A file that was made to hurt costs little, and ends with one message that says where."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from streamjob.cli.main import app
from streamjob.errors import ExitCode, StreamJobError
from streamjob.job.loading.load import load_job
from streamjob.job.loading.yaml_file import MOST_BYTES, YamlError, read_documents, read_scalar

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)
NESTED_ALIASES = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 2000))
LONG_TEXT = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 100)}]\n"

HOSTILE = {
    "aliases of aliases": (LAUGHS, "line 5, column 45: it holds more than 100000 values, aliases included"),
    "deep aliases": (NESTED_ALIASES, "line 99, column 12: it is nested deeper than 100 levels, aliases included"),
    "a long text many times": (
        LONG_TEXT,
        "line 2, column 165: it holds more than 4194304 characters, aliases included",
    ),
    "an alias inside of itself": ("a: &a [*a]", "line 1, column 8: the alias 'a' is inside the value that it names"),
    "an alias of nothing": ("a: *b", "line 1, column 4: there is no anchor 'b' before this alias"),
    "a list as a key": ("? [a, b]\n: c", "line 1, column 3: a list or a mapping cannot be a key"),
    "a mapping as a key": ("{{a: b}: c}", "line 1, column 2: a list or a mapping cannot be a key"),
    "a list as a key by its alias": (
        "a: &a [b]\n*a : c",
        "line 2, column 1: a list or a mapping cannot be a key",
    ),
    "flow levels": ("a: " + "[" * 5000, "line 1, column 103: it is nested deeper than 100 levels"),
    "block levels": ("- " * 5000, "line 1, column 201: it is nested deeper than 100 levels"),
    "block keys": ("? " * 5000, "line 1, column 3: a list or a mapping cannot be a key"),
    "digits": (
        f"a: {'9' * 5000}",
        "line 1, column 4: a number has at most 100 digits; put it in quotes if it is a text",
    ),
    "digits of a float": (f"a: {'9' * 5000}.0", "line 1, column 4: a number has at most 100 digits"),
    "NUL": ("name: a\nb: \0c", "line 2, column 4: the character U+0000 cannot be in it"),
    "a control character": ("name: a\nb: \x07c", "line 2, column 4: the character U+0007 cannot be in it"),
    "an escaped NUL": (r'a: "b\0c"', "line 1, column 4: it holds the character U+0000"),
    "half a character": (r'a: "\ud800"', "line 1, column 4: it holds the character U+D800"),
    "no character": (r'a: "\UFFFFFFFF"', "line 1, column 7: it cannot be read"),
    "a tag of Python": ("a: !!python/object/apply:os.system [ls]", "line 1, column 4: a list or a mapping has no tag"),
    "a tag of its own": ("a: !secret b", "line 1, column 4: a job file has no tags but"),
    "a date that is none": ("a: !!timestamp 2020-99-99", "line 1, column 4: a job file has no tags but"),
    "an integer that is none": (
        "a: !!int b",
        "line 1, column 4: its tag says that it is a whole number, and it is not",
    ),
    "a boolean that is none": ("a: !!bool b", "line 1, column 4: its tag says that it is true or false"),
    "a key twice": ("a: 1\na: 2", "line 2, column 1: the key 'a' is there twice"),
    "a key twice in two spellings": ("true: 1\nTrue: 2", "line 2, column 1: the key 'True' is there twice"),
    "a merge of a word": ("a: {<<: b}", "line 1, column 9: the value of `<<` must be a mapping"),
    "many values": ("[" + "a," * 200_000 + "]", "it holds more than 100000 values"),
    "size": ("#" * (MOST_BYTES + 1), "it is larger than 1048576 bytes"),
    "a directive": ("%YAML 9.9\n---\na: 1", "line 1, column 1: found incompatible YAML document"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_ends_validate_with_exit_code_2_and_one_message_with_its_place(
    name: str, tmp_path: Path
) -> None:
    text, said = HOSTILE[name]
    file = tmp_path / "job.yaml"
    file.write_text(text, encoding="utf-8")

    result = CliRunner().invoke(app, ["validate", str(file)])

    assert result.exit_code == ExitCode.INVALID_INPUT, result.exception
    assert said in result.stderr
    assert result.stderr.count("\n  - ") <= 1
    assert "Traceback" not in result.output


@pytest.mark.parametrize("name", ["aliases of aliases", "deep aliases", "a long text many times"])
def test_aliases_take_little_memory(name: str) -> None:
    text, _ = HOSTILE[name]
    tracemalloc.start()
    try:
        with pytest.raises(YamlError):
            read_documents(text)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_a_file_that_is_not_utf8_says_where(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_bytes(b"name: a\nb: \xff\n")

    with pytest.raises(StreamJobError, match="line 2, column 4: the byte 0xff is not UTF-8 text"):
        load_job(file)


def test_a_file_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(StreamJobError, match="larger than 1048576 bytes"):
        load_job("/dev/zero")


def test_an_alias_is_a_copy(tmp_path: Path) -> None:
    (document,) = read_documents("a: &a {b: [1]}\nc: *a")

    document["a"]["b"].append(2)

    assert document == {"a": {"b": [1, 2]}, "c": {"b": [1]}}


def test_mappings_are_merged_and_own_keys_win() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b], y: 3}\nd: {<<: *b, '<': [<<]}"

    (document,) = read_documents(text)

    assert document["c"] == {"x": 1, "y": 3, "z": 2}
    assert document["d"] == {"x": 2, "z": 2, "<": ["<<"]}


def test_a_scalar_of_the_command_line_is_read_under_the_same_limits() -> None:
    assert read_scalar("1_000") == 1000
    with pytest.raises(YamlError):
        read_scalar("[" * 500)


WORDS = "a 1 -1.5e9 ~ true [ ] { } , *x !!int ! ' \" \\ \\0 \\u # % @ ` é"
YAML_PIECES = st.sampled_from(
    [
        *WORDS.split(" "),
        "- ",
        "? ",
        ": ",
        "b: ",
        "&x ",
        "<<: ",
        "\n",
        "\n  ",
        "|\n",
        ">-\n",
        "---\n",
        "...\n",
        "\t",
        "\ufeff",
    ]
)


def reading_of(text: str) -> list[Any] | YamlError:
    try:
        return read_documents(text)
    except YamlError as error:
        return error


@settings(max_examples=600, deadline=None)
@given(st.lists(YAML_PIECES, max_size=40).map("".join) | st.text(max_size=60))
@example("\ufeff")
@example("a: !!str")
@example("--- |\n")
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    found = reading_of(text)

    if isinstance(found, YamlError):
        assert str(found).startswith("line ")
        assert "\n" not in str(found)
    else:
        assert None not in found
