"""Which objects of a bucket are a source's files, as Hadoop's patterns and Spark's rules for names have it."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob_runtime.discovery.patterns import InvalidPattern, SourceFiles, UnreadableKey

ODD = ["a b", "a+b", "a%20b", "a:b", "a\nb", "ü€😀", "a#b?c", "a\\b", "\x01", "\xa0", "..a", "{", "a*[b]", "~"]


def files(path: str, **options: str) -> SourceFiles:
    return SourceFiles(path, options)


def chosen(path: str, *keys: str, **options: str) -> list[str]:
    of = files(path, **options)
    found = [key for key in keys if of.is_of_source(key, 0)]
    assert all(key.startswith(of.prefix) or key == of.named for key in found)
    return found


@pytest.mark.parametrize("path", ["s3://b/in", "s3a://b/in/", "S3://b//in", "s3://b/./x/../in"])
def test_a_path_names_the_files_directly_in_a_directory_and_in_those_of_partitions(path: str) -> None:
    mine = ["in/a.json", "in/day=1/a.json", "in/day=1/hour=2/a.json", "in/day=1/x/a.json", "in/a=b"]
    others = ["in2/a.json", "in", "in/", "in/day=1/", "in/x/a.json", "in/x/day=1/a.json", "x/in/a.json", "input"]

    assert chosen(path, *mine, *others) == mine + ([] if path.endswith("/") else ["in"])
    assert files(path).base == "s3a://b/"
    assert files(path).prefix == "in/"


def test_with_recursive_lookup_a_path_names_the_files_of_all_directories_below_it() -> None:
    mine = ["in/a", "in/x/a", "in/x/y/day=1/a"]

    assert chosen("s3://b/in", *mine, "in2/a", recursivefilelookup="TRUE") == mine
    assert files("s3://b/in", recursiveFileLookup="true").partition_columns("in/day=1/a") == {}


def test_a_whole_bucket_is_a_directory() -> None:
    assert chosen("s3://b", "a", "day=1/a", "x/a") == ["a", "day=1/a"]
    assert chosen("s3://b/", "x/y/a", recursiveFileLookup="true") == ["x/y/a"]
    assert files("s3://b").prefix == ""


def test_a_path_may_name_one_object() -> None:
    assert files("s3://b/in/a.json").named == "in/a.json"
    assert files("s3://b/in/a.json/").named is None
    assert files("s3://b/in/*.json").named is None
    assert files("s3://b").named is None
    assert chosen("s3://b/in/a.json", "in/a.json", "in/a.json2") == ["in/a.json"]


@pytest.mark.parametrize(
    "name",
    ["_SUCCESS", ".hidden", "a.json._COPYING_", "_tmp/day=1/a", "day=1/_tmp/a", "day=1/.x/a", ".x=1/a", "_metadata"],
)
def test_hidden_names_are_left_out(name: str) -> None:
    assert chosen("s3://b/in", f"in/{name}") == []
    assert chosen("s3://b/in", f"in/{name}", recursiveFileLookup="true") == []


def test_names_that_only_look_hidden_are_kept() -> None:
    keys = ["_in/a", "_in/_day=1/a", "_in/_day=1", "_in/day=1/_metadata/a"]

    assert chosen("s3://b/_in", *keys) == keys


@pytest.mark.parametrize(
    ("pattern", "prefix", "mine", "others"),
    [
        ("in/*.json", "in/", ["in/a.json", "in/b*.json"], ["in/a.csv", "in/x/a.json", "in/_a.json"]),
        ("in/*", "in/", ["in/a", "in/x/a", "in/x/day=1/a"], ["in/x/y/a", "in"]),
        ("in/2026-??/x", "in/2026-", ["in/2026-01/x/a", "in/2026-01/x"], ["in/2026-1/x/a", "in/2026-01/xa"]),
        ("in/[ab]/x", "in/", ["in/a/x/f", "in/b/x/f"], ["in/c/x/f", "in/ab/x/f"]),
        ("in/[a-c]", "in/", ["in/b/f"], ["in/d/f", "in/-/f"]),
        ("in/[^a]", "in/", ["in/b/f"], ["in/a/f"]),
        ("in/[!a-b]", "in/", ["in/c/f"], ["in/b/f"]),
        ("in/{a,b/c}", "in/", ["in/a/f", "in/b/c/f"], ["in/b/f", "in/a/c/f"]),
        ("in/{a,a/b}", "in/", ["in/a/f", "in/a/b/f"], ["in/a/c/f"]),
        ("in/{a,{b,c}d}*", "in/", ["in/ax/f", "in/bd/f", "in/cd1/f"], ["in/b/f"]),
        ("in/a\\*b", "in/a*b/", ["in/a*b/f"], ["in/axb/f"]),
        ("in/\\{x\\}*", "in/{x}", ["in/{x}y/f"], ["in/x/f"]),
        ("in/a,b}^!", "in/a,b", ["in/a,b}^!/f"], []),
        ("in/a.b(c)|$+*", "in/a.b(c)|$+", ["in/a.b(c)|$+/f"], ["in/axb(c)|$+/f"]),
        ("*", "", ["x/a", "a"], ["x/y/a"]),
    ],
)
def test_a_path_may_be_a_pattern(pattern: str, prefix: str, mine: list[str], others: list[str]) -> None:
    assert chosen(f"s3://b/{pattern}", *mine, *others) == mine
    assert files(f"s3://b/{pattern}").prefix == prefix


@pytest.mark.parametrize("pattern", ["in/[a", "in/{a", "in/a\\", "in/[b-a]", "in/[a/b]"])
def test_a_pattern_that_hadoop_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern, match="the pattern s3://b/in/"):
        files(f"s3://b/{pattern}")


@pytest.mark.parametrize(
    ("path", "base", "prefix"),
    [
        ("/data//in", "/", "data/in/"),
        ("file:/data/in", "/", "data/in/"),
        ("file:///data/a:b/in", "/", "data/a:b/in/"),
        ("/data/x:y", "/", "data/x:y/"),
        ("hdfs://name:8020/in", "hdfs://name:8020/", "in/"),
        ("hdfs:///in", "hdfs:///", "in/"),
    ],
)
def test_a_path_may_be_in_another_file_system(path: str, base: str, prefix: str) -> None:
    assert (files(path).base, files(path).prefix) == (base, prefix)


def test_a_path_without_a_bucket_is_refused() -> None:
    with pytest.raises(InvalidPattern, match="the path s3:///in names no bucket"):
        files("s3:///in")


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1).filter(lambda each: each[0] not in "._")
)
def test_an_escaped_name_means_itself_and_no_other(name: str) -> None:
    pattern = "".join(f"\\{each}" for each in name)

    assert chosen(f"s3://b/in/{pattern}", f"in/{name}/f", f"in/{name}x/f", "in/f/f")[:1] == [f"in/{name}/f"]
    assert not files(f"s3://b/in/{pattern}").is_of_source(f"in/{name}x/f", 0)


def test_keys_with_odd_characters_are_read() -> None:
    keys = [f"in/{first}=1/{second}" for first, second in product(ODD, ODD) if not first.startswith(".")]

    assert chosen("s3://b/in", *keys) == [key for key in keys if not key.rpartition("/")[2].startswith(".")]


@pytest.mark.parametrize("key", ["in//a.json", "in/./a.json", "in/x/../a.json", "in/day=1//a.json"])
def test_a_key_that_hadoop_takes_for_another_is_an_error_and_never_left_out(key: str) -> None:
    with pytest.raises(UnreadableKey, match=r"Spark cannot read s3a://b/in/.*: Hadoop takes its key for in/") as caught:
        chosen("s3://b/in", key)

    assert "pathGlobFilter" in caught.value.fix
    assert chosen("s3://b/in", key, pathGlobFilter="*.csv") == []
    assert chosen("s3://b/other", key) == []


def test_options_choose_by_name_and_time() -> None:
    assert chosen("s3://b/in", "in/a.json", "in/b.csv", "in/ab/b.json", PATHGLOBFILTER="[ab].{json,xml}") == [
        "in/a.json"
    ]
    of = files("s3://b/in", modifiedafter="1970-01-01T00:00:01", modifiedBefore="1970-01-01T02:00:02+02:00")
    assert [ms for ms in (999, 1000, 1001, 1999, 2000) if of.is_of_source("in/a", ms)] == [1001, 1999]
    local = files("s3://b/in", modifiedAfter="1970-01-01T01:00:00", timeZone="Europe/Berlin")
    assert local.is_of_source("in/a", 1)
    assert not local.is_of_source("in/a", 0)
    with pytest.raises(InvalidPattern, match="modifiedBefore is 'soon'"):
        files("s3://b/in", modifiedBefore="soon")


def test_directories_name_columns_below_the_path() -> None:
    of = files("s3://b/a=0/in")

    assert of.partition_columns("a=0/in/day=2%2F1/h%20=x=y/f=1") == {"day": "2/1", "h ": "x=y"}
    assert of.partition_columns("a=0/in/day=__HIVE_DEFAULT_PARTITION__/x/%zz=%4/f") == {"day": None, "%zz": "%4"}
    assert of.partition_columns("a=0/in/f") == of.partition_columns("a=0/in") == {}
    assert files("s3://b/in/day=*").partition_columns("in/day=1/f") == {}
    assert files("s3://b/in/day=*", basePath="s3://b/in").partition_columns("in/day=1/f") == {"day": "1"}
    with pytest.raises(UnreadableKey, match="its directory day= names a column without a value"):
        of.partition_columns("a=0/in/day=/f")
    with pytest.raises(UnreadableKey, match="its directory =1 names a column without a name"):
        of.partition_columns("a=0/in/=1/f")
