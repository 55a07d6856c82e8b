"""Writes a job in Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyspark
from pyspark.sql.types import DataType, StructType

from streamjob.job.connectors.file_source import in_bucket, is_elsewhere
from streamjob.job.connectors.options import is_secret
from streamjob.job.model.formats import EXACTLY_ONCE_FORMATS
from streamjob_import.definitions import Definitions, columns_of, free_name, quoted, variable_for
from streamjob_import.expressions import Attribute, Call, FromEnvironment, Item, Lambda, Operation, Root, Value
from streamjob_import.parts import OperatorPart, Part, Parts, SinkPart, SourcePart, duration, parts_of_job
from streamjob_import.recording import Frame, Query, Session, Source, Statement, UserFunction, mentioned, parents
from streamjob_import.running import Recording

_WIDTH = 110


@dataclass(frozen=True, slots=True)
class _Group:
    """Items between brackets, on one line or a line each."""

    before: str
    items: tuple[Any, ...]
    after: str


class _Chain(tuple[Any, ...]):
    """Calls behind each other, on one line or a line each."""


def write_job(recording: Recording) -> str:
    """Return the text of the job that does what a program did."""
    return _Writing(recording).written()


class _Writing:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._parts = parts_of_job(recording)
        self._to_decide: list[str] = []
        made = self._parts.sources + self._parts.tables + self._parts.operators
        self._definitions = Definitions(recording, self._to_decide, [each.name for each in made])
        self._definitions.imported("from streamjob import Job")

    def written(self) -> str:
        parts = self._parts
        blocks = [self._source(each, "source") for each in parts.sources]
        blocks += [self._source(each, "table") for each in parts.tables]
        blocks += [self._operator(each) for each in parts.operators]
        blocks += [self._sink(each) for each in parts.sinks]
        if unplaced := self._comments(Part("")):
            blocks.append(unplaced)
        if any("pyspark.sql.avro.functions" in each for each in self._definitions.imports()):
            # Spark's own functions of Avro are in a package of their own.
            parts.settings.setdefault("spark.jars.packages", f"org.apache.spark:spark-avro_2.13:{pyspark.__version__}")
        head = self._head(parts)
        head = self._comments(Part("")) + head
        docstring = f'"""The job {parts.name!r}, made from {self._recording.program.name} by `streamjob import`.'
        if fixed := sorted(set(self._recording.variables) - self._definitions.referred):
            parts.notes.append(
                f"modules that read the environment still do; else it is fixed in this text: {', '.join(fixed)}"
            )
        notes = "".join(f"# {each}\n" for each in parts.notes)
        imports = "\n".join(["from __future__ import annotations", "", *self._definitions.imports()])
        texts = [each.strip("\n") for each in self._definitions.texts()]
        text = "\n\n".join(each for each in (imports, notes.rstrip()) if each)
        body = "\n\n\n".join([*texts, head.strip("\n")]) + "\n"
        before = head
        for each in blocks:
            body += ("\n\n" if "\ndef " in f"{before}{each}" else "\n") + each.rstrip("\n") + "\n"
            before = each
        text = f"{text}\n\n\n{body}" if texts and texts[0].startswith(("def ", "@", "class ")) else f"{text}\n\n{body}"
        docstring += "\n\nWhere a comment begins with DECIDE, something is left to you.\n" if "# DECIDE" in text else ""
        return f'{docstring}"""\n\n{text}'

    def _head(self, parts: Parts) -> str:
        given: dict[str, Any] = {}
        if str(parts.partitions).isdecimal():
            self._definitions.check(parts.partitions)
            given["max_parallelism"] = str(int(parts.partitions))
        elif parts.partitions is not None:
            self._to_decide.append("spark.sql.shuffle.partitions is no number: give the job its max_parallelism")
        if parts.interval is not None:
            given["checkpointing"] = _Group("{", (f'"interval": "{parts.interval}"',), "}")
        if parts.settings:
            given["spark_conf"] = self._options(parts.settings)
        if parts.functions:
            items = [f"{quoted(name)}: {self._definitions.function(each)}" for name, each in parts.functions.items()]
            given["functions"] = _Group("{", tuple(items), "}")
        return _layout(("job = ", _call("Job", [quoted(parts.name)], given)))

    def _source(self, part: SourcePart, method: str) -> str:
        source = part.source
        given: dict[str, Any] = {"format": quoted(source.format)}
        if source.table is not None:
            self._to_decide.append(f"the table {source.table} is of Spark's catalog: name its format and its path")
            given["format"] = quoted("delta")
        if source.schema is not None:
            given["schema"] = self._schema(source.schema)
        elif method == "table" and source.format in ("csv", "json"):
            self._to_decide.append("the columns of this table, as `name TYPE, …`; Spark guesses them from the rows")
            given["schema"] = quoted("...")
        options = {key: value for key, value in source.options.items() if value is not None}
        if options or source.table is not None:
            given["options"] = self._options(options or {"path": source.table or ""})
        if part.watermark is not None:
            given["watermark"] = self._watermark(part.watermark)
        text = _layout((f"{part.name} = ", _call(f"job.{method}", [quoted(part.name)], given)))
        return self._comments(part) + text

    def _schema(self, schema: Any) -> str:
        if isinstance(schema, str):
            return self._text(schema)
        if isinstance(schema, StructType):
            return quoted(columns_of(schema))
        self._to_decide.append("the columns of this source, as `name TYPE, …`; the program asks Spark")
        return quoted("...")

    def _watermark(self, watermark: tuple[Any, Any]) -> _Group:
        column, delay = watermark
        if not isinstance(column, str) or not isinstance(delay, str):
            self._to_decide.append("the column of the event time, and how late its rows may come")
            column, delay = "...", "1 minute"
        self._definitions.check(delay)
        return _Group("(", (quoted(column), quoted(duration(delay) or delay)), ")")

    def _options(self, options: Mapping[str, Any]) -> _Group:
        return _Group("{", tuple(f"{quoted(key)}: {self._option(key, each)}" for key, each in options.items()), "}")

    def _option(self, key: str, value: Any) -> str:
        if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
            return quoted(",".join(value))
        if not isinstance(value, str):
            text = self._definitions.literal(value) if not isinstance(value, Value) else None
            self._to_decide += [] if text else [f"the value of the option {key}"]
            return text or quoted("...")
        pieces = self._definitions.pieces(value)
        value = "".join(each.reference(key) if isinstance(each, FromEnvironment) else each for each in pieces)
        if key == "path" and value.startswith("s3a://"):
            value = value.replace("s3a://", "s3://", 1)
        if is_secret(key, value):
            variable = variable_for(key)
            self._to_decide.append(f"the program's text holds the secret {key}: give it in the variable {variable}")
            value = f"${{env:{variable}}}"
        return self._text(value)

    def _text(self, text: str) -> str:
        return f'"""{text}"""' if "\n" in text and '"""' not in text and "\\" not in text else quoted(text)

    def _operator(self, part: OperatorPart) -> str:
        given: dict[str, Any] = {"inputs": _Group("[", tuple(part.inputs), "]")}
        if part.tables:
            given["tables"] = _Group("[", tuple(part.tables), "]")
        if part.watermark is not None:
            given["watermark"] = self._watermark(part.watermark)
        if part.mode != "append":
            given["output_mode"] = quoted(part.mode)
        if part.result is None:
            self._definitions.check(part.sql)
            given["sql"] = self._text(part.sql)
            text = _layout((f"{part.name} = ", _call("job.sql", [quoted(part.name)], given)))
            return self._comments(part) + text
        self._definitions.imported("from pyspark.sql import DataFrame")
        names = [*part.inputs, *part.tables]
        body = _Body(dict(part.frames), names[0], self._definitions, self._to_decide).lines(part.result)
        decorator = _layout(("@", _call("job.operator", [], given)))
        parameters = _Group("(", tuple(f"{name}: DataFrame" for name in names), ")")
        header = _layout((f"def {part.name}", parameters, " -> DataFrame:"))
        lines = "".join(f"    {line}\n" if line else "\n" for line in body)
        return self._comments(part) + f"{decorator}\n{header}\n{lines}"

    def _sink(self, part: SinkPart) -> str:
        query = part.query
        given: dict[str, Any] = {"input": part.input}
        options = {key: each for key, each in query.options.items() if key != "checkpointLocation" and each is not None}
        if query.function is not None or query.writer is not None:
            given["function"] = self._function_of(query)
            # Spark does not give them to a function either.
            options = {}
        else:
            given["format"] = quoted(query.format or ("delta" if query.table else "parquet"))
            if query.table is not None:
                self._to_decide.append(f"the table {query.table} is of Spark's catalog: name its path")
                options.setdefault("path", query.table)
        if options:
            given["options"] = self._options(options)
        path = str(options.get("path", ""))
        if query.format in EXACTLY_ONCE_FORMATS and is_elsewhere(path) and not in_bucket(path):
            given["delivery"] = quoted("at-least-once")
        self._definitions.check(query.trigger.get("processingTime"))
        if query.partitions:
            given["partition_by"] = _Group("[", tuple(quoted(str(each)) for each in query.partitions), "]")
        return self._comments(part) + _layout((_call("job.sink", [quoted(part.name)], given),))

    def _function_of(self, query: Query) -> str:
        if query.function is not None:
            return self._definitions.function(query.function)
        if not hasattr(query.writer, "__code__"):
            self._to_decide.append("foreach(writer) has no match: write a function of a batch")
            self._definitions.define("write_rows", "def write_rows(batch, batch_id):\n    raise NotImplementedError\n")
            return "write_rows"
        called = self._definitions.function(query.writer)
        name = f"write_with_{called}"
        self._definitions.define(name, f"def {name}(batch, batch_id):\n    batch.foreach({called})\n")
        return name

    def _comments(self, part: Part) -> str:
        lines = [*(f"# DECIDE: {each}\n" for each in self._to_decide), *(f"# {each}\n" for each in part.notes)]
        self._to_decide.clear()
        return "".join(lines)


