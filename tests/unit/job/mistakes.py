"""Jobs with one mistake each: the text, what is said to be wrong, and the fix."""

from __future__ import annotations

from tests.unit.job.texts import MARKED, SINK, SOURCE, computed, jdbc, job, looped, postgresql, sql, topic

from streamjob.job.formats import EXACTLY_ONCE_FORMATS, TRANSACTIONAL_FORMATS

EXACT = ", ".join(sorted(EXACTLY_ONCE_FORMATS | TRANSACTIONAL_FORMATS))

OF_FORM = {
    "unknown field": (
        job(more="paralelism: 3"),
        "job: has no field 'paralelism'",
        "did you mean 'parallelism'?",
    ),
    "field in snake case": (
        job(more="max_parallelism: 3"),
        "job: has no field 'max_parallelism'",
        "did you mean 'maxParallelism'?",
    ),
    "unknown field of a source": (
        job(sources=SOURCE.replace("schema:", "schma:")),
        "source 'a': has no field 'schma'",
        "did you mean 'schema'?",
    ),
    "option outside of options": (
        job(sources=SOURCE.replace("}}", "}, maxFilesPerTrigger: 3}")),
        "source 'a': has no field 'maxFilesPerTrigger'",
        (
            "an option of the format belongs under `options`; "
            "the fields are name, uid, format, schema, key, value, onError, skip, columns, python, options, bounded, "
            "watermark"
        ),
    ),
    "unknown field of a watermark": (
        job(sources=MARKED.replace("delay: 1h", "delay: 1h, colum: t")),
        "source 'a': has no field 'watermark.colum'",
        "did you mean 'column'?",
    ),
    "field that is missing": (
        job(sources="{name: a}"),
        "source 'a': lacks 'format'",
        "add `format`: Spark's name of the source: csv, json, parquet, kafka, rate, …",
    ),
    "word of a few": (
        job(more="checkpointing: {mode: unalligned}"),
        "checkpointing: mode must be aligned or unaligned, not 'unalligned'",
        "did you mean 'unaligned'?",
    ),
    "name with a space": (
        job(name="name: my job"),
        "job: name cannot be 'my job'",
        "use letters, digits, '.', '_' and '-'",
    ),
    "name of a source that is no table": (
        job(sources=SOURCE.replace("name: a", "name: a.b"), sinks=SINK.replace("input: a", "input: a-b")),
        "source 'a.b': name cannot be 'a.b'",
        "use letters, digits, '_' and '-', and begin with a letter",
    ),
    "parallelism of zero": (job(more="parallelism: 0"), "job: parallelism must be at least 1", ""),
    "parallelism in words": (job(more="parallelism: two"), "job: parallelism must be a whole number", ""),
    "max parallelism too small": (
        job(more="parallelism: 4\nmaxParallelism: 2"),
        "job: maxParallelism is 2, but parallelism is 4",
        "set maxParallelism to 4 or more",
    ),
    "interval too short": (
        job(more="checkpointing: {interval: 10ms}"),
        "checkpointing: interval must be at least 100ms",
        "",
    ),
    "no timeout": (job(more="checkpointing: {timeout: 0}"), "checkpointing: timeout must be more than 0s", ""),
    "negative pause": (job(more="checkpointing: {minPause: -1}"), "checkpointing: minPause must be at least 0s", ""),
    "none retained": (job(more="checkpointing: {numRetained: 0}"), "checkpointing: numRetained must be at least 1", ""),
    "not a duration": (
        job(more="checkpointing: {interval: often}"),
        "checkpointing: interval: 'often' is not a duration; write it like 10s, 5m, 1h or 250ms",
        "",
    ),
    "option that is a list": (
        job(sources=SOURCE.replace("path: in", "path: in, x: [1]")),
        "source 'a': options.x must be text, a number, true or false",
        "write it as Spark takes it",
    ),
    "input that is no name": (
        job(operators="{name: b, inputs: [a, 3], sql: 'SELECT * FROM a'}", sinks=SINK.replace("input: a", "input: b")),
        "operator 'b': inputs[1] must be a name, or {from: name, feedback: true}",
        "",
    ),
    "part that is no mapping": (job(sources=f"{SOURCE}, x"), "source number 2: must be a mapping", ""),
    "key that is a number": (
        job(sources=SOURCE.replace("path: in", "path: in, 3: x")),
        "source 'a': has a key that is not text",
        "put it in quotes",
    ),
    "inputs that are no list": (
        job(operators="{name: b, inputs: a, sql: 'SELECT * FROM a'}"),
        "operator 'b': inputs must be a list",
        "",
    ),
    "unknown input of a sink": (
        job(sources=SOURCE.replace("name: a", "name: flights"), sinks=SINK.replace("input: a", "input: flihgts")),
        "sink 'out': has the unknown input 'flihgts'",
        "did you mean 'flights'?",
    ),
    "sink as an input": (
        job(sinks=f"{SINK}, {{name: out2, input: out, format: console}}"),
        "sink 'out2': reads the sink 'out'",
        "read the input of the sink instead",
    ),
    "input named twice": (
        sql("SELECT * FROM a", inputs="a, a"),
        "operator 'b': has the input 'a' twice",
        "name it once; SQL can read it as often as needed",
    ),
    "no inputs": (
        job(operators="{name: b, inputs: [], python: 'b:b'}", sinks=f"{SINK}, {{name: o2, input: b, format: console}}"),
        "operator 'b': has no inputs",
        "name at least one: a, b",
    ),
    "duplicate name": (
        job(sinks=f"{SINK}, {{name: OUT, uid: x, input: a, format: console}}"),
        "sink 'OUT': has the name of the sink 'out'",
        "give each part a name of its own",
    ),
    "duplicate uid": (
        job(sinks=f"{SINK}, {{name: out2, uid: a, input: a, format: console}}"),
        "sink 'out2': has the uid 'a' of the source 'a'",
        "give each part a uid of its own: state is matched by it",
    ),
    "unused source": (
        job(sources=f"{SOURCE}, {{name: z, format: rate}}"),
        "source 'z': nothing reads it",
        "name it as an input, or remove it",
    ),
    "no sink": (job(sinks=""), "job: has no sink", "add one under `sinks`: a job without one computes nothing"),
    "channel without room": (
        job(more="channels: {capacityBytes: 0}"),
        "channels: capacityBytes must be at least 1",
        "",
    ),
    "field of channels": (
        job(more="channels: {capacityByte: 1}"),
        "channels: has no field 'capacityByte'",
        "did you mean 'capacityBytes'?",
    ),
    "channel in megabytes": (
        job(more="channels: {capacityBytes: 64MB}"),
        "channels: capacityBytes must be a whole number",
        "",
    ),
}
"""Mistakes visible in the file alone: fields, values, names and inputs."""

