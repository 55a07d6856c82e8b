"""Derives the parts of a job from what a program did: sources, tables, operators, sinks, and what is left to decide."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from streamjob.durations import parse_duration
from streamjob.job.model.spark_settings import overridden
from streamjob_import.definitions import free_name
from streamjob_import.expressions import Attribute, Call
from streamjob_import.recording import (
    Frame,
    Making,
    Query,
    Source,
    Statement,
    ancestors,
    in_order,
    parents,
    reads_stream,
    rows_of,
)
from streamjob_import.running import Recording

_GENERIC = {"df", "sdf", "ds", "stream", "query", "q", "raw", "data", "result", "writer", "spark", "self"}
_SAID_OTHERWISE = ("spark.master", "spark.app.name", "spark.sql.shuffle.partitions")
_S3 = "spark.hadoop.fs.s3a."
_CATALOG = "spark.sql.defaultCatalog"
_LEFT_OUT = ("spark.sql.extensions", "spark.sql.catalog.", _CATALOG, _S3, "spark.sql.streaming.", "spark.jars")
"""Prefixes of settings that a job does not take over."""
_FOREIGN_CLASS = re.compile(r"(?!org\.apache\.(spark|hadoop)\.)([a-z]\w*\.){2,}[A-Z]\w*")
_INPUTS = ("subscribe", "subscribePattern", "path")
_DONE = {
    "agg": "aggregated", "alias": "selected", "count": "counted", "drop": "selected", "dropDuplicates": "distinct",
    "filter": "filtered", "join": "joined", "select": "selected", "selectExpr": "selected", "union": "united",
    "orderBy": "sorted", "where": "filtered", "withColumn": "extended", "withColumns": "extended",
}  # fmt: skip
_AGGREGATES = re.compile(r"\bgroup\s+by\b|\b(count|sum|avg|min|max)\s*\(", re.IGNORECASE)
_STATEFUL = {"dropDuplicates", "dropDuplicatesWithinWatermark", "drop_duplicates", "distinct"}


@dataclass(slots=True)
class Part:
    """What all parts have.

    Args:
        notes: what is to decide, or to know.
    """

    name: str
    notes: list[str] = field(default_factory=list, kw_only=True)


@dataclass(slots=True)
class SourcePart(Part):
    """A source, or a table."""

    source: Source
    watermark: tuple[Any, Any] | None = None


@dataclass(slots=True)
class OperatorPart(Part):
    """An operator.

    Args:
        result: what its function returns; None for SQL.
        inputs: the parts whose rows it takes.
        tables: the tables that it takes.
        frames: the DataFrames that these are in the program, by their ids.
        sql: its query.
    """

    result: Frame | None = None
    inputs: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    frames: dict[int, str] = field(default_factory=dict)
    sql: str = ""
    mode: str = "append"
    watermark: tuple[Any, Any] | None = None


@dataclass(slots=True)
class SinkPart(Part):
    """A sink."""

    query: Query
    input: str


@dataclass(slots=True)
class Parts:
    """A job.

    Args:
        settings: Spark's configuration.
        interval: between checkpoints, as the shortest trigger of a query.
        functions: those that SQL calls.
        notes: about the whole job.
    """

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    partitions: Any = None
    interval: str | None = None
    functions: Mapping[str, Any] = field(default_factory=dict)
    sources: list[SourcePart] = field(default_factory=list)
    tables: list[SourcePart] = field(default_factory=list)
    operators: list[OperatorPart] = field(default_factory=list)
    sinks: list[SinkPart] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def parts_of_job(recording: Recording) -> Parts:
    """Return the parts of the job that does what a program does."""
    return _Making(recording).job()


class _Making:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._file = str(recording.program.resolve())
        session = recording.session
        self._job = Parts(identifier(session.name or recording.program.stem, dash=True), functions=session.functions)
        self._parts: dict[int, str] = {}
        self._operators: dict[str, OperatorPart] = {}
        self._modes: dict[str, str] = {}
        self._tables: dict[int, str] = {}
        self._views = {id(frame): name for name, frame in session.views.items()}
        self._shared = _shared([each.frame for each in session.queries])
        self._users: dict[int, list[Frame]] = {}
        for query in session.queries:
            self._users.setdefault(id(query.frame), []).append(query.frame)
            for each in ancestors(query.frame):
                for used in rows_of(each):
                    self._users.setdefault(id(used), []).append(each)
        frames = {key: each for key, each in recording.names.items() if isinstance(each, Frame)}
        self._bound = {id(each): key for key, each in frames.items() if key not in _GENERIC}
        queries = [key for key, each in recording.names.items() if "runId" in getattr(each, "__dict__", ())]
        self._others = recording.names.keys() - frames.keys() - {*queries}
        self._timed = {id(each) for one in session.frames if _watermark(one) for each in (one, *parents(one))}

    def job(self) -> Parts:
        job, session = self._job, self._recording.session
        job.notes += [f"{each}: left out" if "(`write`)" in each else each for each in session.left_out]
        if self._recording.ended:
            job.notes.append(f"the program ended at {self._recording.ended}; queries that it starts later are missing")
        missing = [each for each in self._recording.missing if "." not in each]
        job.notes += [f"the module {each} is not installed here: what it gives was not known" for each in missing]
        for query in self._recording.session.queries:
            self._query(query)
        self._settings()
        intervals = [duration(str(each.query.trigger.get("processingTime"))) for each in job.sinks]
        job.interval = min(filter(None, intervals), key=parse_duration, default=None)
        for sink in job.sinks:
            every = sink.query.trigger.get("processingTime")
            if (every is not None and (duration(str(every)) or every) != job.interval) or "milli" in str(every):
                sink.notes.append(f"its trigger was {every}; a job has one interval, of its checkpoints")
        options = [each.source.options for each in (*job.sources, *job.tables)]
        options += [each.query.options for each in job.sinks]
        if any(_is_relative(each.get("path")) for each in options):
            job.notes.append("paths are relative to this file")
        return job

    def _query(self, query: Query) -> None:
        if not reads_stream(query.frame):
            self._job.notes.append(f"{query.place}: the query reads no stream that is known; it is left out")
            return
        part = self._part(query.frame)
        if any(self._modes.get(each, query.mode) != query.mode for each in self._stateful(part)):
            # Another query wants another output mode of an operator: this one gets its own.
            behind = self._behind({each for each in self._stateful(part) if self._modes.get(each) != query.mode})
            self._parts = {frame: name for frame, name in self._parts.items() if name not in behind}
            part = self._part(query.frame)
        for each in self._stateful(part):
            self._modes[each] = self._operators[each].mode = query.mode
        target = _last(query.table, query.options.get("topic") or query.options.get("path"))
        function = getattr(query.function, "func", query.function)
        called = getattr(function, "__name__", "").strip("_")
        if called == "<lambda>":
            called = next((each for each in function.__code__.co_names if each in function.__globals__), "")
        names = query.name, self._variable(query.lines, query=True), target, called
        otherwise = f"{part}_{(query.format or 'batches').rpartition('.')[2]}"
        sink = SinkPart(self._free(*names, otherwise, beside=()), query, part)
        if query.trigger.get("availableNow") or query.trigger.get("once"):
            sink.notes.append("the program reads what is there and ends: run the job with --available-now")
        if query.trigger.get("continuous"):
            sink.notes.append("a continuous trigger has no match: the job runs in batches")
        if place := query.options.get("checkpointLocation"):
            alone = "`streamjob run … --from spark:DIRECTORY` takes over the query's checkpoint, which is in"
            several = "`--from spark:CHAIN=DIRECTORY,…` takes over checkpoints of queries with own sources; it is in"
            sink.notes.append(f"{alone if len(self._recording.session.queries) == 1 else several} {place}")
        self._job.sinks.append(sink)

    def _stateful(self, part: str) -> list[str]:
        """Return the operators that keep state, of those which a part is computed by."""
        found: dict[str, None] = {}
        waiting = [part]
        while waiting:
            operator = self._operators.get(waiting.pop())
            if operator is not None:
                waiting.extend(operator.inputs)
                if _keeps_state(operator):
                    found[operator.name] = None
        return list(found)

    def _behind(self, parts: set[str]) -> set[str]:
        """Return parts and the operators that are computed from them."""
        while more := {each.name for each in self._job.operators if parts & set(each.inputs)} - parts:
            parts = parts | more
        return parts

    def _part(self, frame: Frame) -> str:
        if (known := self._parts.get(id(frame))) is not None:
            return known
        node = frame.node
        if isinstance(node, Source):
            name = self._source(frame, node)
        elif (watermark := _watermark(frame)) is not None:
            name = self._with_watermark(frame, watermark)
        elif isinstance(node, Statement):
            name = self._statement(frame, node)
        else:
            name = self._operator(frame)
        self._parts[id(frame)] = name
        return name

    def _source(self, frame: Frame, source: Source) -> str:
        given = _last(source.table, next(filter(None, map(source.options.get, _INPUTS)), ""))
        part = SourcePart(self._free(self._named(frame), given, source.format), source)
        if source.stream:
            self._job.sources.append(part)
        else:
            self._job.tables.append(part)
            part.notes.append("it is read again when the job starts; `refresh` reads it more often")
        return part.name

    def _with_watermark(self, frame: Frame, watermark: tuple[Any, Any]) -> str:
        parent = parents(frame)[0]
        name = self._part(parent)
        timed: list[SourcePart | OperatorPart] = [*self._job.sources, *self._job.operators]
        part = next((each for each in timed if each.name == name), None)
        if part is None or part.watermark not in (None, watermark) or not self._only_by_time(parent, watermark):
            by_time = self._free(f"{name}_by_time")
            operator = OperatorPart(by_time, result=parent, inputs=[name], frames={id(parent): name})
            self._add(operator)
            part, name = operator, operator.name
        part.watermark = watermark
        return name

    def _only_by_time(self, frame: Frame, watermark: tuple[Any, Any]) -> bool:
        """Return whether nothing uses the rows of a DataFrame but with a watermark."""
        return all(_watermark(each) == watermark for each in self._users.get(id(frame), ()))

    def _statement(self, frame: Frame, statement: Statement) -> str:
        operator = OperatorPart("", sql=statement.text)
        for view, used in statement.views.items():
            part = self._part(used)
            if reads_stream(used):
                operator.inputs += [part] if part not in operator.inputs else []
            elif not isinstance(used.node, Source):
                operator.notes.append(f"the view {view} is computed from no stream: declare it as a table")
            if part != view:
                operator.sql = re.sub(rf"\b{view}\b", part, operator.sql)
        operator.name = self._free(self._named(frame), f"{part}_queried")
        self._add(operator)
        return operator.name

    def _operator(self, frame: Frame) -> str:
        operator = OperatorPart("", result=frame)
        borders, taken = list(self._borders(frame, parents)), {id(each) for each in self._borders(frame, rows_of)}
        for each in borders:
            by_time = [border for border in borders if _watermark(border) is not None and parents(border)[0] is each]
            if by_time and id(each) not in taken:
                # Only columns of it are named, and the rows are those with the watermark.
                operator.frames[id(each)] = self._part(by_time[0])
            elif reads_stream(each):
                operator.frames[id(each)] = self._part(each)
                if operator.frames[id(each)] not in operator.inputs:
                    operator.inputs.append(operator.frames[id(each)])
            elif isinstance(each.node, Source):
                operator.frames[id(each)] = self._table(each)
                operator.tables.append(operator.frames[id(each)])
            else:
                operator.notes.append("spark.sql over no stream: declare a table, and take it as an argument")
        operator.name = self._free(self._named(frame), f"{operator.inputs[0]}_{_done_last(frame)}")
        self._add(operator)
        return operator.name

    def _table(self, frame: Frame) -> str:
        if id(frame) not in self._tables:
            assert isinstance(frame.node, Source)
            self._tables[id(frame)] = self._source(frame, frame.node)
        return self._tables[id(frame)]

    def _add(self, operator: OperatorPart) -> None:
        self._job.operators.append(operator)
        self._operators[operator.name] = operator

    def _borders(self, frame: Frame, step: Callable[[Frame], list[Frame]]) -> Iterator[Frame]:
        """Yield the DataFrames that a function takes which computes this one: all, or those whose rows it has.

        Args:
            step: returns what a DataFrame is made of by one step.
        """
        seen = {id(frame)}
        waiting = step(frame)
        while waiting:
            each = waiting.pop(0)
            if id(each) not in seen:
                seen.add(id(each))
                if self._is_border(each):
                    yield each
                else:
                    waiting = [*step(each), *waiting]

    def _is_border(self, frame: Frame) -> bool:
        """Return whether a DataFrame is a part of its own."""
        if isinstance(frame.node, Source | Statement):
            return True
        return (id(frame) in self._timed or id(frame) in self._shared) and reads_stream(frame)

    def _named(self, frame: Frame) -> str:
        # The variable of a call is that of a DataFrame if the function has returned it.
        variable = self._variable(frame.lines[: len(frame.made) + 1])
        return self._views.get(id(frame)) or variable or self._bound.get(id(frame), "")

    def _variable(self, lines: Iterable[tuple[str, int]], *, query: bool = False) -> str:
        """Return the variable that gets a DataFrame or query of some lines, the innermost first, or ''."""
        # A function of another module may make several.
        for file, line in sorted(lines, key=lambda each: each[0] != self._file):
            found = [
                (last - first, name.lstrip("_"))
                for first, last, name, starts in _assigned(file)
                if first <= line <= last and (query or not starts)
            ]
            if found and (name := min(found)[1]) not in _GENERIC:
                return name
        return ""

    def _settings(self) -> None:
        job, given = self._job, self._recording.session.settings
        job.partitions = given.get("spark.sql.shuffle.partitions")
        foreign = {_CATALOG, *(key for key, value in given.items() if _FOREIGN_CLASS.fullmatch(str(value)))}
        dropped = {key: value for key, value in given.items() if key in foreign or key.startswith(_LEFT_OUT)}
        for key, value in given.items():
            if key in dropped or key.startswith(_SAID_OTHERWISE):
                continue
            if refused := [what for what, _ in overridden({key: str(value)})]:
                job.notes.append(f"the setting {key} is left out: {refused[0]}")
            else:
                job.settings[key] = value
        if any(key.startswith(_S3) for key in given):
            job.notes.append("access to S3 comes from the variables AWS_… of the job's environment, not from settings")
        if dropped:
            said = "Connectors of Kafka, files, Avro, PostgreSQL and lake tables are part of streamjob"
            job.notes.append(f"left out of the settings: {', '.join(dropped)}. {said}")
            functions = any(each.query.function is not None for each in job.sinks)
            if functions or any(key == _CATALOG or not key.startswith(_LEFT_OUT) for key in dropped):
                job.notes.append(
                    "DECIDE: what is left out of the settings may be needed, above all by functions of batches: "
                    "add it to spark_conf, with its packages, for Spark 4.3"
                )

    def _free(self, *names: str | None, beside: Iterable[str] | None = None) -> str:
        """Return the first name that is one and is free; if none is, the last one with a number."""
        wanted = [identifier(each) for each in names if each]
        taken = {"job", "Job", "F", "DataFrame", *(self._others if beside is None else beside)} | {
            each.name for each in (*self._job.sources, *self._job.tables, *self._job.operators, *self._job.sinks)
        }
        return next((each for each in wanted if each not in taken), None) or free_name(wanted[-1], taken)


@cache
def _assigned(file: str) -> list[tuple[int, int, str, bool]]:
    """Return the first and last line of each assignment, its variable, and whether it starts a query."""
    return [
        (
            each.lineno,
            each.end_lineno or each.lineno,
            ast.unparse(target).rpartition(".")[2],
            ".writeStream" in ast.unparse(each.value),
        )
        for each in ast.walk(ast.parse(Path(file).read_bytes() if Path(file).is_file() else ""))
        if isinstance(each, ast.Assign | ast.AnnAssign | ast.NamedExpr) and each.value is not None
        for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
        if isinstance(target, ast.Name | ast.Attribute)
    ]


def _shared(results: list[Frame]) -> set[int]:
    """Return the DataFrames that several queries use, where they part."""
    users: dict[int, set[str]] = {}
    reached: dict[int, set[int]] = {}
    for number, result in enumerate(results):
        users.setdefault(id(result), set()).add(f"query {number}")
        for each in ancestors(result):
            reached.setdefault(id(each), set()).add(number)
            for parent in parents(each):
                users.setdefault(id(parent), set()).add(str(id(each)))
    return {frame for frame, of in users.items() if len(of) > 1 and len(reached[frame]) > 1}


def _watermark(frame: Frame) -> Any:
    match frame.node:
        case Call(function=Attribute(name="withWatermark"), args=args, kwargs=kwargs):
            return in_order("eventTime delayThreshold", args, kwargs)
    return None


def _keeps_state(operator: OperatorPart) -> bool:
    if operator.result is None:
        return _AGGREGATES.search(operator.sql) is not None
    waiting = [operator.result]
    while waiting:
        each = waiting.pop()
        if id(each) in operator.frames:
            continue
        match each.node:
            case Call(function=Attribute(of=Making(node=Call()))):
                return True
            case Call(function=Attribute(name=name)) if name in _STATEFUL or name == "agg":
                return True
        waiting.extend(parents(each))
    return False


def duration(text: str) -> str | None:
    """Return a duration of Spark, like `10 seconds`, as the job file has it: `10s`."""
    found = re.fullmatch(r"\s*(\d+)\s*(millisecond|second|minute|hour|day)s?\s*", text, re.IGNORECASE)
    if found is None or int(found[1]) == 0:
        return None
    return f"{found[1]}{found[2][0].lower()}" if found[2].lower() != "millisecond" else "1s"


def _last(table: str | None, target: Any) -> str:
    """Return the last part of the name of a table or a path, or a topic."""
    if table:
        return table.rpartition(".")[2]
    return target.rstrip("/*").rpartition("/")[2] if isinstance(target, str) else ""


def _done_last(frame: Frame) -> str:
    match frame.node:
        case Call(function=Attribute(name=name)):
            return _DONE.get(name, name)
    return "selected"


def _is_relative(path: Any) -> bool:
    return isinstance(path, str) and "://" not in path and not path.startswith(("/", "file:", "${"))


def identifier(name: str, *, dash: bool = False) -> str:
    """Return a name as one of Python, or with dashes as one of a job."""
    text = re.sub(r"[^A-Za-z0-9]+", "-" if dash else "_", name).strip("-_") or "job"
    if dash:
        return text.lower()
    return f"_{text}" if text[0].isdigit() or keyword.iskeyword(text) else text
