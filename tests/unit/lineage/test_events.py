"""Events of a job, validated by OpenLineage's schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openlineage.client.serde import Serde
from tests.unit.lineage.jobs import ORDERS, SECRET, known
from tests.unit.lineage.validation import problems

from streamjob_runtime.lineage.content import EventType, LineageOfJob, Moment
from streamjob_runtime.lineage.events import event, run_id
from streamjob_runtime.lineage.settings import Parent

SCHEMA = [("Body", "string"), ("price", "double")]
PARENT = Parent("airflow", "nightly.orders", "3f5e83fa-3480-44ff-99c5-ff943904e5e8")
HOSTILE = "<img src=x onerror=alert(1)>\u202e'\";DROP TABLE x;--"


def made(kind: EventType = "START", **changes: Any) -> dict[str, Any]:
    return written(known(ORDERS, PARENT), Moment(kind, 1_795_390_000.25, 7, 1_795_380_000.0, **changes))


def written(job: LineageOfJob, moment: Moment) -> dict[str, Any]:
    """Return an event as it is sent."""
    found: dict[str, Any] = json.loads(Serde.to_json(event(job, moment)))
    return found


@pytest.mark.parametrize("kind", ["START", "RUNNING", "COMPLETE", "FAIL", "ABORT"])
def test_events_are_valid(kind: EventType) -> None:
    found = made(kind, schemas={"table": SCHEMA, "files": SCHEMA}, failure="it broke" if kind == "FAIL" else None)

    assert problems(found) == []
    assert found["eventType"] == kind
    assert found["eventTime"] == "2026-11-22T23:26:40.250Z"
    assert ("errorMessage" in found["run"]["facets"]) == (kind == "FAIL")


def test_a_broken_event_is_found_by_the_validation() -> None:
    found = made()
    found["run"]["runId"] = "no-uuid"
    found["job"]["facets"]["jobType"].pop("integration")
    found["inputs"][0].pop("namespace")

    assert len(problems(found)) >= 3


def test_all_inputs_and_outputs_are_named() -> None:
    found = made()

    assert [(each["namespace"], each["name"]) for each in found["inputs"]] == [
        ("kafka://kafka-1:9092", "orders"),
        ("kafka://kafka-1:9092", "returns"),
        ("s3://shop", "items"),
    ]
    assert [(each["namespace"], each["name"]) for each in found["outputs"]] == [
        ("postgres://db.shop:5433", "shop.public.sales"),
        ("file", "/jobs/out"),
    ]
    assert found["job"]["facets"]["jobType"]["processingType"] == "STREAMING"


def test_columns_have_the_fields_that_they_come_from() -> None:
    (table, _) = made(schemas={"table": SCHEMA})["outputs"]

    lineage = table["facets"]["columnLineage"]
    assert {name: [each["field"] for each in field["inputFields"]] for name, field in lineage["fields"].items()} == {
        "Body": ["value", "value"],
        "price": ["price"],
    }
    assert lineage["fields"]["price"]["inputFields"][0] == {
        "namespace": "s3://shop",
        "name": "items",
        "field": "price",
        "transformations": [{"type": "DIRECT", "subtype": "IDENTITY"}],
    }
    assert {(each["field"], each["transformations"][0]["subtype"]) for each in lineage["dataset"]} == {
        ("value", "JOIN"),
        ("id", "JOIN"),
        ("price", "FILTER"),
    }
    assert [each["name"] for each in table["facets"]["schema"]["fields"]] == ["Body", "price"]


def test_a_run_is_an_epoch_of_a_job_in_its_place() -> None:
    job = known(ORDERS)

    assert run_id(job, 7) == run_id(known(ORDERS), 7)
    assert run_id(job, 7) != run_id(job, 8)


def test_no_secret_is_in_an_event() -> None:
    text = json.dumps(made(schemas={"table": SCHEMA}))

    assert SECRET not in text
    assert "DB_PASSWORD" not in text
    assert "sslmode" not in text


def test_hostile_names_are_values_and_nothing_else() -> None:
    job = ORDERS | {
        "sources": [
            {
                "name": "orders",
                "format": "json",
                "schema": f"`{HOSTILE}` STRING",
                "options": {"path": f"/in/{HOSTILE}"},
            },
            ORDERS["sources"][1],
        ],
        "operators": [{"name": "Priced", "inputs": ["orders", "items"], "sql": f"SELECT `{HOSTILE}` FROM orders"}],
    }

    found = written(known(job), Moment("FAIL", 1.0, 1, 1.0, {"table": [(HOSTILE, "string")]}, HOSTILE * 1000))

    assert problems(found) == []
    assert found["inputs"][0]["name"] == f"/in/{HOSTILE}"
    assert len(found["run"]["facets"]["errorMessage"]["message"]) == 10_000


@settings(max_examples=50)
@given(st.text(st.characters(exclude_characters="\x00", codec="utf-8"), min_size=1), st.floats(0, 4e9), st.integers(1))
def test_any_path_and_failure_gives_a_valid_event(text: str, at: float, epoch: int) -> None:
    sink = {"name": "files", "input": "Priced", "format": "parquet", "options": {"path": f"/{text}"}}

    found = written(known(ORDERS | {"sinks": [sink]}), Moment("FAIL", at, epoch, at, failure=text))

    assert problems(found) == []
