"""Writes the reference of the job file from its models: `python docs/generate.py`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from streamjob.durations import format_duration, is_duration
from streamjob.job.connectors.connector import AsSink, AsSource, Connector
from streamjob.job.connectors.file_source import FileSourceFields
from streamjob.job.connectors.registry import CONNECTORS
from streamjob.job.loading.job_tests import JobTestSpec, StepSpec
from streamjob.job.model.encoding_spec import Encoding, Registry
from streamjob.job.model.join_spec import LookupPolicy, LookupSpec, TemporalJoinSpec
from streamjob.job.model.spec import (
    ChannelPolicy,
    CheckpointingPolicy,
    Input,
    JobSpec,
    MigrationSpec,
    OperatorSpec,
    SinkSpec,
    SourceSpec,
    TableSpec,
    Watermark,
)

TARGET = Path(__file__).parent / "reference" / "job-file.md"


def _options(
    parts: str, role: Callable[[Connector], AsSource | AsSink | None]
) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, each in CONNECTORS.items():
        if (known := role(each)) is not None and known.options is not None:
            yield f"`{parts}[].options` of `format: {name}`", known.options


_SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("Job", JobSpec),
    ("`checkpointing`", CheckpointingPolicy),
    ("`channels`", ChannelPolicy),
    ("`sources`", SourceSpec),
    *_options("sources", lambda each: each.source),
    ("`sources[].options` of files", FileSourceFields),
    ("`key` and `value` of sources and sinks", Encoding),
    ("`registry` of `key` and `value`", Registry),
    ("`watermark` of sources and operators", Watermark),
    ("`tables`", TableSpec),
    ("`tables[].lookup`", LookupPolicy),
    ("`operators`", OperatorSpec),
    ("`operators[].inputs`", Input),
    ("`operators[].lookup`", LookupSpec),
    ("`operators[].temporalJoin`", TemporalJoinSpec),
    ("`migrate`, for each uid", MigrationSpec),
    ("`sinks`", SinkSpec),
    *_options("sinks", lambda each: each.sink),
    ("`tests`", JobTestSpec),
    ("`tests[].steps`", StepSpec),
)
_LISTS = frozenset(
    {"sources", "tables", "operators", "sinks", "inputs", "partitionBy", "columns", "on", "select", "steps"}
)
_HEAD = """\
# The job file

<!-- Written by docs/generate.py from the models in runtime/streamjob/job; change it there. -->

