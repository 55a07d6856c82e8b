"""Makes whole jobs of the fragments of jobs that documents show, so that they can be checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.architecture.documents import Block

from streamjob.job.loading.yaml_file import read_documents

PARTS = ("sources", "tables", "operators", "sinks")
OF_JOBS = {*PARTS, "name", "parallelism", "checkpointing", "channels", "migrate", "sparkConf", "tests"}

COLUMNS = "id BIGINT, at TIMESTAMP"
"""The columns of a source that a fragment reads and does not show, unless KNOWN has them."""
KNOWN = {
    ("docs/how-to/compute-columns-and-event-time.md", "clicks"): "user STRING, at TIMESTAMP",
    ("docs/how-to/first-job-on-kubernetes.md", "moments"): "moment TIMESTAMP, page STRING, views BIGINT",
    ("docs/how-to/follow-changes.md", "orders"): "country STRING, amount DOUBLE, _change_type STRING",
    ("docs/how-to/handle-broken-records.md", "orders"): "id BIGINT, amount DOUBLE, pieces INT, at TIMESTAMP",
    ("docs/how-to/join-with-tables.md", "orders"): "id INT, product INT, region STRING, amount INT",
    ("docs/how-to/loops.md", "routes"): "airport STRING, neighbour STRING, miles BIGINT",
    ("docs/how-to/write-files-to-a-bucket.md", "delays"): "day DATE, delay DOUBLE",
    ("docs/how-to/write-to-kafka.md", "alerts"): "key STRING, value STRING",
    ("docs/how-to/write-to-postgresql.md", "hours"): "airport STRING, hour TIMESTAMP, flights BIGINT",
}
CHANGED: Mapping[tuple[str, str], dict[str, Any]] = {
    # They show a field of a part, at the indentation that it has there.
    ("docs/how-to/compute-columns-and-event-time.md", "watermark"): {
        "format": "json",
        "schema": COLUMNS,
        "options": {"path": "data"},
    },
    ("docs/how-to/follow-changes.md", "changes"): {
        "format": "kafka",
        "options": {"kafka.bootstrap.servers": "broker:9092", "subscribe": "shop"},
    },
    ("docs/how-to/use-protobuf.md", "value"): {
        "format": "kafka",
        "options": {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"},
        "columns": ["value.*"],
    },
    ("docs/how-to/write-to-a-lake-table.md", "format"): {"input": "rows"},
    ("docs/how-to/write-to-a-lake-table.md", "mode"): {
        "input": "rows",
        "format": "iceberg",
        "options": {"table": "a.b", "catalog.type": "rest", "catalog.uri": "https://catalog", "catalog.warehouse": "w"},
    },
    ("docs/how-to/write-to-kafka.md", "value"): {
        "input": "rows",
        "format": "kafka",
        "options": {"kafka.bootstrap.servers": "broker:9092", "topic": "alerts"},
    },
    ("docs/how-to/write-to-postgresql.md", "mode"): {
        "input": "hours",
        "format": "postgresql",
        "options": {"url": "postgresql://db/warehouse", "user": "writer", "table": "public.departures"},
    },
}
"""By page and first key of a fragment of a part: the rest of that part. It is a sink if it has an input."""


def _migrated(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return operators for the changes of state that a fragment shows alone."""
    missing = job.get("migrate", {}).keys() - {each["name"] for each in job["operators"]}
    return [{"name": uid, "inputs": ["rows"], "sql": "SELECT id FROM rows"} for uid in sorted(missing)]


