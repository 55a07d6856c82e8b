"""Checks sinks: their formats, deliveries and options."""

from __future__ import annotations

from collections.abc import Iterator

from streamjob.job.checks.functions import REFERENCE
from streamjob.job.checks.subject import Subject, option_problems, unknown_format, where
from streamjob.job.connectors import bucket_files
from streamjob.job.connectors.changes import is_replace, is_upsert, replace_fix, upsert_fix
from streamjob.job.connectors.file_source import is_elsewhere
from streamjob.job.connectors.misplaced import OF_SINKS, misplaced
from streamjob.job.connectors.of_spark import FUNCTION
from streamjob.job.connectors.options import option
from streamjob.job.connectors.registry import sink_of
from streamjob.job.model.formats import (
    EXACTLY_ONCE_FORMATS,
    SINK_FORMATS,
    TRANSACTIONAL_FORMATS,
    can_exactly_once,
    is_python_sink,
)
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import OperatorSpec, SinkSpec, SourceSpec


def formats(subject: Subject) -> Iterator[Problem]:
    """The format is one of Spark's, a class, a Python sink, or stands for a function, which has a name."""
    for sink in subject.spec.sinks:
        if not sink.format:
            fix = f"add `format`: {SinkSpec.model_fields['format'].description}"
            yield Problem(where(sink), "lacks 'format'", fix.rstrip("."))
        elif (sink.function is not None) != (sink.format == FUNCTION):
            what = "has both format and function" if sink.function else "has no function"
            yield Problem(where(sink), what, "name one of them: function: module:function, or a format")
        elif sink.function is not None:
            yield from _function(sink, sink.function)
        elif ":" in sink.format:
            if not is_python_sink(sink.format):
                yield Problem(where(sink), f"format cannot be {sink.format!r}", "write your own sink as module:Class")
        else:
            yield from unknown_format(sink, SINK_FORMATS)


def _function(sink: SinkSpec, reference: str) -> Iterator[Problem]:
    if not REFERENCE.fullmatch(reference):
        fix = "write it as module:function, a function that its module defines at the top with `def`"
        yield Problem(where(sink), f"function cannot be {reference!r}", fix)
    if sink.options:
        what = f"has options ({', '.join(sink.options)}), and a function is not given any"
        yield Problem(where(sink), what, "let the function have them: as constants, or from the environment")
    if sink.delivery == "exactly-once":
        fix = "leave delivery out, and let the function do nothing for a batch id that it has seen"
        yield Problem(where(sink), "cannot deliver exactly-once: a function may be called twice", fix)


def deliveries(subject: Subject) -> Iterator[Problem]:
    """Only formats that support exactly-once are asked for it, and updated rows go only where they replace others."""
    inputs = subject.spec.inputs()
    exact = ", ".join(sorted(EXACTLY_ONCE_FORMATS | TRANSACTIONAL_FORMATS))
    for sink in subject.spec.sinks:
        yield from _output_mode(sink, inputs.get(sink.input))
        if sink.delivery != "exactly-once":
            if "at-least-once" not in sink_of(sink.format).deliveries:
                what = f"has the format {sink.format!r}, which delivers exactly-once and in no other way"
                yield Problem(where(sink), what, "leave delivery out")
            continue
        if not can_exactly_once(sink.format) and sink.format != FUNCTION:
            what = f"cannot deliver exactly-once: the format {sink.format!r} has no way to publish rows later"
            yield Problem(where(sink), what, f"use one of {exact}, your own module:Class, or delivery: at-least-once")
        path = option(sink.options, "path") or ""
        if sink.format in EXACTLY_ONCE_FORMATS and is_elsewhere(path):
            if (problem := bucket_files.path_problem(sink.format, path)) is not None:
                yield Problem(where(sink), *problem)
            else:
                yield from option_problems(sink, bucket_files.problems(sink.format, sink.options))


def _output_mode(sink: SinkSpec, read: SourceSpec | OperatorSpec | None) -> Iterator[Problem]:
    mode = read.output_mode if isinstance(read, OperatorSpec) else "append"
    if is_replace(sink) and mode != "complete" and read is not None:
        what = f"has mode: replace, and {where(read)} does not give its whole result with each batch"
        yield Problem(where(sink), what, "use mode: replace for an aggregation with outputMode: complete")
    if read is None or mode == "append" or is_replace(sink):
        return
    kind = sink_of(sink.format)
    at_least_once = kind.output_modes if "at-least-once" in kind.deliveries else ()
    if sink.delivery == "at-least-once" and mode in at_least_once:
        return
    if mode == "update" and is_upsert(sink):
        return
    what = f"would append a row again each time it changes: {where(read)} has outputMode {mode}"
    if mode == "complete":
        fix = f"{replace_fix(sink)}; or use outputMode update, and a sink with mode: upsert; or outputMode append"
        yield Problem(where(sink), what, fix)
    else:
        other = ", or delivery: at-least-once" if "update" in at_least_once else ""
        yield Problem(where(sink), what, f"{upsert_fix(sink)}, or use outputMode append{other}")


def partitions(subject: Subject) -> Iterator[Problem]:
    """Only files and tables of some formats can be partitioned."""
    for sink in subject.spec.sinks:
        if sink.partition_by and sink.format in SINK_FORMATS and not sink_of(sink.format).partitions:
            what = f"has partitionBy, which the format {sink.format!r} does not know"
            yield Problem(where(sink), what, "leave it out: files and Delta tables can be partitioned")


def connections(subject: Subject) -> Iterator[Problem]:
    """The options of a sink make sense, as far as that can be told without its server."""
    for sink in subject.spec.sinks:
        kind = sink_of(sink.format)
        yield from option_problems(sink, kind.problems(sink))
        checked = sink.delivery == "exactly-once" and is_elsewhere(option(sink.options, "path") or "")
        if kind.options is None and not checked and not is_python_sink(sink.format):
            yield from option_problems(sink, misplaced(sink.options, kind.known, OF_SINKS))
