"""Mistakes in sinks: formats, deliveries, places, and databases."""

from __future__ import annotations

from tests.unit.job.texts import SINK, SOURCE, jdbc, job, postgresql, sql, topic

from streamjob.job.model.formats import EXACTLY_ONCE_FORMATS, TRANSACTIONAL_FORMATS

APPENDS = (
    "leave it out: the sink appends rows; delta, iceberg, kafka and postgresql replace rows with mode: upsert, and all "
    "but kafka whole tables with mode: replace"
)
ELSEWHERE = (
    "write to delta, iceberg or postgresql with mode: replace; or use outputMode update, and a sink with mode: upsert; "
    "or outputMode append"
)
EXACT = ", ".join(sorted(EXACTLY_ONCE_FORMATS | TRANSACTIONAL_FORMATS))

UNPUBLISHED = "leave publish out: rows are visible with the checkpoint that covers them"
VALUES = "{name: b, inputs: [a], sql: 'SELECT CAST(1 AS STRING) AS value FROM a'}"


def each_batch(of: str, more: str = "") -> str:
    """Return a sink that publishes each batch."""
    options = "{kafka.bootstrap.servers: 'b:1', topic: u}"
    return f"{{name: out, input: {of}, format: kafka, publish: batch, {more}options: {options}}}"