@dataclass(frozen=True, slots=True)
class _Body:
    """The body of an operator's function.

    Args:
        names: the names of DataFrames, by their ids.
        first: a DataFrame that the function takes, which knows the session.
    """

    _names: dict[int, str]
    _first: str
    _definitions: Definitions
    _to_decide: list[str]

    def lines(self, result: Frame) -> list[str]:
        """Return its statements."""
        lines: list[str] = []
        for frame in self._used_twice(result):
            name = free_name("rows", self._names.values())
            lines += _layout((f"{name} = ", self._doc(frame))).splitlines()
            self._names[id(frame)] = name
        lines += _layout(("return ", self._doc(result))).splitlines()
        return lines

    def _used_twice(self, result: Frame) -> list[Frame]:
        uses: dict[int, int] = {}
        order: list[Frame] = []

        def visit(frame: Frame) -> None:
            uses[id(frame)] = uses.get(id(frame), 0) + 1
            if uses[id(frame)] > 1 or id(frame) in self._names:
                return
            call = self._made(frame)
            for each in mentioned(frame) if call is None else [each for each in call[1] if isinstance(each, Frame)]:
                visit(each)
            order.append(frame)

        visit(result)
        return [each for each in order if uses[id(each)] > 1]

    def _made(self, frame: Frame) -> tuple[Any, tuple[Any, ...]] | None:
        """Return the outermost function of the program that gives a DataFrame, and its arguments."""
        for code, args in reversed(frame.made):
            function = self._definitions.named(code)
            given = {id(each) for each in args if isinstance(each, Frame)}
            plain = all(isinstance(each, Frame | Session | DataType | str | int | float | None) for each in args)
            if function is not None and given and plain and self._closed(frame, given):
                return function, args
        return None

    def _closed(self, frame: Frame, given: set[int]) -> bool:
        waiting = [frame]
        while waiting:
            each = waiting.pop()
            if id(each) in given:
                continue
            if id(each) in self._names or isinstance(each.node, Source | Statement):
                return False
            waiting.extend(parents(each))
        return True

    def _doc(self, value: Any) -> Any:
        if isinstance(value, Frame):
            if (name := self._names.get(id(value))) is not None:
                return name
            if (made := self._made(value)) is not None:
                function, args = made
                # A function of the program may ask a schema, which Spark takes as a text, too.
                given = [
                    self._definitions.literal(each) if isinstance(each, DataType) else self._doc(each) for each in args
                ]
                return _Group(f"{self._definitions.function(function)}(", tuple(given), ")")
            if isinstance(value.node, Source | Statement):
                self._to_decide.append("what stands for `...` is read from no stream: declare a table")
                return "..."
        if isinstance(value, Session):
            return f"{self._first}.sparkSession"
        if isinstance(value, StructType) and not self._definitions.is_known(value):
            return quoted(columns_of(value))
        if isinstance(value, UserFunction):
            return self._definitions.function(value)
        if isinstance(value, Value):
            return self._node(value)
        if type(value) in (list, tuple) and not self._definitions.is_known(value):
            before, after = ("[", "]") if isinstance(value, list) else ("(", ",)" if len(value) == 1 else ")")
            return _Group(before, tuple(map(self._doc, value)), after)
        if type(value) is dict and not self._definitions.is_known(value):
            return _Group("{", tuple((self._doc(key), ": ", self._doc(each)) for key, each in value.items()), "}")
        has_lines = type(value) is str and "\n" in value and '"""' not in value and "\\" not in value
        if has_lines and self._definitions.pieces(value) == [value]:
            return f'"""{value}"""'
        text = self._definitions.literal(value)
        if text is None:
            self._to_decide.append(f"what stands for `...`: a {type(value).__name__} of the program")
        return text or "..."

    def _node(self, value: Value) -> Any:
        links: list[Any] = []
        while not (isinstance(value, Frame) and self._ends(value)):
            match value.node if isinstance(value, Value) else value:
                case Call(function=function, args=args, kwargs=kwargs):
                    items = [*map(self._doc, args), *((f"{key}=", self._doc(each)) for key, each in kwargs.items())]
                    links.append(_Group("(", tuple(items), ")"))
                    value = function
                case Attribute(of=of, name=name):
                    links.append(f".{name}")
                    value = of
                case Item(of=of, key=key):
                    links.append(_Group("[", (self._doc(key),), "]"))
                    value = of
                case _:
                    break
        root: Any
        if isinstance(value, Value) and not isinstance(value, Frame):
            root = self._root(value, bool(links))
        else:
            root = self._doc(value)
        return _Chain([root, *reversed(links)])

    def _ends(self, frame: Frame) -> bool:
        return id(frame) in self._names or self._made(frame) is not None or isinstance(frame.node, Source | Statement)

    def _root(self, value: Value, followed: bool) -> Any:
        match value.node:
            case Root(text=text, imported=imported):
                self._definitions.imported(imported)
                return text.replace("spark.", f"{self._first}.sparkSession.", 1) if text.startswith("spark.") else text
            case Operation(symbol=symbol, operands=operands):
                docs = [self._operand(each) for each in operands]
                operation = (symbol, docs[0]) if len(docs) == 1 else (docs[0], f" {symbol} ", docs[1])
                return ("(", operation, ")") if followed else operation
            case Lambda(parameters=parameters, result=result):
                return (f"lambda {', '.join(parameters)}: ", self._doc(result))
        return "..."

    def _operand(self, value: Any) -> Any:
        doc = self._doc(value)
        is_operation = isinstance(value, Value) and isinstance(value.node, Operation) and len(value.node.operands) > 1
        return ("(", doc, ")") if is_operation else doc