def whole_job(block: Block) -> dict[str, Any]:
    """Return the job that a block shows, with what is missing in it.

    Raises:
        ValueError: it shows nothing of a job.
    """
    shown = _shown(block)
    if not shown.keys() <= OF_JOBS:
        raise ValueError(f"{block.document}:{block.line}: no job has {sorted(shown.keys() - OF_JOBS)}")
    job = {"name": "documented", **{part: [] for part in PARTS}, **shown}
    job["operators"] = [*job["operators"], *_readers_of_tables(job), *_migrated(job)]
    job["sinks"] = [*job["sinks"], *_sinks_of_tests(job)]
    names = {each["name"] for part in PARTS for each in job[part] if part != "sinks"}
    letters = {f"{name}_dead_letters": name for name in names}
    given = [name for step in _steps(job) for name in step.get("given", {})]
    read = [name for name in (*_read(job), *given) if name not in names and name not in letters]
    if not job["sources"] and not read:
        read = ["rows"]
    job["sources"] = [
        *job["sources"],
        *(
            {
                "name": name,
                "format": "json",
                "schema": KNOWN.get((block.document, name), COLUMNS),
                "options": {"path": f"data/{name}"},
            }
            for name in dict.fromkeys(read)
        ),
    ]
    job["sinks"] = [
        each if "function" in each else {"format": "json", "options": {"path": f"out/{each['name']}"}, **each}
        for each in job["sinks"]
    ]
    last = {each["name"] for part in ("sources", "operators") for each in job[part]}
    last |= {
        f"{each['name']}_dead_letters"
        for part in ("sources", "operators")
        for each in job[part]
        if each.get("onError") == "deadLetter"
    }
    last -= set(_read(job))
    job["sinks"] += [{"name": f"of-{name}", "input": name, "format": "console"} for name in sorted(last)]
    return {key: value for key, value in job.items() if value != []}


def files_of(job: Mapping[str, Any]) -> dict[str, str]:
    """Return the files that a job of a document names, by path: schemas, and modules with functions."""
    found: dict[str, str] = {}
    for part in PARTS:
        for each in job.get(part, ()):
            for encoding in (each.get("key"), each.get("value")):
                if isinstance(encoding, dict) and (name := encoding.get("schemaFile")):
                    found[name] = _SCHEMAS[Path(name).suffix]
            for named in (each.get("python"), each.get("format"), each.get("function")):
                if isinstance(named, str) and (function := re.fullmatch(r"(\w+):(\w+)", named)):
                    found[f"{function[1]}.py"] = _MODULE.format(name=function[2])
    return found


_SCHEMAS = {
    ".avsc": '{"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}',
    ".proto": 'syntax = "proto3"; package shop; message Order { int64 id = 1; }',
}
_MODULE = "def {name}(*rows):\n    raise NotImplementedError\n"


def _shown(block: Block) -> dict[str, Any]:
    """Return the fields of a job that a block shows."""
    (content,) = read_documents(block.text)
    if isinstance(content, list):
        (part,) = {"operators" if "inputs" in each else "sinks" if "input" in each else "sources" for each in content}
        return {part: content}
    first = next(iter(content))
    if (rest := CHANGED.get((block.document, first))) is not None:
        fields = {"options": content} if first == "mode" else content
        merged = {**rest, **fields, "name": "part"}
        if "options" in rest and "options" in fields:
            merged["options"] = {**rest["options"], **fields["options"]}
        return {"sinks" if "input" in rest else "sources": [merged]}
    return dict(content)


def _read(job: Mapping[str, Any]) -> Iterator[str]:
    for each in job["operators"]:
        for name in each["inputs"]:
            # An operator that feeds another one back also has an output.
            if not isinstance(name, dict) or not name.get("feedback"):
                yield name["from"] if isinstance(name, dict) else name
    for each in job["sinks"]:
        yield each["input"]


def _steps(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for test in job.get("tests", ()):
        yield from test.get("steps", [test])


def _sinks_of_tests(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the sinks of which tests expect rows."""
    for name in dict.fromkeys(name for step in _steps(job) for name in step.get("expect", {})):
        yield {"name": name, "input": "rows"}


def _readers_of_tables(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield operators that join a table that no operator of the fragment reads."""
    read = str(job["operators"])
    for each in job["tables"]:
        if each["name"] not in read:
            yield {
                "name": f"with_{each['name']}",
                "inputs": ["rows"],
                "sql": f"SELECT rows.* FROM rows CROSS JOIN {each['name']}",
            }
