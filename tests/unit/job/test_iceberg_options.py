"""The options of the Iceberg sink, as a job's file gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from streamjob.job.connectors.iceberg import (
    catalog_properties,
    delivery_problems,
    parse_options,
    problems,
)
from streamjob.job.connectors.options import UnusableOptions, is_secret
from streamjob.job.model.spec import SinkSpec

SQL = {"table": "db.t", "catalog.type": "sql", "catalog.uri": "postgresql://h/d", "catalog.warehouse": "s3://b/w"}
REST = {"table": "db.t", "catalog.type": "rest", "catalog.uri": "https://catalog"}


def sink(options: Mapping[str, str], **fields: Any) -> SinkSpec:
    return SinkSpec.model_validate({"name": "out", "input": "a", "format": "iceberg", "options": options, **fields})


@pytest.mark.parametrize(
    "options",
    [
        SQL,
        REST,
        {**REST, "catalog.credential": "${env:C}", "catalog.s3.endpoint": "http://s3", "createTable": "true"},
        {"table": "a.b.c", "catalog.type": "glue"},
        {"table": "a.b", "catalog.uri": "${env:CATALOG}"},
        {"table": "a.b", "catalog.py-catalog-impl": "my.Catalog"},
    ],
)
def test_what_names_a_table_and_a_catalog_can_be_used(options: Mapping[str, str]) -> None:
    assert list(problems(options)) == []
    assert parse_options(options).table == options["table"]
    assert sink(options).delivery == "exactly-once"


WRONG = {
    "no key": ({**SQL, "mode": "upsert"}, "has mode upsert and no key", "name the columns that identify a row"),
    "a useless key": ({**SQL, "key": "id"}, "has a key, and mode append, which has no use for one", "say mode: upsert"),
    "no table": ({"catalog.type": "glue"}, "lacks the option 'table'", "add table: namespace.table"),
    "no namespace": ({**SQL, "table": "t"}, "the option 'table' names no table of a namespace", "add table:"),
    "an empty name": ({**SQL, "table": "db."}, "the option 'table' names no table of a namespace", "add table:"),
    "no such kind": (
        {**SQL, "catalog.type": "sequel"},
        "the option 'catalog.type' is not a known type of catalog",
        "sql",
    ),
    "no catalog": ({"table": "a.b", "catalog.name": "x"}, "names no catalog", "add catalog.type"),
    "no address": (
        {"table": "a.b", "catalog.type": "rest"},
        "lacks the option 'catalog.uri', which a catalog of type rest needs",
        "add catalog.uri",
    ),
    "no warehouse": (
        {name: value for name, value in SQL.items() if name != "catalog.warehouse"},
        "lacks the option 'catalog.warehouse'",
        "add catalog.warehouse: s3://",
    ),
    "an address that is none": ({**REST, "catalog.uri": "here"}, "the option 'catalog.uri' is not a URL", "https://"),
    "an unknown option": ({**SQL, "creatTable": "true"}, "has no option 'creatTable'", "did you mean 'createTable'?"),
    "neither yes nor no": (
        {**SQL, "createTable": "perhaps"},
        "the option 'createTable' cannot be used",
        "true or false",
    ),
}


@pytest.mark.parametrize(("options", "what", "fix"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_work_is_told_with_the_fix(options: Mapping[str, str], what: str, fix: str) -> None:
    ((said, advice, _),) = problems(options)

    assert said.startswith(what)
    assert fix in advice
    with pytest.raises(UnusableOptions, match=what):
        parse_options(options)


def test_without_a_catalog_the_sink_is_sparks_and_at_least_once() -> None:
    assert sink({"path": "catalog.db.t"}).delivery == "at-least-once"
    assert list(delivery_problems({"path": "catalog.db.t"}, "at-least-once", ())) == []


def test_a_catalog_is_of_no_use_to_sparks_own_sink() -> None:
    ((what, fix, _),) = delivery_problems(SQL, "at-least-once", ())

    assert "catalog.…, and delivery: at-least-once" in what
    assert fix.startswith("leave delivery out")


def test_the_table_says_how_it_is_partitioned() -> None:
    ((what, *_),) = delivery_problems(SQL, "exactly-once", ("day",))

    assert what.startswith("has partitionBy")


def test_the_catalog_gets_its_properties_alone() -> None:
    options = {**SQL, "catalog.name": "lake", "catalog.s3.region": "x", "createTable": "true", "catalog.token": ""}

    assert catalog_properties(options) == {
        "type": "sql",
        "uri": "postgresql://h/d",
        "warehouse": "s3://b/w",
        "s3.region": "x",
    }


@pytest.mark.parametrize(
    ("uri", "secret"),
    [
        ("postgresql://u:${env:P}@h/d", False),
        ("postgresql://${env:U}:${env:P}@h/d", False),
        ("postgresql://h/d?user=u&password=${env:P}", False),
        ("postgresql://u:hunter2@h/d", True),
        ("postgresql://${env:U}:hunter2@h/d", True),
        ("postgresql://u:a${env:P}@h/d", True),
        ("postgresql://h/d?user=u&password=hunter2", True),
    ],
)
def test_a_login_in_an_address_is_a_secret_unless_the_environment_gives_its_password(uri: str, secret: bool) -> None:
    assert is_secret("catalog.uri", uri) is secret