OF_MEANING = {
    "unknown format of a source": (
        job(sources="{name: a, format: kafak}"),
        "source 'a': has the unknown format 'kafak'",
        "did you mean 'kafka'?",
    ),
    "unknown format of a sink": (
        job(sinks="{name: out, input: a, format: parqet}"),
        "sink 'out': has the unknown format 'parqet'",
        "did you mean 'parquet'?",
    ),
    "cleanSource": (
        job(sources=SOURCE.replace("path: in", "path: in, cleansource: archive")),
        "source 'a': has the option cleanSource: Spark would remove files that a restored checkpoint reads again",
        "leave it out, and remove files older than the oldest checkpoint yourself",
    ),
    "no schema": (
        job(sources="{name: a, format: json, options: {path: in}}"),
        "source 'a': has no schema; a stream of json files needs one",
        "give schema: 'name TYPE, name TYPE'",
    ),
    "schema that does not parse": (
        job(sources=SOURCE.replace("TIMESTAMP", "TIMSTAMP")),
        "source 'a': its schema gives the column 't' the unknown type 'TIMSTAMP'",
        "did you mean 'timestamp'?",
    ),
    "schema of a source that has its own": (
        job(sources="{name: a, format: rate, schema: 'x INT'}"),
        "source 'a': has a schema, but the columns of 'rate' are fixed",
        "leave it out",
    ),
    "no path": (
        job(sources="{name: a, format: text}"),
        "source 'a': lacks the option 'path'",
        "give options: {path: …}; it is relative to the file",
    ),
    "watermark on no column": (
        job(sources=MARKED.replace("column: t", "column: tt")),
        "source 'a': its watermark is on 'tt', which is not a column of its schema",
        "did you mean 't'?",
    ),
    "watermark on another type": (
        job(sources=MARKED.replace("TIMESTAMP", "TIMESTAMP_NTZ")),
        "source 'a': its watermark is on 't', a column of type TIMESTAMP_NTZ",
        "make it a TIMESTAMP in the schema, or compute one: columns: ['*', 'to_timestamp(t) AS at']",
    ),
    "watermark inside of a column": (
        job(sources=MARKED.replace("t TIMESTAMP", "s STRUCT<t: TIMESTAMP>").replace("column: t", "column: s.t")),
        "source 'a': its watermark is on 's.t', a field inside of a column",
        "make it a column of its own, columns: ['*', 's.t AS t'], and name 't' in the watermark",
    ),
    "watermark on no column of rate": (
        job(sources="{name: a, format: rate, watermark: {column: time, delay: 1 hour}}"),
        "source 'a': its watermark is on 'time', which is not a column of its schema",
        "did you mean 'timestamp'?",
    ),
    "watermark on no column and on nothing like one": (
        job(sources="{name: a, format: rate, watermark: {column: at, delay: 1 hour}}"),
        "source 'a': its watermark is on 'at', which is not a column of its schema",
        "the TIMESTAMP columns are timestamp, or compute it: columns: ['*', '… AS at']",
    ),
    "watermark on no computed column": (
        job(sources=computed("'*', 'to_timestamp(x) AS at'", "att")),
        "source 'a': its watermark is on 'att', which is not a column that its columns compute",
        "did you mean 'at'?",
    ),
    "watermark on a column that is no longer there": (
        job(sources=computed("'t AS started', 'x'", "t")),
        "source 'a': its watermark is on 't', which is not a column that its columns compute",
        "the TIMESTAMP columns are started",
    ),
    "watermark on a computed column of another type": (
        job(sources=computed("'*', 'CAST(t AS STRING) AS at'", "at")),
        "source 'a': its watermark is on 'at', a column of type STRING",
        "let columns compute a TIMESTAMP, for example with to_timestamp(…)",
    ),
    "watermark inside of a computed column": (
        job(sources=computed("'struct(t) AS s'", "s.t")),
        "source 'a': its watermark is on 's.t', a field inside of a column",
        "make it a column of its own, add 's.t AS t' to columns, and name 't' in the watermark",
    ),
    "a second watermark": (
        sql("SELECT * FROM a", sources=MARKED, more=", watermark: {column: t, delay: 1h}"),
        "operator 'b': has a watermark, and the rows of its input 'a' have one already",
        "keep one of them: a row has one event time",
    ),
    "a watermark of an aggregation": (
        sql(
            "SELECT x, max(t) AS t FROM a GROUP BY x", more=", outputMode: update, watermark: {column: t, delay: 1h}"
        ).replace("format: parquet", "format: console"),
        "operator 'b': has a watermark, and keeps state that needs it before",
        "give the watermark to its input, or to an operator in between",
    ),
    "columns and a function": (
        job(sources=computed("'*'", "t", ", python: 'json:loads'")),
        "source 'a': has both columns and python",
        "keep one of them",
    ),
    "values of files": (
        job(sources=SOURCE.replace("options", "value: {format: text}, options")),
        "source 'a': has value, and the format 'csv' has no records",
        "use columns with from_json and the like",
    ),
    "keys of a file sink": (
        job(sinks=SINK.replace("options", "key: {format: text}, options")),
        "sink 'out': has key, and the format 'parquet' has no records",
        "leave it out",
    ),
    "values of an unknown form": (
        job(sources=topic("value: {format: jsn, schema: 'x INT'}")),
        "source 'a': value.format must be csv or json or text, not 'jsn'",
        "did you mean 'json'?",
    ),
    "unknown field of an encoding": (
        job(sources=topic("value: {format: json, shema: 'x INT', schema: 'x INT'}")),
        "source 'a': has no field 'value.shema'",
        "did you mean 'schema'?",
    ),
    "values without a schema": (
        job(sources=topic("value: {format: json}")),
        "source 'a': value has no schema",
        "give value: {format: json, schema: 'name TYPE, …'}",
    ),
    "a text with a schema": (
        job(sources=topic("key: {format: text, schema: 'x INT'}")),
        "source 'a': key.schema: a text has no fields",
        "leave it out, or use json or csv",
    ),
    "values with a wrong schema": (
        job(sources=topic("value: {format: csv, schema: 'x INTT'}")),
        "source 'a': value.schema gives the column 'x' the unknown type 'INTT'",
        "did you mean 'int'?",
    ),
    "a mode of decoding": (
        job(sources=topic("value: {format: csv, schema: 'x INT', options: {Mode: FAILFAST}}")),
        "source 'a': value.options has 'Mode'",
        "onError decides about records that cannot be decoded",
    ),
    "an error of nothing": (
        job(sources=topic("onError: drop")),
        "source 'a': has onError, and decodes nothing",
        "give the source value: {format: …, schema: …}, or use try_… functions in columns",
    ),
    "dead letters that nobody reads": (
        job(sources=topic("onError: deadLetter, value: {format: text}")),
        "source 'a': has onError: deadLetter, and nothing reads 'a_dead_letters'",
        "add a sink with input: a_dead_letters, or say onError: drop",
    ),
    "an unknown way to handle errors": (
        job(sources=topic("onError: ignore, value: {format: text}")),
        "source 'a': onError must be fail or drop or deadLetter, not 'ignore'",
        "",
    ),
    "a record to skip without an offset": (
        job(sources=topic("skip: 't/0/17, t/1'")),
        "source 'a': skip has 't/1', which is no record",
        "write topic/partition/offset, separated by commas: orders/3/184467",
    ),
    "a record of files to skip": (
        job(sources=SOURCE.replace("options", "skip: t/0/1, options")),
        "source 'a': has skip, and the format 'csv' has no records",
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
    "watermark on a decoded value": (
        job(sources=topic("value: {format: json, schema: 't TIMESTAMP'}, watermark: {column: value, delay: 1h}")),
        "source 'a': its watermark is on 'value', a column of type STRUCT",
        "make it a TIMESTAMP in the schema, or compute one: columns: ['*', 'to_timestamp(value) AS at']",
    ),
    "watermark inside of a decoded value": (
        job(sources=topic("value: {format: json, schema: 't TIMESTAMP'}, watermark: {column: value.t, delay: 1h}")),
        "source 'a': its watermark is on 'value.t', a field inside of a column",
        "make it a column of its own, columns: ['*', 'value.t AS t'], and name 't' in the watermark",
    ),
    "no columns": (
        job(sources=SOURCE.replace("options", "columns: [], options")),
        "source 'a': its columns are an empty list",
        "begin with '*', or leave columns out",
    ),
    "columns that do not parse": (
        job(sources=computed("'*', 'x +'", "t")),
        "source 'a': its columns have 'x +', which does not parse near '+'",
        "write an expression, perhaps with AS name",
    ),
    "columns that are a query": (
        job(sources=computed("'* FROM b'", "t")),
        "source 'a': its columns have '* FROM b', which is more than an expression",
        "write only the part after SELECT",
    ),
    "columns in one text": (
        job(sources=computed("'x, t'", "t")),
        "source 'a': its columns have 'x, t', which is several expressions",
        "make each an element of the list",
    ),
    "columns that aggregate": (
        job(sources=computed("'t', 'max(x) AS y'", "t")),
        "source 'a': its columns have 'max(x) AS y', and MAX() needs other rows",
        "compute it in an operator, which may keep state",
    ),
    "columns over a window of rows": (
        job(sources=computed("'t', 'lag(x) OVER (ORDER BY t) AS y'", "t")),
        "source 'a': its columns have 'lag(x) OVER (ORDER BY t) AS y', and a window function (OVER) needs other rows",
        "compute it in an operator, which may keep state",
    ),
    "columns that are no list": (
        job(sources=SOURCE.replace("options", "columns: 'x', options")),
        "source 'a': columns must be a list",
        "",
    ),
    "a function of a source that is no reference": (
        job(sources=SOURCE.replace("options", "python: decode, options")),
        "source 'a': python cannot be 'decode'",
        "write it as module:function",
    ),
    "watermark in SQL": (
        sql("SELECT * FROM a WATERMARK t DELAY OF INTERVAL 1 HOUR"),
        "operator 'b': its SQL sets a watermark; watermarks are declared, so that each is kept across restarts",
        "give the source or the operator `watermark: {column: …, delay: …}`",
    ),
    "aggregation without a watermark": (
        sql("SELECT x, count(*) FROM a GROUP BY x"),
        "operator 'b': its SQL has GROUP BY in append mode, which never knows when a row is final without a watermark",
        "give the source 'a' `watermark: {column: …, delay: …}`",
    ),
    "outer join without a watermark": (
        sql(
            "SELECT a.x FROM a LEFT JOIN r ON a.x = r.value",
            inputs="a, r",
            sources=f"{SOURCE}, {{name: r, format: rate}}",
        ),
        "operator 'b': its SQL has LEFT JOIN, which never knows when a row is final without a watermark",
        "give the source 'a' or 'r' `watermark: {column: …, delay: …}`",
    ),
    "no stream can": (
        sql("SELECT * FROM a ORDER BY x"),
        "operator 'b': its SQL has ORDER BY, which Spark cannot compute on a stream",
        "leave it out",
    ),
    "SQL that does not parse": (
        sql("SELEC x FROM a"),
        "operator 'b': its SQL does not parse: Invalid expression / Unexpected token (line 1, column 12, near 'FROM')",
        "correct the query",
    ),
    "SQL of another table": (
        sql("SELECT * FROM a JOIN flihgts f ON a.x = f.x", sources=SOURCE),
        "operator 'b': its SQL reads 'flihgts', which is not one of its inputs",
        "the inputs are a",
    ),
    "SQL that leaves out an input": (
        sql("SELECT * FROM a", inputs="a, r", sources=f"{SOURCE}, {{name: r, format: rate}}"),
        "operator 'b': its SQL does not read its input 'r'",
        "remove the input",
    ),
    "no code": (
        job(operators="{name: b, inputs: [a]}", sinks=SINK.replace("input: a", "input: b")),
        "operator 'b': has no code",
        "give it sql: 'SELECT …' or python: module:function",
    ),
    "two codes": (
        sql("SELECT * FROM a", more=", python: 'os:getcwd'"),
        "operator 'b': has both sql and python",
        "keep one of them",
    ),
    "function without a module": (
        job(operators="{name: b, inputs: [a], python: enrich}", sinks=SINK.replace("input: a", "input: b")),
        "operator 'b': python cannot be 'enrich'",
        "write it as module:function",
    ),
    "module that is not there": (
        job(operators="{name: b, inputs: [a], python: 'nowhere:f'}", sinks=SINK.replace("input: a", "input: b")),
        "operator 'b': there is no module 'nowhere'",
        "put nowhere.py next to the job file",
    ),
    "updates into an exactly-once sink": (
        sql("SELECT x, count(*) FROM a GROUP BY x", more=", outputMode: update"),
        "sink 'out': delivers exactly-once, which takes append only, but operator 'b' has outputMode update",
        "use outputMode append, or delivery: at-least-once",
    ),
    "updates into an operator": (
        job(
            operators="{name: b, inputs: [a], sql: 'SELECT x, count(*) AS n FROM a GROUP BY x', outputMode: update}, "
            "{name: c, inputs: [b], sql: 'SELECT n FROM b'}",
            sinks=SINK.replace("input: a", "input: c"),
        ),
        (
            "operator 'b': has outputMode update, but the operator 'c' reads it and would count a row again each "
            "time it is updated"
        ),
        "use outputMode append",
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
    "a database without a table": (
        job(sinks=postgresql("url: 'postgresql://host/db'")),
        "sink 'out': lacks the option 'table'",
        "add table: schema.table",
    ),
    "an address of another kind": (
        job(sinks=postgresql("url: 'jdbc:postgresql://host/db', table: t")),
        "sink 'out': the option 'url' is not the address of a PostgreSQL server",
        "write postgresql://host:5432/database",
    ),
    "an option that a database does not have": (
        job(sinks=postgresql("url: 'postgresql://host/db', dbtable: t, table: t")),
        "sink 'out': has no option 'dbtable'",
        "did you mean 'table'?",
    ),
    "a mode of a few": (
        job(sinks=postgresql("url: 'postgresql://host/db', table: t, mode: merge")),
        "sink 'out': the option 'mode' cannot be used: Input should be 'insert' or 'upsert'",
        "say mode: insert or mode: upsert",
    ),
    "rows replaced without a key": (
        job(sinks=postgresql("url: 'postgresql://host/db', table: t, mode: upsert")),
        "sink 'out': has mode upsert and no key",
        "name the columns of a unique index: key: id",
    ),
    "a key for rows that are inserted": (
        job(sinks=postgresql("url: 'postgresql://host/db', table: t, key: id")),
        "sink 'out': has a key, and mode insert, which has no use for one",
        "say mode: upsert, or leave key out",
    ),
    "a column twice in a key": (
        job(sinks=postgresql("url: 'postgresql://host/db', table: t, mode: upsert, key: 'id, day, id'")),
        "sink 'out': names a column twice in key",
        "name each column once",
    ),
    "a name that no table can have": (
        job(sinks=postgresql("url: 'postgresql://host/db', table: public.")),
        "sink 'out': the option 'table' holds a name that PostgreSQL cannot have",
        "names have 1 to 63 bytes",
    ),
    "a database of any kind without a table": (
        job(sinks=jdbc("url: 'jdbc:db2://host/db'")),
        "sink 'out': lacks the option 'dbtable'",
        "add dbtable: schema.table",
    ),
    "an address that is none for JDBC": (
        job(sinks=jdbc("url: 'db2://host/db', dbtable: t")),
        "sink 'out': the option 'url' is not a JDBC URL",
        "begin it with jdbc: and the name of the driver",
    ),
    "a query to write to": (
        job(sinks=jdbc("url: 'jdbc:db2://host/db', query: SELECT 1")),
        "sink 'out': has the option 'query', which only reads",
        "name the table to write to: dbtable: schema.table",
    ),
    "a query for a table": (
        job(sinks=jdbc("URL: 'jdbc:db2://host/db', dbTable: '(SELECT 1) t'")),
        "sink 'out': the option 'dbtable' holds a query, which only reads",
        "name the table to write to",
    ),
    "a password in an address": (
        job(sinks=postgresql("url: 'postgresql://u:hunter2@host/db', table: t")),
        "sink 'out': the option 'url' holds a secret, and secrets do not belong in the job file",
        "take it from the environment: ${env:URL}",
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
    "bounded stream": (
        job(sources="{name: a, format: rate, bounded: true}"),
        "source 'a': is bounded, and where 'rate' ends is unknown",
        "bounded sources are files, avro, csv, json, orc, parquet, text, and kafka",
    ),
    "Spark's partitions": (
        job(more="sparkConf: {spark.sql.shuffle.partitions: 8}"),
        "sparkConf: spark.sql.shuffle.partitions is set by the runtime",
        "set maxParallelism: it is the number of state partitions",
    ),
    "Spark's checkpoint": (
        job(more="sparkConf: {spark.sql.streaming.checkpointLocation: x}"),
        "sparkConf: spark.sql.streaming.checkpointLocation is set by the runtime",
        "set checkpointing.location",
    ),
    "Spark's state store": (
        job(more="sparkConf: {spark.sql.streaming.stateStore.providerClass: x}"),
        "sparkConf: spark.sql.streaming.stateStore.providerClass is set by the runtime",
        "leave it out: snapshots rely on one format of state",
    ),
    "the files of the job": (
        job(more="sparkConf: {spark.hadoop.fs.job.impl: x}"),
        "sparkConf: spark.hadoop.fs.job.impl is set by the runtime",
        "leave it out: Spark finds a job's files by it",
    ),
    "not Spark's": (
        job(more="sparkConf: {driver.memory: 2g}"),
        "sparkConf: driver.memory does not begin with 'spark.', so Spark ignores it",
        "write spark.driver.memory",
    ),
    "password": (
        job(sinks=jdbc("url: 'jdbc:db2://host/db', dbtable: t, password: hunter2")),
        "sink 'out': the option 'password' holds a secret, and secrets do not belong in the job file",
        "take it from the environment: ${env:PASSWORD}",
    ),
    "login in a URL": (
        job(sinks=jdbc("url: 'jdbc:postgresql://me:hunter2@host/db', dbtable: t")),
        "sink 'out': the option 'url' holds a secret, and secrets do not belong in the job file",
        "take it from the environment: ${env:URL}",
    ),
    "secret key of a bucket": (
        job(more="sparkConf: {spark.hadoop.fs.s3a.secret.key: hunter2}"),
        (
            "sparkConf: the option 'spark.hadoop.fs.s3a.secret.key' holds a secret, and secrets do not belong in the "
            "job file"
        ),
        "take it from the environment: ${env:FS_S3A_SECRET_KEY}",
    ),
    "feedback": (
        job(operators="{name: b, inputs: [a, {from: b, feedback: true}], sql: 'SELECT a.x FROM a, b'}").replace(
            "input: a", "input: b"
        ),
        "operator 'b': its feedback input 'b' has no schema: a feedback input is read before its producer is known",
        "give the input schema: 'name TYPE, name TYPE'",
    ),
    "feedback with a schema that is none": (
        looped("{name: b, inputs: [a, {from: b, feedback: true, schema: 'x'}], sql: 'SELECT a.x FROM a, b'}"),
        "operator 'b': the schema of its feedback input 'b' ends where a type for the column 'x' should be",
        "write it as `name TYPE, name TYPE`",
    ),
    "feedback that closes no cycle": (
        looped(
            "{name: b, inputs: [{from: a, feedback: true, schema: 'x INT'}, c], sql: 'SELECT a.x FROM a, c'}, "
            "{name: c, inputs: [a], sql: 'SELECT * FROM a'}"
        ),
        "operator 'b': its feedback input 'a' closes no cycle",
        "read it as a plain input: its name alone",
    ),
    "nothing but feedback": (
        looped("{name: b, inputs: [{from: b, feedback: true, schema: 'x INT'}], sql: 'SELECT * FROM b'}"),
        "operator 'b': reads nothing but feedback, so nothing ever comes into its loop",
        "name an input from outside of the loop, too",
    ),
    "schema of a plain input": (
        looped("{name: b, inputs: [{from: a, schema: 'x INT'}], sql: 'SELECT * FROM a'}"),
        "operator 'b': the input 'a' has a schema, but is not a feedback input",
        "leave it out: the columns are known",
    ),
    "windows in a loop": (
        looped(
            "{name: b, inputs: [a, {from: c, feedback: true, schema: 'x INT, t TIMESTAMP'}], "
            "sql: 'SELECT * FROM a UNION ALL SELECT * FROM c'}, {name: c, inputs: [b], "
            "sql: \"SELECT max(x) AS x, max(t) AS t FROM b GROUP BY window(t, '1 hour')\"}",
            sources=MARKED,
        ),
        (
            "operator 'c': has GROUP BY, in a loop with 'b': a row may always come round again, so event time never "
            "passes there, and a timer that is set cannot be seen"
        ),
        "do it before the loop, or keep state that needs no time",
    ),
    "windows behind a loop": (
        looped(
            "{name: c, inputs: [a, {from: c, feedback: true, schema: 'x INT, t TIMESTAMP'}], "
            "sql: 'SELECT * FROM a UNION ALL SELECT * FROM c'}, {name: b, inputs: [c], "
            "sql: \"SELECT max(x) AS x FROM c GROUP BY window(t, '1 hour')\"}",
            sources=MARKED,
        ),
        (
            "operator 'b': its SQL has GROUP BY in append mode, which never knows when a row is final: the output of "
            "a loop has no watermark"
        ),
        "do it before the loop, or keep state that needs no time",
    ),
}
"""Mistakes that Spark or the sinks would refuse: formats, schemas, watermarks, SQL, delivery, settings."""
