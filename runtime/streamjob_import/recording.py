"""Stand-ins for Spark's session, DataFrames, readers and writers that only record how they are used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from streamjob_import.expressions import (
    Attribute,
    Call,
    Item,
    Place,
    Root,
    Unknown,
    Value,
    parts_of,
    recorded_lambdas,
    refuse_special,
)


class Waits(BaseException):
    """The program waits in a loop for its queries."""


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing: nothing runs."""


def _returning(kind: str) -> frozenset[str]:
    methods = vars(DataFrame).items()
    return frozenset(
        name for name, each in methods if getattr(each, "__annotations__", {}).get("return") in (kind, f'"{kind}"')
    )


_TRANSFORMATIONS = _returning("DataFrame") | {"dropDuplicates", "drop_duplicates", "where", "filter", "groupby"}
_GROUPINGS = _returning("GroupedData") | {"groupBy", "groupby", "rollup", "cube"}
_VIEW = re.compile(r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:GLOBAL\s+)?TEMP(?:ORARY)?\s+VIEW\s+(\w+)\s+AS\b", re.I)
_SAME = frozenset({"cache", "persist", "unpersist", "checkpoint", "localCheckpoint"})
_NOTHING = frozenset({"show", "printSchema", "explain"})
_VIEWS = frozenset({"createOrReplaceTempView", "createTempView", "createOrReplaceGlobalTempView", "registerTempTable"})
_ACTIONS = frozenset({"count", "collect", "first", "head", "take", "tail", "toPandas", "isEmpty", "foreach", "rdd"})


@dataclass(frozen=True, slots=True)
class Source:
    """What `read` or `readStream` gives.

    Args:
        table: a table of Spark's catalog, in the place of a format.
    """

    stream: bool
    format: str
    options: Mapping[str, Any]
    schema: Any
    table: str | None
    place: str


@dataclass(frozen=True, slots=True)
class Statement:
    """A query of SQL, over views by their names."""

    text: str
    views: Mapping[str, Frame]


