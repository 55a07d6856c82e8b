"""Matches the sources of a plain query with those of a job, by the files that they have read."""

from __future__ import annotations

import pytest

from streamjob.job.model.spec import SourceSpec
from streamjob_runtime.restoring.from_spark.errors import OtherSources
from streamjob_runtime.restoring.from_spark.sources import QuerySource, match_sources

FILES, VOID = '{"logOffset":3}', "-"


def source(name: str, format_: str = "json", **options: str) -> SourceSpec:
    return SourceSpec.model_validate({"name": name, "format": format_, "schema": "k STRING", "options": options})


def kafka(name: str, **options: str) -> SourceSpec:
    return source(name, "kafka", **options)


def topic(name: str) -> QuerySource:
    return QuerySource(f'{{"{name}":{{"0":12}}}}')


def matched(found: list[QuerySource], *sources: SourceSpec) -> list[str]:
    options = {each.uid: each.options for each in sources}
    return [each.uid for each in match_sources(found, sources, options, "file:///query/")]


@pytest.mark.parametrize(
    ("read", "path"),
    [
        ("file:///data/flights/1.json", "/data/flights"),
        ("file:/data/flights/1.json", "file:///data/flights/"),
        ("file:///data/flights/2013/01/1.json", "/data/flights"),
        ("file:///data/flights/2013/1.json", "/data/flights/20*/"),
        ("file:///data/a%20b/1.json", "/data/a b"),
        ("s3a://bucket/flights/1.json", "s3://bucket/flights"),
        ("hdfs://host:8020/flights/1.json", "hdfs://host:8020/flights"),
    ],
)
def test_a_directory_is_known_in_any_spelling(read: str, path: str) -> None:
    found = [QuerySource(FILES, ("file:///weather/1.json",)), QuerySource(FILES, (read,))]

    assert matched(found, source("flights", path=path), source("weather", path="/weather")) == ["weather", "flights"]


@pytest.mark.parametrize("path", ["/data/flight", "/data/flights/2014", "s3://data/flights"])
def test_another_directory_is_refused_however_alike_it_is(path: str) -> None:
    with pytest.raises(OtherSources, match="the job's sources do not read that"):
        matched([QuerySource(FILES, ("file:///data/flights/1.json",))], source("flights", path=path))


def test_topics_tell_sources_of_kafka_apart() -> None:
    found = [topic("weather"), topic("flights")]
    named = kafka("flights", subscribe="flights, delays"), kafka("weather", assign='{"weather":[0]}')

    assert matched(found, *named) == ["weather", "flights"]
    with pytest.raises(OtherSources, match="has read weather and flights"):
        matched(found, kafka("flights", subscribe="flights"), kafka("others", subscribe="others"))


def test_where_nothing_tells_the_order_counts() -> None:
    pattern = kafka("a", subscribePattern="f.*"), kafka("b", subscribePattern="w.*")

    assert matched([QuerySource(VOID), QuerySource(VOID)], source("a", path="/a"), source("b", path="/b")) == ["a", "b"]
    assert matched([QuerySource("17"), QuerySource("3")], source("a", "rate"), source("b", "rate")) == ["a", "b"]
    assert matched([topic("x"), topic("y")], *pattern) == ["a", "b"]


def test_what_tells_one_source_settles_the_other() -> None:
    found = [QuerySource(VOID), QuerySource(FILES, ("file:///a/1.json",))]

    assert matched(found, source("a", path="/a"), source("b", path="/b")) == ["b", "a"]


def test_files_are_no_topics() -> None:
    with pytest.raises(OtherSources):
        matched([topic("flights")], source("flights", path="/flights"))