_OF_PARTS = {
    "unknown format of a sink": (
        job(sinks="{name: out, input: a, format: parqet}"),
        "sink 'out': has the unknown format 'parqet'",
        "did you mean 'parquet'?",
    ),
    "keys of a file sink": (
        job(sinks=SINK.replace("options", "key: {format: text}, options")),
        "sink 'out': has key, and the format 'parquet' has no records",
        "leave it out",
    ),
    "a sink with a schema": (
        job(
            sinks="{name: out, input: a, format: kafka, value: {format: json, schema: 'x INT'}, "
            "options: {kafka.bootstrap.servers: 'b:1', topic: t}}"
        ),
        "sink 'out': value.schema: a sink takes the columns of its rows",
        "leave it out",
    ),
    "updates into an exactly-once sink": (
        sql("SELECT x, count(*) FROM a GROUP BY x", more=", outputMode: update"),
        "sink 'out': would append a row again each time it changes: operator 'b' has outputMode update",
        ("write to delta, iceberg, kafka or postgresql with mode: upsert, or use outputMode append"),
    ),
    "updates into files at least once": (
        sql("SELECT x, count(*) FROM a GROUP BY x", more=", outputMode: update").replace(
            "format: parquet", "delivery: at-least-once, format: parquet"
        ),
        "sink 'out': would append a row again each time it changes: operator 'b' has outputMode update",
        "write to delta, iceberg, kafka or postgresql with mode: upsert, or use outputMode append",
    ),
    "updates into a topic without a key": (
        job(
            operators="{name: b, inputs: [a], sql: 'SELECT x, count(*) FROM a GROUP BY x', outputMode: update}",
            sinks="{name: out, input: b, format: kafka, options: {kafka.bootstrap.servers: 'b:1', topic: t}}",
        ),
        "sink 'out': would append a row again each time it changes: operator 'b' has outputMode update",
        "say mode: upsert and a key, or use outputMode append, or delivery: at-least-once",
    ),
    "whole results into a topic": (
        job(
            operators="{name: b, inputs: [a], sql: 'SELECT x, count(*) FROM a GROUP BY x', outputMode: complete}",
            sinks="{name: out, input: b, format: kafka, delivery: at-least-once, "
            "options: {kafka.bootstrap.servers: 'b:1', topic: t}}",
        ),
        "sink 'out': would append a row again each time it changes: operator 'b' has outputMode complete",
        ELSEWHERE,
    ),
    "whole results into a database": (
        job(
            operators="{name: b, inputs: [a], sql: 'SELECT x, count(*) FROM a GROUP BY x', outputMode: complete}",
            sinks=jdbc().replace("input: a", "input: b"),
        ),
        "sink 'out': would append a row again each time it changes: operator 'b' has outputMode complete",
        ELSEWHERE,
    ),
    "the checkpoints of a query": (
        job(sinks=SINK.replace("path: out", "path: out, CheckpointLocation: ck")),
        "sink 'out': has the option 'CheckpointLocation', which means nothing there",
        "leave it out: the job's checkpoints are at checkpointing.location",
    ),
    "a writer's mode for a class": (
        job(sinks="{name: out, input: a, format: org.other.Writer, options: {saveMode: overwrite}}"),
        "sink 'out': has the option 'saveMode', which means nothing there",
        APPENDS,
    ),
    "an option that the console does not have": (
        job(sinks="{name: out, input: a, format: console, options: {numRow: 5}}"),
        "sink 'out': has no option 'numRow'",
        "did you mean 'numRows'?",
    ),
    "an option of a sink that has none": (
        job(sinks="{name: out, input: a, format: noop, options: {path: out}}"),
        "sink 'out': has no option 'path'",
        "there are no options",
    ),
    "an option that a topic does not have, at least once": (
        job(
            sinks="{name: out, input: a, format: kafka, delivery: at-least-once, "
            "options: {kafka.bootstrap.servers: 'b:1', topik: t}}"
        ),
        "sink 'out': has no option 'topik'",
        "did you mean 'topic'?",
    ),
    "updates into a table that rows are appended to": (
        job(
            operators="{name: b, inputs: [a], sql: 'SELECT x, count(*) FROM a GROUP BY x', outputMode: update}",
            sinks="{name: out, input: b, format: postgresql, options: {url: 'postgresql://host/db', table: t}}",
        ),
        "sink 'out': would append a row again each time it changes: operator 'b' has outputMode update",
        "say mode: upsert and a key, or use outputMode append",
    ),
    "whole results into an exactly-once sink": (
        sql("SELECT x, count(*) FROM a GROUP BY x", more=", outputMode: complete"),
        "sink 'out': would append a row again each time it changes: operator 'b' has outputMode complete",
        ELSEWHERE,
    ),
    "whole results into a table that rows are appended to": (
        job(
            operators="{name: b, inputs: [a], sql: 'SELECT x, count(*) FROM a GROUP BY x', outputMode: complete}",
            sinks="{name: out, input: b, format: delta, options: {path: out}}",
        ),
        "sink 'out': would append a row again each time it changes: operator 'b' has outputMode complete",
        "say mode: replace; or use outputMode update, and a sink with mode: upsert; or outputMode append",
    ),
    "changed rows in the place of a table": (
        job(
            operators="{name: b, inputs: [a], sql: 'SELECT x, count(*) FROM a GROUP BY x', outputMode: update}",
            sinks="{name: out, input: b, format: delta, options: {path: out, mode: replace}}",
        ),
        "sink 'out': has mode: replace, and operator 'b' does not give its whole result with each batch",
        "use mode: replace for an aggregation with outputMode: complete",
    ),
    "new rows in the place of a table": (
        job(
            sinks="{name: out, input: a, format: postgresql, "
            "options: {url: 'postgresql://host/db', table: t, mode: replace}}"
        ),
        "sink 'out': has mode: replace, and source 'a' does not give its whole result with each batch",
        "use mode: replace for an aggregation with outputMode: complete",
    ),
    "a table that is replaced by key": (
        job(
            operators="{name: b, inputs: [a], sql: 'SELECT x, count(*) FROM a GROUP BY x', outputMode: complete}",
            sinks="{name: out, input: b, format: delta, options: {path: out, mode: replace, key: x}}",
        ),
        "sink 'out': has a key, and mode replace, which has no use for one",
        "say mode: upsert, or leave key out",
    ),
    "a table that is replaced at least once": (
        job(
            operators="{name: b, inputs: [a], sql: 'SELECT x, count(*) FROM a GROUP BY x', outputMode: complete}",
            sinks="{name: out, input: b, format: delta, delivery: at-least-once, options: {path: out, mode: replace}}",
        ),
        "sink 'out': has mode: replace, which replaces rows once a checkpoint has completed",
        "leave delivery out",
    ),
    "a mode of Spark's own sink for Iceberg": (
        job(
            sinks="{name: out, input: a, format: iceberg, delivery: at-least-once, options: {path: db.t, mode: upsert}}"
        ),
        "sink 'out': has mode: upsert, and delivery: at-least-once, for which Spark's own sink is used, which appends",
        "leave one of them out",
    ),
    "a key of several columns that is not encoded": (
        job(
            sinks="{name: out, input: a, format: kafka, "
            "options: {kafka.bootstrap.servers: 'b:1', topic: t, mode: upsert, key: 'x, t'}}"
        ),
        "sink 'out': has a key of several columns, and does not say how to encode it",
        "give the sink key: {format: json}",
    ),
    "exactly-once into another kind of place": (
        job(sinks="{name: out, input: a, format: json, options: {path: 'hdfs://host/x'}}"),
        (
            "sink 'out': delivers exactly-once, which takes a directory that can rename files or s3://bucket/path, and "
            "not hdfs://host/x"
        ),
        "name a directory, which may be a mounted volume, name s3://bucket/path, or say delivery: at-least-once",
    ),
    "exactly-once into a bucket by Hadoop's name": (
        job(sinks="{name: out, input: a, format: json, options: {path: 's3a://bucket/x'}}"),
        "sink 'out': has the path s3a://bucket/x, with Hadoop's scheme",
        "write it as s3://bucket/x",
    ),
    "an option that files in a bucket do not have": (
        job(sinks="{name: out, input: a, format: json, options: {path: 's3://bucket/x', compresion: gzip}}"),
        "sink 'out': has no option 'compresion' for json files in a bucket",
        "did you mean 'compression'?",
    ),
    "exactly-once of what cannot": (
        job(sinks=jdbc(more=", delivery: exactly-once")),
        "sink 'out': cannot deliver exactly-once: the format 'jdbc' has no way to publish rows later",
        f"use one of {EXACT}, your own module:Class, or delivery: at-least-once",
    ),
    "a database at least once": (
        job(sinks=postgresql(more=", delivery: at-least-once")),
        "sink 'out': has the format 'postgresql', which delivers exactly-once and in no other way",
        "leave delivery out",
    ),
    "files of each batch": (
        job(sinks=SINK.replace("options", "publish: batch, options")),
        (
            "sink 'out': cannot publish each batch: the format 'parquet' does not write rows and their record in one "
            "transaction"
        ),
        f"{UNPUBLISHED}; or write to delta, kafka, postgresql",
    ),
    "each batch at least once": (
        job(sources=topic("bounded: true"), sinks=each_batch("a", "delivery: at-least-once, ")),
        "sink 'out': has publish: batch, and delivery: at-least-once, which publishes each batch anyway",
        "leave publish out",
    ),
    "each batch of files": (
        job(operators=VALUES, sinks=each_batch("b")),
        (
            "sink 'out': cannot publish each batch: the positions of source 'a' do not tell alone which rows a batch "
            "has read"
        ),
        f"read the rows from Kafka; or {UNPUBLISHED}",
    ),
    "each batch behind a channel": (
        job(
            sources=topic("bounded: true"),
            operators=VALUES[:-1] + ", chain: false}",
            sinks=each_batch("b"),
        ),
        (
            "sink 'out': cannot publish each batch: its rows come through a channel from 'a' (operator 'b' has "
            "chain: false), and which of them a batch reads is not repeated after a failure"
        ),
        f"let one query compute them, see `streamjob plan`; or {UNPUBLISHED}",
    ),
    "each batch of what reads a table": (
        job(
            sources=topic("bounded: true"),
            operators="{name: b, inputs: [a], sql: 'SELECT value FROM a JOIN known USING (key)'}",
            sinks=each_batch("b"),
            more="tables: [{name: known, format: parquet, options: {path: known}}]",
        ),
        (
            "sink 'out': cannot publish each batch: operator 'b' reads known, which may have other rows when a batch "
            "runs again"
        ),
        UNPUBLISHED,
    ),
    "partitions of what has none": (
        job(sinks="{name: out, input: a, format: console, partitionBy: [x]}"),
        "sink 'out': has partitionBy, which the format 'console' does not know",
        "leave it out: files and Delta tables can be partitioned",
    ),
    "sinks at one place": (
        job(sinks=f"{SINK}, {{name: out2, input: a, format: json, options: {{path: './x/../out/'}}}}"),
        "sink 'out2': writes where the sink 'out' writes: DIR/out",
        "give it its own path",
    ),
    "sink inside of a sink": (
        job(sinks=f"{SINK}, {{name: out2, input: a, format: json, options: {{path: out/more}}}}"),
        "sink 'out2': writes inside of where the sink 'out' writes: DIR/out/more",
        "give it its own path",
    ),
    "sinks at one place in a bucket": (
        job(
            sinks="{name: out, input: a, format: json, delivery: at-least-once, options: {path: 's3a://bucket/x'}}, "
            "{name: out2, input: a, format: json, delivery: at-least-once, options: {path: 's3://bucket/x/'}}"
        ),
        "sink 'out2': writes where the sink 'out' writes: s3://bucket/x",
        "give it its own path",
    ),
    "sink in a source's directory": (
        job(sources=SOURCE.replace("path: in", "path: 'in/*.csv'"), sinks=SINK.replace("path: out", "path: in")),
        "sink 'out': writes where the source 'a' reads: DIR/in",
        "give it its own path",
    ),
}
_OF_POSTGRESQL = {
    "a database without a table": (
        "url: 'postgresql://host/db'",
        "lacks the option 'table'",
        "add table: schema.table",
    ),
    "an address of another kind": (
        "url: 'jdbc:postgresql://host/db', table: t",
        "the option 'url' is not the address of a PostgreSQL server",
        "write postgresql://host:5432/database",
    ),
    "an option that a database does not have": (
        "url: 'postgresql://host/db', dbtable: t, table: t",
        "has no option 'dbtable'",
        "did you mean 'table'?",
    ),
    "a mode of a few": (
        "url: 'postgresql://host/db', table: t, mode: merge",
        "the option 'mode' cannot be used: Input should be 'insert', 'upsert' or 'replace'",
        "say mode: insert, mode: upsert or mode: replace",
    ),
    "rows replaced without a key": (
        "url: 'postgresql://host/db', table: t, mode: upsert",
        "has mode upsert and no key",
        "name the columns of a unique index: key: id",
    ),
    "a key for rows that are inserted": (
        "url: 'postgresql://host/db', table: t, key: id",
        "has a key, and mode insert, which has no use for one",
        "say mode: upsert, or leave key out",
    ),
    "a column twice in a key": (
        "url: 'postgresql://host/db', table: t, mode: upsert, key: 'id, day, id'",
        "names a column twice in key",
        "name each column once",
    ),
    "a name that no table can have": (
        "url: 'postgresql://host/db', table: public.",
        "the option 'table' holds a name that PostgreSQL cannot have",
        "names have 1 to 63 bytes",
    ),
    "a password in an address": (
        "url: 'postgresql://u:hunter2@host/db', table: t",
        "the option 'url' holds a secret, and secrets do not belong in the job file",
        "take it from the environment: ${env:URL}",
    ),
}
_OF_JDBC = {
    "a database of any kind without a table": (
        "url: 'jdbc:db2://host/db'",
        "lacks the option 'dbtable'",
        "add dbtable: schema.table",
    ),
    "an address that is none for JDBC": (
        "url: 'db2://host/db', dbtable: t",
        "the option 'url' is not a JDBC URL",
        "begin it with jdbc: and the name of the driver",
    ),
    "a mode of Spark's writer": (
        "url: 'jdbc:db2://host/db', dbtable: t, mode: overwrite",
        "has the option 'mode', which means nothing there",
        APPENDS,
    ),
    "a table to be emptied": (
        "url: 'jdbc:db2://host/db', dbtable: t, truncate: true",
        "has the option 'truncate', which means nothing there",
        "leave it out: the sink appends rows, and empties no table",
    ),
    "an option for reading": (
        "url: 'jdbc:db2://host/db', dbtable: t, fetchSize: 100",
        "has the option 'fetchSize', which means nothing there",
        "leave it out: Spark reads it for tables only",
    ),
    "a query to write to": (
        "url: 'jdbc:db2://host/db', query: SELECT 1",
        "has the option 'query', which only reads",
        "name the table to write to: dbtable: schema.table",
    ),
    "a query from the environment": (
        "url: 'jdbc:db2://host/db', query: '${env:QUERY}'",
        "has the option 'query', which only reads",
        "name the table to write to: dbtable: schema.table",
    ),
    "a query for a table": (
        "URL: 'jdbc:db2://host/db', dbTable: '(SELECT 1) t'",
        "the option 'dbtable' holds a query, which only reads",
        "name the table to write to",
    ),
    "password": (
        "url: 'jdbc:db2://host/db', dbtable: t, password: hunter2",
        "the option 'password' holds a secret, and secrets do not belong in the job file",
        "take it from the environment: ${env:PASSWORD}",
    ),
    "login in a URL": (
        "url: 'jdbc:postgresql://me:hunter2@host/db', dbtable: t",
        "the option 'url' holds a secret, and secrets do not belong in the job file",
        "take it from the environment: ${env:URL}",
    ),
}
"""By name: the options, the problem, and the fix."""

OF_SINKS = {
    **_OF_PARTS,
    **{
        name: (job(sinks=sink(options)), f"sink 'out': {what}", fix)
        for sink, mistakes in ((postgresql, _OF_POSTGRESQL), (jdbc, _OF_JDBC))
        for name, (options, what, fix) in mistakes.items()
    },
}
