"""Writes the reference of jobs in SQL from the models and the statements: `python docs/generate_sql.py`."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel

from streamjob.job.model.encoding_spec import Encoding, Registry
from streamjob.job.model.join_spec import LookupPolicy, LookupSpec, TemporalJoinSpec
from streamjob.job.model.spec import (
    ChannelPolicy,
    CheckpointingPolicy,
    JobSpec,
    MigrationSpec,
    OperatorSpec,
    SinkSpec,
    SourceSpec,
    TableSpec,
    Watermark,
)
from streamjob.job.sql_job.statements import FIELDS

TARGET = Path(__file__).parent / "reference" / "sql.md"

_MODELS: dict[str, type[BaseModel]] = {
    "sources": SourceSpec,
    "tables": TableSpec,
    "operators": OperatorSpec,
    "sinks": SinkSpec,
}
_HEAD = """\
# Jobs in SQL

<!-- Written by docs/generate_sql.py from the statements and models in runtime/streamjob/job; change it there. -->

A file that ends in `.sql` is a job. Its statements give the same model as the [job file](job-file.md) in YAML. Formats,
options, [variables](job-file.md#variables), [overlays](job-file.md#overlays) and relative paths work as described
there. [Write a job in SQL](../how-to/write-a-job-in-sql.md) is a guide with an example.

Statements are separated by `;` and may come in any order. Comments are `-- …` and `/* … */`. A name with other
characters than letters, digits and `_` is in backticks. Keywords may be in any case. All mistakes are reported at once,
each with its line and column.
"""
_SOURCE = """\
## CREATE SOURCE

```text
CREATE SOURCE name [ ( column TYPE [, …] [, column AS expression, …]
                       [, WATERMARK FOR column AS column - INTERVAL 1 HOUR] ) ]
WITH ( 'format' = 'csv' [, 'key' = value, …] )
```

Adds to `sources`. The columns are Spark's: `name TYPE [NOT NULL] [COMMENT 'text']`. Sources with fixed columns, such as
Kafka, have no columns with types. `column AS expression` computes a column from those of the format, as in Flink. All
computed columns follow the others: the source's `columns` become `*` and these. The key `columns` of `WITH` lists all
columns instead, separated by commas: `'columns' = 'id, to_timestamp(paid) AS at'`.

The interval is a number of `WEEK`, `DAY`, `HOUR`, `MINUTE`, `SECOND` or `MILLISECOND`, or several of these; `AS column`
alone is a delay of zero.

The values of `WITH` are texts, numbers, `true` or `false`. These keys are fields:
"""
_OPTIONS = """
`key.options.NAME` and `value.options.NAME` are options of the forms of keys and values: `'value.options.sep' = ';'`.
Any other key is an option of the format. An option with the name of a field has the prefix `options.`:
`'options.format'`.
"""
_TABLE = """\
## CREATE TABLE

```text
CREATE TABLE name [ ( column TYPE [, …] ) ] WITH ( 'format' = 'parquet' [, 'key' = value, …] )
```

Adds to `tables`: a view [joins](../how-to/join-with-tables.md) the table by its name. These keys are fields, and any
other key is an option of the format:
"""
_FUNCTION = """\
## CREATE FUNCTION

```text
CREATE [ TEMPORARY ] FUNCTION name AS 'module.function'
```

Adds to `functions`: queries and computed columns [call the Python function](../how-to/call-python-from-sql.md) by this
name.
"""
_VIEW = """\
## CREATE VIEW

```text
CREATE VIEW name [ WITH ( 'key' = value, … ) ] AS SELECT …
CREATE VIEW name WITH ( 'python' = 'module:function', 'inputs' = 'a, b' )
CREATE VIEW name WITH ( 'lookup.table' = 't', 'lookup.on' = 'id', 'lookup.select' = 'name', 'inputs' = 'a' )
CREATE VIEW name WITH ( 'temporalJoin.on' = 'id', 'temporalJoin.select' = 'name', 'inputs' = 'a, b' )
```

Adds to `operators`. The query is in Spark SQL. Its inputs are the sources and views that it reads, in the order of
their first mention; tables are no inputs. A query may
[join versions](../how-to/join-with-tables.md#versions), as in Flink:
`JOIN rates /*+ OPTIONS('validFor' = '30d') */ FOR SYSTEM_TIME AS OF orders.at`. `WITH` takes these keys:
"""
_INPUTS = "Names of sources and views, separated by commas. Default: those that the query reads."
_VIEW_KEYS = (
    "| `renames.COLUMN` | Of `renames` in YAML. The present name of a column or variable of its state that was called "
    "`COLUMN`. [How to](../how-to/change-a-job.md#what-needs-a-line-from-you). |\n"
    "| `feedback.NAME` | The input `NAME` closes a [loop](../how-to/loops.md). The value is the schema of its rows. |\n"
)
_SINK = """\
## CREATE SINK and INSERT INTO

```text
CREATE SINK name [ PARTITIONED BY ( column, … ) ] WITH ( 'format' = 'parquet' [, 'key' = value, …] )
INSERT INTO name SELECT * FROM view
INSERT INTO name [ WITH ( 'key' = value, … ) ] SELECT …
```

`CREATE SINK` adds to `sinks`, and one `INSERT INTO` gives the sink its input. `SELECT * FROM view` writes the rows of a
view or source. Any other query becomes an operator with the name `SINK_input`; its `WITH` takes the keys of `CREATE
VIEW` and `name`.
"""
_SET = """\
## SET

```text
SET 'key' = value
```

Sets a field of the job. `name` is required. A value that is no text in quotes goes to the end of the statement, as the
query here does: `SET 'migrate.counts.sql' = SELECT k, sum(count) AS count FROM state GROUP BY k`.
The query for one of several tables is `migrate.UID.sql.TABLE`.
"""
_CONVERT = """\
## Conversion

`streamjob convert job.sql` writes a job as YAML. The result is the same job: each field, name and `uid` is kept.
Overlays are merged, variables are replaced, and `${env:NAME}` is kept. Comments outside of queries are lost.
"""


def render() -> str:
    """Return the reference as Markdown."""
    parts = [
        _HEAD,
        _SOURCE,
        _fields("sources") + _OPTIONS,
        _TABLE,
        _fields("tables"),
        _FUNCTION,
        _VIEW,
        _fields("operators") + _VIEW_KEYS,
    ]
    parts += [_SINK, "These keys of `CREATE SINK` are fields:\n", _fields("sinks") + _OPTIONS]
    parts += [_SET, _settings(), _CONVERT]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _fields(kind: str) -> str:
    described = {name: _described(_MODELS[kind], name) for name in FIELDS[kind]}
    if "inputs" in described:
        described["inputs"] = _INPUTS
    rows = [f"| `{name}` | {text} |" for name, text in described.items()]
    return "\n".join(["| Key | |", "|---|---|", *rows]) + "\n"


def _settings() -> str:
    rows = [
        f"| `{name}` | {_described(JobSpec, name)} |"
        for name in ("name", "parallelism", "maxParallelism", "batchDuration")
    ]
    for section, model in (("checkpointing", CheckpointingPolicy), ("channels", ChannelPolicy)):
        names = [field.alias or name for name, field in model.model_fields.items()]
        rows += [f"| `{section}.{name}` | {_described(model, name)} |" for name in names]
    names = [field.alias or name for name, field in MigrationSpec.model_fields.items()]
    rows += [
        f"| `migrate.UID.{name}` | Of `migrate` in YAML, by the view's `uid`. {_described(MigrationSpec, name)} |"
        for name in names
    ]
    rows.append("| `spark.…` | Spark's configuration for this job: `sparkConf` in YAML. |")
    return "\n".join(["| Key | |", "|---|---|", *rows]) + "\n"


_BELOW = {"watermark": Watermark, "registry": Registry, "temporalJoin": TemporalJoinSpec}


def _described(model: type[BaseModel], name: str) -> str:
    head, _, below = name.partition(".")
    if below:
        lookup: type[BaseModel] = LookupPolicy if model is TableSpec else LookupSpec
        return f"Of `{head}` in YAML. {_described({**_BELOW, 'lookup': lookup}.get(head, Encoding), below)}"
    (field,) = (each for key, each in model.model_fields.items() if name in (key, each.alias))
    return re.sub(r"\s+", " ", field.description or "").replace("|", "\\|")


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
