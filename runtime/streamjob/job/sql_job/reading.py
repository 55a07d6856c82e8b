"""Reads a SQL file as the content of a job file: the same model as YAML, and each field with its line and column."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamjob.job.model.origins import LISTS, Origins, Path
from streamjob.job.model.problem import Problem
from streamjob.job.model.references import VARIABLE, Unset, replaced
from streamjob.job.model.suggest import did_you_mean
from streamjob.job.model.variables import as_field
from streamjob.job.planning.dead_letters import DEAD_LETTER, dead_letters_of
from streamjob.job.query.sql import NotAQuery, read_query
from streamjob.job.sql_job.statements import (
    ENCODING_OPTIONS,
    FEEDBACK_PREFIX,
    FIELDS,
    OPTION_PREFIX,
    RENAMES_PREFIX,
    Query,
    Setting,
    Statement,
    list_elements,
    name_of,
    read_statement,
    unknown_field,
)
from streamjob.job.sql_job.tokens import Cursor, NotSql, Token, place_in, statements

SparkParser = Callable[[str], str | None]

_TOP = ("name", "parallelism", "maxParallelism", "batchDuration")
_NESTED = ("checkpointing", "channels", "sparkConf")
_MIGRATE = "migrate"
_OF_TABLE = re.compile(r"(.+)\.(sql|sqlFile)\.(.+)")
_SPARK = "spark."
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class SqlJob:
    """The content of a SQL file.

    Args:
        data: the content, as that of a YAML file.
        problems: the statements that could not be read, each with its place.
        broken: the parts that these problems are about, as their `where`.
        unread: names of parts whose statements could not be read.
        complete: no statement is missing in `data`.
    """

    data: dict[str, Any]
    problems: tuple[Problem, ...] = ()
    broken: frozenset[str] = field(default_factory=frozenset)
    unread: frozenset[str] = field(default_factory=frozenset)
    complete: bool = True


def read_sql(
    text: str,
    origins: Origins,
    file: str = "",
    variables: Mapping[str, str] | None = None,
    spark_parser: SparkParser | None = None,
) -> SqlJob:
    """Return the job that a SQL file describes; wrong statements are problems, and the others are read.

    Args:
        text: the file.
        origins: learns where each field was written.
        file: the file's name in places; empty where only one file is meant.
        variables: the values of `${var:name}`, for finding the inputs of queries; the content keeps the references.
        spark_parser: asked about queries that sqlglot does not read.
    """
    reader = _Reader(text, origins, file, variables or {}, spark_parser)
    try:
        parts = statements(text)
    except NotSql as error:
        reader.problem("file", error)
        return SqlJob(reader.data(), tuple(reader.problems), complete=False)
    for tokens in parts:
        cursor = Cursor(text, tokens)
        kind, name = name_of(cursor)
        try:
            reader.add(read_statement(cursor))
        except NotSql as error:
            reader.unreadable(kind, name, error)
    return reader.job()


class _Reader:
    def __init__(
        self, text: str, origins: Origins, file: str, variables: Mapping[str, str], spark_parser: SparkParser | None
    ) -> None:
        self._text = text
        self._origins = origins
        self._file = file
        self._variables = variables
        self._spark_parser = spark_parser
        self._head: dict[str, Any] = {}
        self._parts: dict[str, list[dict[str, Any]]] = {key: [] for key in LISTS}
        self._queries: list[tuple[dict[str, Any], Statement, Query]] = []
        self._inserts: list[Statement] = []
        self._broken: set[str] = set()
        self._unread: set[str] = set()
        self._complete = True
        self.problems: list[Problem] = []

    def data(self) -> dict[str, Any]:
        """Return the content so far."""
        return {"name": "unnamed", **self._head, **self._parts}

    def problem(self, where: str, error: NotSql) -> None:
        """Record a problem."""
        self._broken.add(where)
        place = place_in(self._text, error.at, self._file)
        self.problems.append(Problem(where, error.what, error.fix, place))

    def unreadable(self, kind: str | None, name: str | None, error: NotSql) -> None:
        """Record a statement that is missing in the content."""
        self._complete = False
        if name is not None:
            self._unread.add(name)
        self.problem(f"{kind} {name!r}" if kind else "statement", error)

    def add(self, statement: Statement) -> None:
        """Take a statement into the job."""
        if statement.kind == "SET":
            self._set(statement.settings[0])
        elif statement.kind == "FUNCTION":
            self._function(statement)
        elif statement.kind == "INSERT":
            self._inserts.append(statement)
        else:
            self._part(statement)

    def job(self) -> SqlJob:
        """Return the job of all statements."""
        for statement in self._inserts:
            try:
                self._insert(statement)
            except NotSql as error:
                self.problem(f"sink {statement.name!r}", error)
        for name in [each["name"] for each in self._parts["sinks"] if "input" not in each]:
            where = f"sink {name!r}"
            if where not in self._broken and name not in self._unread:
                place = self._origins.of(("sinks", name))
                fix = f"add INSERT INTO {name} SELECT …"
                self.problems.append(Problem(where, "nothing is inserted into it", fix, place))
                self._broken.add(where)
            self._unread.add(name)
            self._complete = False
        self._parts["sinks"] = [each for each in self._parts["sinks"] if "input" in each]
        for operator, statement, query in self._queries:
            self._read_query(operator, statement, query)
        if "name" not in self._head:
            self.problems.append(Problem("job", "has no name", "add SET 'name' = 'departures'"))
        return SqlJob(
            self.data(), tuple(self.problems), frozenset(self._broken), frozenset(self._unread), self._complete
        )

    def _note(self, path: Path, at: int) -> None:
        self._origins.note(path, place_in(self._text, at, self._file))

    def _set(self, setting: Setting) -> None:
        head, _, below = setting.key.partition(".")
        if setting.key in _TOP:
            path: Path = (setting.key,)
        elif setting.key.startswith(_SPARK):
            path = ("sparkConf", setting.key)
        elif head in _NESTED and below:
            path = (head, below)
        elif head == _MIGRATE and "." in below:
            of_table = _OF_TABLE.fullmatch(below)
            path = (head, *(below.rsplit(".", 1) if of_table is None else of_table.groups()))
        else:
            fix = did_you_mean(setting.key, [*_TOP, "checkpointing.interval", "channels.capacityBytes"], "settings")
            if head in _NESTED:
                fix = f"name a field of it, like {head}.…"
            elif head == _MIGRATE:
                fix = "name the uid of a view and a field, like SET 'migrate.counts.sql' = SELECT … FROM state"
            self.problem("SET", NotSql(f"has no setting {setting.key!r}", fix, setting.at))
            return
        target: Any = self._head
        for name in path[:-1]:
            target = target.setdefault(name, {})
        if isinstance(target, str) or path[-1] in target:
            self.problem("SET", NotSql(f"sets {setting.key!r} again", "keep one", setting.at))
            return
        target[path[-1]] = as_field(setting.value, path)
        self._note(path[:2], setting.at)

    def _function(self, statement: Statement) -> None:
        functions = self._head.setdefault("functions", {})
        if statement.name in functions:
            where = f"function {statement.name!r}"
            self.problem(where, NotSql("is created again", "keep one", statement.at))
        functions[statement.name] = statement.settings[0].value
        self._note(("functions", statement.name), statement.at)

    def _part(self, statement: Statement) -> None:
        path = (statement.kind, statement.name)
        self._note(path, statement.at)
        part: dict[str, Any] = {"name": statement.name}
        feedback: dict[str, str] = {}
        for each in statement.settings:
            self._field(part, feedback, statement, each)
        if statement.schema is not None:
            part["schema"] = statement.schema
        if statement.computed:
            part["columns"] = ["*", *statement.computed]
        if statement.watermark is not None:
            declared = {"column": statement.watermark.column, "delay": statement.watermark.delay}
            part["watermark"] = declared | part.get("watermark", {})
            self._note((*path, "watermark"), statement.watermark.at)
        if statement.partitions is not None:
            part["partitionBy"] = list(statement.partitions)
        if statement.kind == "operators":
            part["inputs"] = [_input(name, feedback) for name in part.get("inputs", feedback)]
            if statement.query is not None:
                part["sql"] = statement.query.text
                self._queries.append((part, statement, statement.query))
        self._parts[statement.kind].append(part)

    def _field(self, part: dict[str, Any], feedback: dict[str, str], statement: Statement, setting: Setting) -> None:
        path: Path = (statement.kind, statement.name)
        known = {each.lower(): each for each in FIELDS[statement.kind]}
        if statement.kind == "operators" and setting.key.startswith(FEEDBACK_PREFIX):
            feedback[setting.key.removeprefix(FEEDBACK_PREFIX)] = setting.value
        elif statement.kind == "operators" and setting.key.startswith(RENAMES_PREFIX):
            _put(part, setting.key.split(".", 1), setting.value)
            self._note((*path, "renames"), setting.at)
        elif setting.key.lower() == "inputs" and statement.kind == "operators":
            part["inputs"] = _listed(setting)
        elif setting.key.lower() == "tables" and statement.kind == "operators":
            part["tables"] = _listed(setting)
        elif statement.kind in ("sources", "sinks") and (prefix := _encoding_option(setting.key)) is not None:
            head = prefix.partition(".")[0]
            _put(part, (*prefix.rstrip(".").split("."), setting.key[len(prefix) :]), setting.value)
            self._note((*path, head), setting.at)
        elif setting.key.lower() in known and "." in setting.key:
            names = known[setting.key.lower()].split(".")
            _put(part, names, _nested(names[-1], setting))
            self._note((*path, names[0]), setting.at)
        elif setting.key.lower() in known:
            name = known[setting.key.lower()]
            part[name] = _elements(setting) if name == "columns" else setting.value
            self._note((*path, name), setting.at)
        elif statement.kind == "operators":
            where = f"operator {statement.name!r}"
            self.problem(where, unknown_field(setting.key, [*FIELDS["operators"], "name"], setting.at))
        else:
            name = setting.key.removeprefix(OPTION_PREFIX)
            part.setdefault("options", {})[name] = setting.value
            self._note((*path, "options", name), setting.at)

    def _insert(self, statement: Statement) -> None:
        sinks = {each["name"]: each for each in self._parts["sinks"]}
        if statement.name in self._unread:
            return
        if statement.name not in sinks:
            what = "is inserted into, and there is no CREATE SINK for it"
            fix = did_you_mean(statement.name, sinks, "sinks")
            if any(each["name"] == statement.name for each in self._parts["tables"]):
                fix = f"write CREATE SINK {statement.name} WITH (…) instead of CREATE TABLE; a sink takes no columns"
            raise NotSql(what, fix, statement.at)
        sink = sinks[statement.name]
        if "input" in sink:
            fix = "insert once, with UNION ALL between the queries"
            raise NotSql("is inserted into again, and a sink has one input", fix, statement.at)
        query = statement.query
        assert query is not None
        if not statement.settings and (whole := _whole(query.tokens)) is not None:
            readable = self._readable()
            readable |= {name.lower(): name for name in self._unread}
            if whole.value.lower() not in readable:
                sink["input"] = whole.value
                raise NotSql(
                    f"has the unknown input {whole.value!r}",
                    did_you_mean(whole.value, readable.values(), "inputs"),
                    whole.start,
                )
            sink["input"] = readable[whole.value.lower()]
            self._note(("sinks", statement.name, "input"), whole.start)
            return
        names = [each.value for each in statement.settings if each.key == "name"]
        operator = Statement(
            kind="operators",
            name=names[0] if names else f"{statement.name}_input",
            at=statement.at,
            settings=tuple(each for each in statement.settings if each.key != "name"),
            query=query,
        )
        sink["input"] = operator.name
        self._part(operator)

    def _readable(self) -> dict[str, str]:
        """Return the names of what queries read, by their names in lower case."""
        names = [each["name"] for key in ("sources", "operators") for each in self._parts[key]]
        parts = [*self._parts["sources"], *self._parts["operators"]]
        names += [
            dead_letters_of(each["name"])
            for each in parts
            if DEAD_LETTER in (each.get("onError"), each.get("watermark", {}).get("nullEventTime"))
        ]
        return {each.lower(): each for each in names}

    def _read_query(self, operator: dict[str, Any], statement: Statement, query: Query) -> None:
        """Find the inputs of a query; it keeps its lines and columns, so that messages name those of the file."""
        where = f"operator {statement.name!r}"
        place = place_in(self._text, query.at)
        before = "\n" * (place.line - 1) + " " * (place.column - 1)
        try:
            text = replaced(query.text, VARIABLE, self._variables.get)
        except Unset:
            text = query.text
        try:
            read = read_query(before + text, self._spark_parser)
        except NotAQuery as error:
            self._complete = False
            at = _index(self._text, error.line, error.column) if error.line else statement.at
            self.problem(where, NotSql(f"its SQL does not parse: {error.what}", error.fix, at))
            return
        if operator["inputs"] and any(each.key.lower() == "inputs" for each in statement.settings):
            return
        feedback = {each["from"]: each["schema"] for each in operator["inputs"]}
        readable = self._readable()
        positions = {token.value.lower(): token for token in reversed(query.tokens) if token.kind in ("word", "name")}
        tables = read.tables
        if tables is None and read.sets_watermark:
            tables = frozenset(readable.keys() & positions.keys())
        if tables is None:
            self._complete = False
            fix = f"name them: CREATE VIEW {statement.name} WITH ('inputs' = '…') AS …"
            self.problem(where, NotSql("has a query that does not show its inputs", fix, statement.at))
            return
        joined = {each["name"].lower(): each["name"] for each in self._parts["tables"]}
        tables -= joined.keys()
        unknown = sorted(tables - readable.keys() - {each.lower() for each in self._unread})
        for table in unknown:
            at = positions[table].start if table in positions else statement.at
            fix = did_you_mean(table, [*readable.values(), *joined.values()], "sources, tables and views")
            self.problem(where, NotSql(f"has the unknown input {table!r}", fix, at))
        found = sorted(
            (each for each in tables if each in readable),
            key=lambda each: (each not in positions, _at(positions, each)),
        )
        operator["inputs"] = [_input(readable[each], feedback) for each in found]
        operator["inputs"] += [_input(name, feedback) for name in feedback if name.lower() not in found]
        # A name that was perhaps meant counts as read.
        operator["inputs"] += [each for each in unknown if _NAME.fullmatch(each)]


def _index(text: str, line: int, column: int) -> int:
    """Return the index of a place in a text; the end of its line if the column is behind that."""
    lines = text.split("\n")[:line]
    return sum(len(each) + 1 for each in lines[:-1]) + min(column - 1, len(lines[-1]))


def _nested(name: str, setting: Setting) -> Any:
    if name in ("on", "select"):
        return _elements(setting)
    return int(setting.value) if name in ("cacheRows", "retries") and setting.value.isdecimal() else setting.value


def _listed(setting: Setting) -> list[str]:
    return [each.strip().strip("`") for each in setting.value.split(",")]


def _encoding_option(key: str) -> str | None:
    return next((each for each in ENCODING_OPTIONS if key.startswith(each)), None)


def _put(part: dict[str, Any], names: Sequence[str], value: Any) -> None:
    for name in names[:-1]:
        part = part.setdefault(name, {})
    part[names[-1]] = value


def _elements(setting: Setting) -> list[str]:
    try:
        return list_elements(setting.value)
    except NotSql as error:
        raise NotSql(f"has {setting.key!r} in which {error.what}", error.fix, setting.at) from None


def _at(positions: Mapping[str, Token], name: str) -> int:
    return positions[name].start if name in positions else 0


def _input(name: str, feedback: Mapping[str, str]) -> Any:
    return {"from": name, "feedback": True, "schema": feedback[name]} if name in feedback else name


def _whole(tokens: Sequence[Token]) -> Token | None:
    """Return the table whose rows are selected as they are, or None if a query does more."""
    words = [token.value.upper() for token in tokens]
    if len(tokens) == 4 and words[:3] == ["SELECT", "*", "FROM"] and tokens[3].kind in ("word", "name"):
        return tokens[3]
    return None
