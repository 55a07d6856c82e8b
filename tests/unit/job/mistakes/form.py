"""Mistakes visible in the file alone: fields, values, names and inputs."""

from __future__ import annotations

from tests.unit.job.texts import MARKED, SINK, SOURCE, job, sql

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
        "it is an option of the format: write `options: {maxFilesPerTrigger: …}`",
    ),
    "path beside the format": (
        job(sinks="{name: out, input: a, format: parquet, path: out}"),
        "sink 'out': has no field 'path'",
        "it is an option of the format: write `options: {path: …}`",
    ),
    "option with a dot beside the format": (
        job(sinks="{name: out, input: a, format: kafka, kafka.acks: 1}"),
        "sink 'out': has no field 'kafka.acks'",
        "it is an option of the format: write `options: {kafka.acks: …}`",
    ),
    "unknown option outside of options": (
        job(sources=SOURCE.replace("}}", "}, zzz: 3}")),
        "source 'a': has no field 'zzz'",
        (
            "an option of the format belongs under `options`; "
            "the fields are name, uid, format, schema, schemaFile, key, value, changes, unavailableValue, "
            "onUnavailable, onError, skip, columns, python, options, bounded, replayable, watermark"
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