A job is a YAML file, a `StreamJob` resource whose `spec.job` has the same content, a [SQL file](sql.md), or a
[Python file](#in-python) that defines `job`. All of them produce the same model. Unknown fields are errors.

```yaml
name: departures
checkpointing: {interval: 10s}
sources:
- name: flights
  format: csv
  schema: "origin STRING, departed TIMESTAMP, delay INT"
  options: {path: data/flights, header: true}
  watermark: {column: departed, delay: 1h}
operators:
- name: delays
  inputs: [flights]
  sql: |
    SELECT origin, window.start AS hour, avg(delay) AS delay
    FROM flights GROUP BY origin, window(departed, '1 hour')
sinks:
- {name: report, input: delays, format: parquet, options: {path: output}}
```

Durations are numbers with a unit: `250ms`, `10s`, `5m`, `1h`, `2d`, `1h30m`. Paths are relative to the file.
`--set PATH=VALUE` changes a field on the command line: `--set checkpointing.interval=5s`,
`--set sources.flights.options.path=other`.

In a `StreamJob`, `spec.parallelism`, `spec.maxParallelism`, `spec.checkpointing` and `spec.sparkConf` override those of
`spec.job`, and `metadata.name` is the job's name. [StreamJob](streamjob.md) lists all fields.

Limits of a file: 1 MiB, 100 levels, 100,000 values (including repetitions through aliases), and 100 digits in a number.
The only known YAML tags are `!!str`, `!!int`, `!!float`, `!!bool` and `!!null`.

`streamjob validate FILE` reports all mistakes in a file, without starting Spark.

## Variables

| | Replaced by | Where |
|---|---|---|
| `${env:NAME}` | an environment variable; the only way to give a secret | all options, `registry.url`, `sparkConf` |
| `${var:name}` | the value of `--var name=value` on the command line | every field |
| `${env:NAME:-text}`, `${var:name:-text}` | the same, or `text` if it is not set or empty | as above |

A default may contain references: `${env:HOST:-${env:HOSTNAME:-localhost}}`. A secret has no default. Snapshots and
messages show `${env:NAME}` and never the value. In a query, `${var:name}` is replaced first, and `${env:NAME}` is left
to Spark, which replaces it itself. A `StreamJob` has no `${var:name}`, because it is applied as it is written.

## Overlays

`streamjob run job.yaml -f production.yaml` merges `production.yaml` into the job. `-f` can be repeated, and it can name
the first file, too. Later files override earlier ones, `--set` overrides all files, and variables are replaced last.
`run`, `validate`, `plan` and `check` take the same options. An overlay is a YAML file with the fields that it changes:

| In the overlay | Effect |
|---|---|
| a mapping (`checkpointing`, `options`, …) | its fields are merged, and the others stay |
| a source, table, operator or sink | is merged with the part of its `uid` or, if it has none, of its `name`, or added |
| a list in a part, such as `inputs` | replaces the list |
| `null` | removes the field |
| `$patch: delete` in a part or mapping | removes it |
| `$patch: replace` in a part or mapping | replaces it, instead of merging |

Paths in an overlay are relative to the first file, which may also be a SQL file, a Python file or a `StreamJob`. On a
cluster, overlays of a `StreamJob` are made by [kustomize](../how-to/deploy-with-gitops.md). The command
`streamjob convert` prints the merged job.

## Tests

`tests` is a list next to `sources` and `sinks`, or the only field of a file `job.tests.yaml` next to `job.yaml`,
`job.sql` or `job.py`. `streamjob test job.yaml` [runs them](../how-to/test-a-job.md); nothing else depends on them. A
`StreamJob` has its tests in a file next to it.

## In Python

A Python file imports `Job` from `streamjob` and assigns one to `job`. The same job as above:

```python
from streamjob import Job

job = Job("departures", checkpointing={"interval": "10s"})
flights = job.source(
    "flights",
    format="csv",
    schema="origin STRING, departed TIMESTAMP, delay INT",
    options={"path": "data/flights", "header": True},
    watermark=("departed", "1h"),
)
delays = job.sql(
    "delays",
    inputs=[flights],
    sql=\"\"\"
    SELECT origin, window.start AS hour, avg(delay) AS delay
    FROM flights GROUP BY origin, window(departed, '1 hour')
    \"\"\",
)
job.sink("report", input=delays, format="parquet", options={"path": "output"})
```

| Call | Arguments |
|---|---|
| `Job(name, …)` | `parallelism`, `max_parallelism`, `checkpointing`, `channels`, `batch_duration`, \
`spark_conf`, `functions`, `migrate` |
| `job.source(name, …)` | `format`, `schema`, `key`, `value`, `changes`, `unavailable_value`, \
`on_unavailable`, `on_error`, `skip`, `columns`, `options`, \
`bounded`, `replayable`, `watermark`, `uid`; returns a handle |
| `job.table(name, …)` | `format`, `schema`, `options`, `refresh`, `max_age`, `lookup`; returns a handle |
| `@job.operator(…)` above a function | `inputs`, `tables`, `name`, `uid`, `watermark`, \
`on_error`, `output_mode`, `chain`, `renames`; the function becomes a handle |
| `job.sql(name, …)` | `inputs`, `sql`, `uid`, `watermark`, `on_error`, `output_mode`, `chain`, `renames`; \
returns a handle |
| `job.lookup(name, …)` | `input`, `table`, `on`, `select`, `join`, `uid`, `watermark`, `chain`; returns a handle |
| `job.temporal_join(name, …)` | `input`, `versions`, `on`, `select`, `join`, `valid_for`, `uid`, \
`chain`; returns a handle |
| `job.sink(name, …)` | `input`, `format`, `function`, `key`, `value`, `options`, `delivery`, \
`publish`, `partition_by`, `uid` |
| `feedback(input, schema)` among an operator's `inputs` | the edge that closes a [loop](../how-to/loops.md) |

The arguments of these calls are the fields below in `snake_case`; keys within `checkpointing`, `channels` and
`watermark` may be written either way. A function of `@job.operator` takes a DataFrame for each input and then for each
table, and returns one; `name` is the function's by default. `inputs`, `tables` and `input` take handles or names. Two
fields have their own calls: `@job.operator` for `python`, and `job.sql` for `sql`. `sqlFile` is for YAML only. An
operator comes after its inputs, except in a loop.
"""


def render() -> str:
    """Return the reference as Markdown."""
    parts = [_HEAD]
    for title, model in _SECTIONS:
        summary = re.sub(r"\s+", " ", (model.__doc__ or "").strip())
        rows = [_row(each.alias or name, each) for name, each in model.model_fields.items()]
        parts.append(
            "\n".join([f"## {title}", "", summary, "", "| Field | Type | Default | |", "|---|---|---|---|", *rows])
        )
    return "\n".join([part.rstrip() + "\n" for part in parts])


def _row(name: str, field: FieldInfo) -> str:
    description = re.sub(r"\s+", " ", field.description or "").replace("|", "\\|")
    return f"| `{name}` | {_type(name, field)} | {_default(field)} | {description} |"


def _type(name: str, field: FieldInfo) -> str:
    annotation: Any = field.annotation
    if is_duration(field):
        return "duration"
    if name in _LISTS:
        return "list"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    text = str(annotation)
    if "Literal" in text:
        choices = [each for each in get_args(annotation) if each is not type(None)]
        words = get_args(choices[0]) if len(choices) == 1 else choices
        return " or ".join(f"`{each}`" for each in words)
    for needle, word in (
        ("BaseModel", "mapping"),
        ("Watermark", "mapping"),
        ("Encoding", "mapping"),
        ("Registry", "mapping"),
        ("Lookup", "mapping"),
        ("TemporalJoin", "mapping"),
        ("_by_table", "text or mapping"),
        ("dict", "mapping"),
        ("bool", "boolean"),
    ):
        if needle in text:
            return word
    return "integer" if "int" in text.replace("Constraints", "") else "text"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is PydanticUndefined or field.default is None or field.default == ():
        return ""
    if is_duration(field):
        return f"`{format_duration(field.default)}`"
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(render(), encoding="utf-8")
