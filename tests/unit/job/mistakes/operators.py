"""Mistakes in operators: queries, functions, output modes, and loops."""

from __future__ import annotations

from tests.unit.job.texts import MARKED, SINK, SOURCE, job, looped, sql

OF_OPERATORS = {
    "a second watermark": (
        sql("SELECT * FROM a", sources=MARKED, more=", watermark: {column: t, delay: 1h}"),
        "operator 'b': has a watermark, and the rows of its input 'a' have one already",
        "keep one of them: a row has one event time",
    ),
    "an idle timeout of a watermark that follows another one": (
        sql(
            "SELECT x, window.end AS t FROM a GROUP BY x, window(t, '1 hour')",
            sources=MARKED,
            more=", watermark: {column: t, delay: 1h, idleTimeout: 1m}",
        ),
        "operator 'b': has a watermark with idleTimeout, and its rows do not move it: it follows that of its inputs",
        "give idleTimeout to the watermark of the source",
    ),
    "a limit ahead of the clock of a watermark that follows another one": (
        sql(
            "SELECT x, window.end AS t FROM a GROUP BY x, window(t, '1 hour')",
            sources=MARKED,
            more=", watermark: {column: t, delay: 1h, maxAhead: 1d}",
        ),
        "operator 'b': has a watermark with maxAhead, and its rows do not move it: it follows that of its inputs",
        "give maxAhead to the watermark of the source",
    ),
    "a watermark of an aggregation": (
        sql(
            "SELECT x, max(t) AS t FROM a GROUP BY x", more=", outputMode: update, watermark: {column: t, delay: 1h}"
        ).replace("format: parquet, options: {path: out}", "format: console"),
        "operator 'b': has a watermark, and keeps state that needs it before",
        "give the watermark to its input, or to an operator in between",
    ),
    "watermark in SQL": (
        sql("SELECT * FROM a WATERMARK t DELAY OF INTERVAL 1 HOUR"),
        "operator 'b': its SQL sets a watermark; watermarks are declared, so that each is kept across restarts",
        "give the source or the operator `watermark: {column: …, delay: …}`",
    ),
    "aggregation without a watermark": (
        sql("SELECT x, count(*) FROM a GROUP BY x"),
        "operator 'b': its SQL has GROUP BY in append mode, which never knows when a row is final without a watermark",
        (
            "for results that change, set outputMode: update, and mode: upsert with a key in the sink; for final ones, "
            "give the source 'a' `watermark: {column: …, delay: …}`, and GROUP BY window(…)"
        ),
    ),
    "aggregation of windows without a watermark": (
        sql("SELECT window(t, '1 minute') AS w, count(*) FROM a GROUP BY window(t, '1 minute')"),
        "operator 'b': its SQL has GROUP BY in append mode, which never knows when a row is final without a watermark",
        "give the source 'a' `watermark: {column: …, delay: …}`",
    ),
    "aggregation beside a watermark": (
        sql("SELECT x, count(*) FROM a GROUP BY x", sources=MARKED),
        "operator 'b': its SQL has GROUP BY in append mode without the event time of its rows, so no row is ever final",
        (
            "for results that change, set outputMode: update, and mode: upsert with a key in the sink; for final ones, "
            "GROUP BY window(…)"
        ),
    ),
    "Flink's tumbling window": (
        sql("SELECT window_start, count(*) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), INTERVAL '1' MINUTE)) GROUP BY 1"),
        "operator 'b': its SQL does not parse: Spark has no function TUMBLE, which is Flink's (line 1, column 42)",
        "group by a window: SELECT window.start, … GROUP BY window(time, '1 minute'), …",
    ),
    "Flink's older windows": (
        sql("SELECT HOP_END(t, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE) FROM a", sources=MARKED),
        "operator 'b': its SQL does not parse: Spark has no function HOP_END, which is Flink's (line 1, column 8)",
        (
            "group by a sliding window, its size before its step: SELECT window.start, … "
            "GROUP BY window(time, '10 minutes', '1 minute'), …"
        ),
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
        "leave it out, and sort where the result is read",
    ),
    "SQL that does not parse": (
        sql("SELEC x FROM a"),
        "operator 'b': its SQL does not parse: Invalid expression / Unexpected token near 'FROM' (line 1, column 9)",
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
        "give it sql: 'SELECT …', python: module:function, lookup: {…} or temporalJoin: {…}",
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