class Frame(Value):
    """A DataFrame.

    Args:
        node: the call that made it, or a Source or Statement.
    """

    def __init__(self, session: Session, node: Any) -> None:
        super().__init__(node)
        self.session = session
        self.lines = list(Place.frames())
        # The functions of the program that gave it, by their code, and their arguments.
        self.made: list[tuple[Any, tuple[Any, ...]]] = []
        session.frames.append(self)

    def __getattr__(self, name: str) -> Any:
        refuse_special(name)
        if name in ("writeStream", "write"):
            return Writer(self, stream=name == "writeStream")
        if name == "sparkSession":
            return self.session
        if name == "isStreaming":
            return reads_stream(self)
        if name in ("schema", "dtypes"):
            known = isinstance(self.node, Source) and isinstance(self.node.schema, StructType) and name == "schema"
            return self.node.schema if known else Unknown(Attribute(self, name))
        if name in ("na", "stat"):
            return Making(self.session, Attribute(self, name))
        if name in _ACTIONS | _GROUPINGS | _TRANSFORMATIONS | _NOTHING | _VIEWS | _SAME or name == "transform":
            return lambda *args, **kwargs: self._called(name, args, kwargs)
        return Value(Attribute(self, name))

    def _called(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "transform":
            return args[0](self, *args[1:], **kwargs)
        if name in _NOTHING:
            return None
        if name in _SAME:
            return self
        if name in _VIEWS:
            self.session.views[args[0]] = self
            return None
        node = Call(Attribute(self, name), args, kwargs)
        if name in _ACTIONS:
            return Value(node)
        return Making(self.session, node) if name in _GROUPINGS else Frame(self.session, node)

    @property
    def columns(self) -> Any:
        """The names of its columns, if its source gives a schema."""
        if isinstance(self.node, Source) and isinstance(self.node.schema, StructType):
            return self.node.schema.names
        return Unknown(Attribute(self, "columns"))

    def __getitem__(self, key: Any) -> Any:
        is_frame = isinstance(key, list | tuple) or (isinstance(key, Value) and not isinstance(key, Frame))
        return Frame(self.session, Item(self, key)) if is_frame else Value(Item(self, key))


class Making(Value):
    """Grouped data and the like: what its methods give is a DataFrame."""

    def __init__(self, session: Session, node: Any) -> None:
        super().__init__(node)
        self.session = session

    def __getattr__(self, name: str) -> Any:
        refuse_special(name)
        kind = Making if name == "pivot" else Frame
        return lambda *args, **kwargs: kind(self.session, Call(Attribute(self, name), args, kwargs))


class UserFunction:
    """What `udf` and `pandas_udf` make of a function.

    Args:
        kind: the name of Spark's function that made it.
    """

    def __init__(self, kind: str, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.kind, self.function, self.args, self.kwargs = kind, function, args, kwargs
        self.__name__ = getattr(function, "__name__", kind)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Value(Call(self, args, dict(kwargs)))

    def asNondeterministic(self) -> UserFunction:  # noqa: N802 - Spark's name
        return self


def user_function(kind: str) -> Callable[..., Any]:
    """Return the stand-in for `udf` and its like, as a function or a decorator."""

    def make(*args: Any, **kwargs: Any) -> Any:
        named = {name: value for name, value in kwargs.items() if name != "f"}
        if callable(kwargs.get("f")):
            return UserFunction(kind, kwargs["f"], args, named)
        if args and callable(args[0]) and not isinstance(args[0], Value):
            return UserFunction(kind, args[0], args[1:], named)
        return lambda function: UserFunction(kind, function, args, named)

    return make


def column_function(module: str, name: str) -> Callable[..., Any]:
    """Return the stand-in for a function of `pyspark.sql.functions`, or of a module like it."""
    root = Value(Root(name, f"from {module} import {name}"))
    if module == "pyspark.sql.functions":
        root = Value(Attribute(Value(Root("F", "from pyspark.sql import functions as F")), name))

    def call(*args: Any, **kwargs: Any) -> Any:
        node = Call(root, recorded_lambdas(args), kwargs)
        frames = [each for each in args if isinstance(each, Frame)]
        return Frame(frames[0].session, node) if frames else Value(node)

    call.__name__ = name
    return call


@dataclass(slots=True)
class Query:
    """A query that the program starts.

    Args:
        writer: what `foreach` was given.
        lines: of the program, the innermost first.
    """

    frame: Frame
    lines: list[tuple[str, int]]
    place: str
    options: dict[str, Any] = field(default_factory=dict)
    trigger: dict[str, Any] = field(default_factory=dict)
    partitions: list[Any] = field(default_factory=list)
    mode: str = "append"
    format: str | None = None
    name: str | None = None
    function: Any = None
    writer: Any = None
    table: str | None = None


_FIELDS = {
    "format": "format",
    "outputMode": "mode",
    "queryName": "name",
    "foreachBatch": "function",
    "foreach": "writer",
    "partitionBy": "partitions",
}


class _Fluent:
    _called: Any

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: self._called(name, args, kwargs)


class Writer(_Fluent):
    """`writeStream`, or `write`."""

    def __init__(self, frame: Frame, *, stream: bool) -> None:
        self._stream = stream
        self._query = Query(frame, list(Place.frames()), Place.here())

    def _called(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        query = self._query
        if name in _FIELDS:
            value: Any = [*args, *kwargs.values()]
            value = value if name == "partitionBy" and not isinstance(value[0], list | tuple) else value[0]
            setattr(query, _FIELDS[name], value.lower() if name == "outputMode" else value)
        elif name == "option":
            query.options.update([in_order("key value", args, kwargs)])
        elif name == "options":
            query.options |= kwargs
        elif name == "trigger":
            query.trigger = kwargs
        elif name not in ("mode", "bucketBy", "sortBy", "clusterBy"):
            return self._finished(name, args, kwargs)
        return self

    def _finished(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        query, session = self._query, self._query.frame.session
        if not self._stream:
            session.left_out.append(f"{query.place}: a batch is written (`write`)")
            return None
        given = dict(zip(("path", "format", "outputMode", "partitionBy", "queryName"), args, strict=False)) | kwargs
        if name in ("toTable", "table"):
            query.table = given.pop("path", None) or given.pop("tableName")
        for key, value in given.items():
            if value is not None:
                self._called(key, (value,), {}) if key in _FIELDS else query.options.update({key: value})
        if session.awaited and any(each.lines == query.lines for each in session.queries):
            raise Waits
        session.queries.append(query)
        ended = {"isActive": False, "lastProgress": None, "recentProgress": (), "exception": _nothing, "stop": _nothing}
        awaited = {"awaitTermination": session.await_queries, "processAllAvailable": _nothing}
        return SimpleNamespace(**ended, **awaited, name=query.name, id="recorded", runId="recorded", status={})


class Reader(_Fluent):
    """`readStream`, or `read`."""

    def __init__(self, session: Session, *, stream: bool) -> None:
        self._session, self._stream = session, stream
        self._format, self._schema = "parquet", None
        self._options: dict[str, Any] = {}

    def _called(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "format":
            (self._format,) = in_order("source", args, kwargs)
        elif name == "schema":
            (self._schema,) = in_order("schema", args, kwargs)
        elif name == "option":
            self._options.update([in_order("key value", args, kwargs)])
        elif name == "options":
            self._options |= kwargs
        else:
            return self._frame(name, args, kwargs)
        return self

    def _frame(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Frame:
        if name == "table":
            (table,) = in_order("tableName", args, kwargs)
            return Frame(self._session, Source(self._stream, "table", self._options, None, table, Place.here()))
        if name == "jdbc":
            kwargs = dict(zip(("url", "dbtable"), args, strict=False)) | kwargs.pop("properties", {}) | kwargs
            kwargs.setdefault("dbtable", kwargs.pop("table", None))
        elif args:
            kwargs["path"] = args[0]
        if name != "load":
            self._format = name
        kind, schema = kwargs.pop("format", None) or self._format, kwargs.pop("schema", None) or self._schema
        options = self._options | {key: value for key, value in kwargs.items() if value is not None}
        return Frame(self._session, Source(self._stream, kind, options, schema, None, Place.here()))


class Context(Value):
    """`sparkContext`: what it gives is known only to Spark."""

    applicationId = "recorded"  # noqa: N815 - Spark's name
    broadcast = staticmethod(lambda value: SimpleNamespace(value=value))

    def __getattr__(self, name: str) -> Any:
        if name.endswith("jsc") or name == "hadoopConfiguration":
            said = (
                "settings of Hadoop are not recorded: give them as spark_conf `spark.hadoop.…`; access to S3 as AWS_…"
            )
            Session.active().left_out.append(f"{Place.here()}: {said}")
        return _nothing if name.startswith(("set", "add")) else super().__getattr__(name)


class Session:
    """A session; the program has one.

    Args:
        left_out: what the program does and a job does not, each with its place.
        awaited: whether the program has waited for its queries.
    """

    current: ClassVar[Session | None] = None
    builder: ClassVar[Builder]
    Builder: ClassVar[type[Any]]

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.name: str | None = None
        self.frames: list[Frame] = []
        self.views: dict[str, Frame] = {}
        self.functions: dict[str, UserFunction] = {}
        self.queries: list[Query] = []
        self.left_out: list[str] = []
        self.awaited = False
        self.version = pyspark.__version__
        self.sparkContext = Context(Root("spark.sparkContext"))
        conf: dict[str, Any] = {"get": lambda key, default=None: self.settings.get(key, default), "unset": _nothing}
        self.conf = SimpleNamespace(set=lambda key, value: self.settings.update({key: value}), **conf)
        self.udf = SimpleNamespace(register=self._register)
        self.streams = SimpleNamespace(active=(), addListener=self._listener, awaitAnyTermination=self.await_queries)
        self.streams.resetTerminated = self.streams.removeListener = _nothing
        self.stop = _nothing

    @classmethod
    def active(cls) -> Session:
        """Return the session of the program."""
        Session.current = Session.current or Session()
        return Session.current

    getActiveSession = active  # noqa: N815 - Spark's name

    @property
    def readStream(self) -> Reader:  # noqa: N802 - Spark's name
        return Reader(self, stream=True)

    @property
    def read(self) -> Reader:
        return Reader(self, stream=False)

    def newSession(self) -> Session:  # noqa: N802 - Spark's name
        return self

    __enter__ = newSession

    def __exit__(self, *_: object) -> None:
        """Nothing runs."""

    def table(self, name: str) -> Any:
        """Return a view, or a table of the catalog."""
        return self.views[name] if name in self.views else self.read.table(name)

    def sql(self, text: str, args: Any = None, **frames: Any) -> Frame:
        """Return the rows of a query over views; note any other statement."""
        for name, value in frames.items():
            # Spark takes the arguments by their names in braces.
            given = name if isinstance(value, Frame) else repr(value) if isinstance(value, str) else str(value)
            text = text.replace(f"{{{name}}}", given)
        frames = {name: frame for name, frame in {**self.views, **frames}.items() if isinstance(frame, Frame)}
        named = {name: frame for name, frame in frames.items() if re.search(rf"\b{name}\b", text, re.I)}
        if named and (view := _VIEW.match(text)):
            self.views[view[1]] = Frame(self, Statement(text[view.end() :], named))
            return self.views[view[1]]
        if not named:
            # What follows may be a secret.
            shown = " ".join(re.split("[=:'\"]", text)[0].split())[:60]
            self.left_out.append(f"{Place.here()}: spark.sql({shown!r} …)")
        return Frame(self, Statement(text, named))

    def await_queries(self, timeout: float | None = None) -> bool:
        """Note that the program waits."""
        self.awaited = True
        if timeout is not None:
            self.left_out.append(f"{Place.here()}: the program waits {timeout} s; the job runs until it is stopped")
        return True

    def _listener(self, listener: Any) -> None:
        name = type(listener).__name__
        self.left_out.append(f"{Place.here()}: the listener {name} is added; metrics and events take its place")

    def _register(self, name: str, f: Any, returnType: Any = None) -> Any:  # noqa: N803 - Spark's name
        made = f if isinstance(f, UserFunction) else UserFunction("udf", f, (returnType or "string",), {})
        self.functions[name] = made
        return made

    def __getattr__(self, name: str) -> Any:
        refuse_special(name)
        if name in ("createDataFrame", "range"):
            return lambda *args, **kwargs: Frame(self, Call(Attribute(self, name), args, kwargs))
        return Value(Attribute(self, name))


class Builder(_Fluent):
    """`SparkSession.builder`."""

    def _called(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        session = Session.active()
        if name in ("getOrCreate", "create"):
            return session
        if name == "appName":
            (session.name,) = in_order("name", args, kwargs)
        elif name == "config":
            conf = kwargs.get("conf")
            session.settings.update(dict(conf.getAll()) if conf is not None else kwargs.get("map") or {})
            session.settings.update([in_order("key value", args, kwargs)] if args or "key" in kwargs else [])
        return self


Session.Builder, Session.builder = Builder, Builder()


def in_order(names: str, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the arguments of a call in the order of their names."""
    given = {**dict(zip(names.split(), args, strict=False)), **kwargs}
    return tuple(given[name] for name in names.split())


def parents(frame: Frame) -> list[Frame]:
    """Return the DataFrames that a DataFrame is made of by one step, in order, each once."""
    if isinstance(frame.node, Statement):
        return list(frame.node.views.values())
    return list({id(each): each for each in mentioned(frame)}.values())


def rows_of(frame: Frame) -> list[Frame]:
    """Return the DataFrames whose rows a DataFrame is made of by one step, without those that only name columns."""
    return list(_taken(frame.node))


def _taken(node: Any) -> Iterator[Frame]:
    if isinstance(node, Frame):
        yield node
    elif isinstance(node, Statement):
        yield from node.views.values()
    elif isinstance(node, Call):
        for each in (node.function, *node.args, *node.kwargs.values()):
            yield from _taken(each)
    elif isinstance(node, Attribute | Item):
        yield from _taken(node.of)
    elif isinstance(node, Making):
        yield from _taken(node.node)
    elif isinstance(node, list | tuple):
        for each in node:
            yield from _taken(each)


def mentioned(frame: Frame) -> list[Frame]:
    """Return the DataFrames that the call names which made a DataFrame, as often as it names them."""
    return list(_inside(parts_of(frame)))


def ancestors(frame: Frame) -> Iterator[Frame]:
    """Yield a DataFrame and all that it is made of, each once."""
    seen: set[int] = set()
    waiting = [frame]
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting.extend(parents(each))


def reads_stream(frame: Frame) -> bool:
    """Return whether a DataFrame has rows of a stream."""
    return any(isinstance(each.node, Source) and each.node.stream for each in ancestors(frame))


def _inside(values: Iterable[Any]) -> Iterator[Frame]:
    for each in values:
        if isinstance(each, Frame):
            yield each
        else:
            yield from _inside(parts_of(each))
