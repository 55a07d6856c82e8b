"""Mistakes in sources: formats, schemas, columns, event time, and how records are decoded."""

from __future__ import annotations

from tests.unit.job.texts import MARKED, SINK, SOURCE, computed, job, topic

_OF_PARTS = {
    "unknown format of a source": (
        job(sources="{name: a, format: kafak}"),
        "source 'a': has the unknown format 'kafak'",
        "did you mean 'kafka'?",
    ),
    "a trigger of Spark's": (
        job(sources=SOURCE.replace("path: in", "path: in, processingTime: 5 seconds")),
        "source 'a': has the option 'processingTime', which means nothing there",
        "leave it out: checkpointing.interval says how often rows appear",
    ),
    "an option that a source of rates does not have": (
        job(sources="{name: a, format: rate, options: {rowPerSecond: 5}}"),
        "source 'a': has no option 'rowPerSecond'",
        "did you mean 'rowsPerSecond'?",
    ),
    "cleanSource": (
        job(sources=SOURCE.replace("path: in", "path: in, cleansource: archive")),
        "source 'a': has the option cleanSource: Spark would remove files that a restored checkpoint reads again",
        "leave it out, and remove files older than the oldest checkpoint yourself",
    ),
    "a mode of files whose broken records are handled": (
        job(sources=SOURCE.replace("path: in", "path: in, mode: FAILFAST")[:-1] + ", onError: drop}"),
        "source 'a': has onError and the option 'mode'",
        "onError decides about records that cannot be decoded",
    ),
    "a variant in place of columns": (
        job(sources=SOURCE.replace("path: in", "path: in, singleVariantColumn: v")),
        "source 'a': has 'singleVariantColumn'",
        "declare a column of the type VARIANT, or parse_json in columns of format: text",
    ),
    "rounding that is neither true nor false": (
        job(sources=SOURCE.replace("path: in", "path: in, rounding: half")),
        "source 'a': rounding is 'half'",
        "write true or false",
    ),
    "a unit of times that does not exist": (
        job(sources=SOURCE.replace("path: in", "path: in, epochUnit: min")),
        "source 'a': the option epochUnit is 'min'",
        "write s, ms, us, ns",
    ),
    "rules for records that Spark decodes": (
        job(sources=SOURCE.replace("path: in", "path: in, mode: PERMISSIVE, rounding: true")),
        "source 'a': has the options mode and rounding",
        "leave mode out: with it, Spark decodes the records by itself",
    ),
    "a column of broken records": (
        job(sources=SOURCE.replace("path: in", "path: in, columnNameOfCorruptRecord: c")),
        "source 'a': has the option 'columnNameOfCorruptRecord' without mode",
        "use onError: deadLetter, or mode: PERMISSIVE as in plain Spark",
    ),
    "damaged files that Spark decodes alone": (
        job(sources=SOURCE.replace("csv", "xml")[:-1] + ", onError: drop}"),
        "source 'a': has onError, and decodes nothing",
        "give the source value: {format: …, schema: …}, or use try_… functions in columns",
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
    "dead letters of rows without event time that nothing reads": (
        job(sources=MARKED.replace("delay: 1h", "delay: 1h, nullEventTime: deadLetter")),
        "source 'a': has nullEventTime: deadLetter, and nothing reads 'a_dead_letters'",
        "add a sink with input: a_dead_letters, or say nullEventTime: drop",
    ),
    "two kinds of dead letters": (
        job(
            sources=MARKED.replace("1h}", "1h, nullEventTime: deadLetter}, onError: deadLetter"),
            sinks=SINK + ", " + SINK.replace("input: a", "input: a_dead_letters").replace("out", "bad"),
        ),
        "source 'a': has onError: deadLetter and nullEventTime: deadLetter, and dead letters of two forms",
        "say nullEventTime: drop, or let an operator behind the source find such rows",
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
    "fields of a column that is computed beside them": (
        job(sources=SOURCE.replace("options", "columns: [\"from_json(x, 'a INT, b STRING') AS r\", 'r.*'], options")),
        "source 'a': its columns have 'r.*', and 'r' is computed beside it, which Spark does not look into",
        "name its fields, like 'r.id AS id'; or write SELECT r.* in an operator behind the source",
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
    "a record of files to skip": (
        job(sources=SOURCE.replace("options", "skip: t/0/1, options")),
        "source 'a': has skip, and the format 'csv' has no records",
        "leave it out",
    ),
    "no columns": (
        job(sources=SOURCE.replace("options", "columns: [], options")),
        "source 'a': its columns are an empty list",
        "begin with '*', or leave columns out",
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
    "bounded stream": (
        job(sources="{name: a, format: rate, bounded: true}"),
        "source 'a': is bounded, and where 'rate' ends is unknown",
        "bounded sources are files, avro, binaryFile, csv, json, orc, parquet, text, and kafka",
    ),
    "partitions of files": (
        job(sources=MARKED.replace("delay: 1h", "delay: 1h, perPartition: false")),
        "source 'a': its watermark has perPartition, and 'csv' has no partitions",
        "leave it out: only a topic of Kafka has them",
    ),
    "an idle timeout of zero": (
        job(sources=MARKED.replace("delay: 1h", "delay: 1h, idleTimeout: 0s")),
        "source 'a': watermark.idleTimeout must be more than 0s",
        "",
    ),
}
_OF_COLUMNS = {
    "watermark on no computed column": (
        "'*', 'to_timestamp(x) AS at'",
        "att",
        "its watermark is on 'att', which is not a column that its columns compute",
        "did you mean 'at'?",
    ),
    "watermark on a column that is no longer there": (
        "'t AS started', 'x'",
        "t",
        "its watermark is on 't', which is not a column that its columns compute",
        "the TIMESTAMP columns are started",
    ),
    "watermark on a computed column of another type": (
        "'*', 'CAST(t AS STRING) AS at'",
        "at",
        "its watermark is on 'at', a column of type STRING",
        "let columns compute a TIMESTAMP, for example with to_timestamp(…)",
    ),
    "watermark inside of a computed column": (
        "'struct(t) AS s'",
        "s.t",
        "its watermark is on 's.t', a field inside of a column",
        "make it a column of its own, add 's.t AS t' to columns, and name 't' in the watermark",
    ),
    "columns that do not parse": (
        "'*', 'x +'",
        "t",
        "its columns have 'x +', which does not parse near '+'",
        "write an expression, perhaps with AS name",
    ),
    "columns that are a query": (
        "'* FROM b'",
        "t",
        "its columns have '* FROM b', which is more than an expression",
        "write only the part after SELECT",
    ),
    "columns in one text": (
        "'x, t'",
        "t",
        "its columns have 'x, t', which is several expressions",
        "make each an element of the list",
    ),
    "columns that aggregate": (
        "'t', 'max(x) AS y'",
        "t",
        "its columns have 'max(x) AS y', and MAX() needs other rows",
        "compute it in an operator, which may keep state",
    ),
    "columns over a window of rows": (
        "'t', 'lag(x) OVER (ORDER BY t) AS y'",
        "t",
        "its columns have 'lag(x) OVER (ORDER BY t) AS y', and a window function (OVER) needs other rows",
        "compute it in an operator, which may keep state",
    ),
}
"""By name: the columns, the column of the watermark, the problem, and the fix."""

_OF_RECORDS = {
    "values of an unknown form": (
        "value: {format: jsn, schema: 'x INT'}",
        "value.format must be avro or csv or json or protobuf or text, not 'jsn'",
        "did you mean 'json'?",
    ),
    "unknown field of an encoding": (
        "value: {format: json, shema: 'x INT', schema: 'x INT'}",
        "has no field 'value.shema'",
        "did you mean 'schema'?",
    ),
    "values without a schema": (
        "value: {format: json}",
        "value has no schema",
        "give value: {format: json, schema: 'name TYPE, …'}",
    ),
    "a text with a schema": (
        "key: {format: text, schema: 'x INT'}",
        "key.schema: a text has no fields",
        "leave it out, or use json or csv",
    ),
    "values with a wrong schema": (
        "value: {format: csv, schema: 'x INTT'}",
        "value.schema gives the column 'x' the unknown type 'INTT'",
        "did you mean 'int'?",
    ),
    "a variant in place of decoded fields": (
        "value: {format: json, schema: 'x INT', options: {singlevariantcolumn: v}}",
        "value.options has 'singlevariantcolumn'",
        "declare a column of the type VARIANT, or parse_json in columns of format: text",
    ),
    "a unit of times among the options": (
        "value: {format: json, schema: 'x INT', options: {epochUnit: ms}}",
        "value.options has 'epochUnit'",
        "write value.epochUnit",
    ),
    "a unit of times for records that say it themselves": (
        "value: {format: avro, schema: '\"long\"', epochUnit: ms}",
        "value.epochUnit: only a source that reads csv or json takes numbers for times",
        "leave it out",
    ),
    "a mode of decoding": (
        "value: {format: csv, schema: 'x INT', options: {Mode: FAILFAST}}",
        "value.options has 'Mode'",
        "onError decides about records that cannot be decoded",
    ),
    "an error of nothing": (
        "onError: drop",
        "has onError, and decodes nothing",
        "give the source value: {format: …, schema: …}, or use try_… functions in columns",
    ),
    "dead letters that nobody reads": (
        "onError: deadLetter, value: {format: text}",
        "has onError: deadLetter, and nothing reads 'a_dead_letters'",
        "add a sink with input: a_dead_letters, or say onError: drop",
    ),
    "an unknown way to handle errors": (
        "onError: ignore, value: {format: text}",
        "onError must be fail or drop or deadLetter, not 'ignore'",
        "",
    ),
    "a record to skip without an offset": (
        "skip: 't/0/17, t/1'",
        "skip has 't/1', which is no record",
        "write topic/partition/offset, separated by commas: orders/3/184467",
    ),
    "watermark on a decoded value": (
        "value: {format: json, schema: 't TIMESTAMP'}, watermark: {column: value, delay: 1h}",
        "its watermark is on 'value', a column of type STRUCT",
        "make it a TIMESTAMP in the schema, or compute one: columns: ['*', 'to_timestamp(value) AS at']",
    ),
    "watermark inside of a decoded value": (
        "value: {format: json, schema: 't TIMESTAMP'}, watermark: {column: value.t, delay: 1h}",
        "its watermark is on 'value.t', a field inside of a column",
        "make it a column of its own, columns: ['*', 'value.t AS t'], and name 't' in the watermark",
    ),
}
"""By name: fields of a Kafka source, the problem, and the fix."""

OF_SOURCES = {
    **_OF_PARTS,
    **{
        name: (job(sources=computed(columns, column)), f"source 'a': {what}", fix)
        for name, (columns, column, what, fix) in _OF_COLUMNS.items()
    },
    **{
        name: (job(sources=topic(fields)), f"source 'a': {what}", fix)
        for name, (fields, what, fix) in _OF_RECORDS.items()
    },
    "changes of files": (
        job(sources=SOURCE.replace("}}", "}, changes: upsert}")),
        "source 'a': has changes: upsert, and the format 'csv' has no records",
        "leave it out; a column _change_type makes rows changes",
    ),
    "changes that are not decoded": (
        job(sources=topic("changes: debezium")),
        "source 'a': has changes: debezium, and does not decode the envelopes around its rows",
        "give value: {format: json, schema: 'the columns of the table'}",
    ),
}