def _call(function: str, args: list[Any], kwargs: Mapping[str, Any]) -> _Group:
    return _Group(f"{function}(", (*args, *((f"{key}=", each) for key, each in kwargs.items())), ")")


def _flat(doc: Any) -> str:
    if isinstance(doc, str):
        return doc
    if isinstance(doc, _Group):
        return doc.before + ", ".join(map(_flat, doc.items)) + doc.after
    return "".join(map(_flat, doc))


def _layout(doc: Any, indent: int = 0, before: int = 0, after: int = 4) -> str:
    """Return a text of lines that are as short as the width, where brackets allow it."""
    flat = _flat(doc)
    if ("\n" not in flat and indent + before + len(flat) + after <= _WIDTH) or isinstance(doc, str):
        return flat
    inner = " " * (indent + 4)
    if isinstance(doc, _Group):
        if not doc.items:
            return flat
        items = "".join(f"{inner}{_layout(each, indent + 4)},\n" for each in doc.items)
        return f"{doc.before}\n{items}{' ' * indent}{doc.after.lstrip(',')}"
    if isinstance(doc, _Chain) and sum(isinstance(each, _Group) and each.before == "(" for each in doc) > 1:
        lines, current = [], [doc[0]]
        for link in doc[1:]:
            if isinstance(link, str) and len(current) > 1:
                lines.append(_Chain(current))
                current = []
            current.append(link)
        lines.append(_Chain(current))
        return "(\n" + "".join(f"{inner}{_inline(each, indent + 4)}\n" for each in lines) + " " * indent + ")"
    return _inline(doc, indent, before)


def _inline(doc: Any, indent: int, before: int = 0) -> str:
    text = ""
    for each in doc:
        width = before + len(text.rpartition("\n")[2])
        text += _layout(each, indent, width)
    return text
