"""The statements of a SQL job, each read by itself from its tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamjob.job.model.suggest import did_you_mean
from streamjob.job.sql_job.tokens import Cursor, NotSql, Token, statements

OPTION_PREFIX = "options."
"""Before the name of an option that would otherwise be the name of a field."""
FEEDBACK_PREFIX = "feedback."
RENAMES_PREFIX = "renames."
_REGISTRY = ("url", "subject", "version", "autoRegister")
_ENCODED = ("format", "schema", "schemaFile", "message", *(f"registry.{each}" for each in _REGISTRY))
ENCODING_OPTIONS = tuple(
    f"{part}.{options}." for part in ("key", "value") for options in ("options", "registry.options")
)
_CODED = tuple(f"{part}.{name}" for part in ("key", "value") for name in _ENCODED)
_LOOKUP = tuple(f"lookup.{name}" for name in ("table", "on", "select", "join"))
_TEMPORAL = tuple(f"temporalJoin.{name}" for name in ("on", "select", "join", "validFor"))
_ASKED = tuple(f"lookup.{name}" for name in ("cacheRows", "ttl", "timeout", "retries"))
_TIMING = ("watermark.idleTimeout", "watermark.maxAhead", "watermark.perPartition", "watermark.nullEventTime")
_TIMED = ("watermark.column", "watermark.delay", *_TIMING)
FIELDS: Mapping[str, Sequence[str]] = {
    "sources": (
        *("format", "uid", "bounded", *_CODED, "changes", "unavailableValue", "onUnavailable", "onError", "skip"),
        *("columns", "python", "replayable"),
        *_TIMING,
    ),
    "tables": ("format", "refresh", "maxAge", *_ASKED),
    "operators": ("uid", "inputs", "tables", *_TIMED, "onError", "outputMode", "chain", "python", *_LOOKUP, *_TEMPORAL),
    "sinks": ("format", "function", "uid", *_CODED, "delivery"),
}
"""Fields that `WITH` takes, by the list of the job that a part is in."""

_FOR_OPTIONS_OF_FLINK = {
    "connector": "write 'format' = 'kafka', and for its values 'value.format' = 'json' and 'value.schema'; for "
    "files, 'format' = 'parquet' and 'path'; for a database, 'format' = 'jdbc' or 'postgresql'",
    "scan.startup.mode": "write 'startingOffsets' = 'earliest', or 'latest'",
    "scan.watermark.idle-timeout": "write 'watermark.idleTimeout'",
    "topic-pattern": "write 'subscribePattern'",
}
_UNITS = "MILLISECOND|SECOND|MINUTE|HOUR|DAY|WEEK"
_INTERVAL = re.compile(rf"(?:\d+ (?:{_UNITS})S?)(?: \d+ (?:{_UNITS})S?)*", re.IGNORECASE)
_FORMS = (
    "CREATE SOURCE, CREATE TABLE, CREATE FUNCTION, CREATE VIEW, CREATE SINK, INSERT INTO and SET; put a query into "
    "CREATE VIEW name AS SELECT …"
)


@dataclass(frozen=True, slots=True)
class Setting:
    """An element of `WITH`, or a `SET`: its key, its value as text, and where it begins."""

    key: str
    value: str
    at: int


@dataclass(frozen=True, slots=True)
class Column:
    """The watermark of a source: its column, its delay as text, and where it begins."""

    column: str
    delay: str
    at: int


@dataclass(frozen=True, slots=True)
class Query:
    """A query: its text, with all that is around it in the statement, and where that begins."""

    text: str
    at: int
    tokens: Sequence[Token]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement.

    Args:
        kind: `SET`, `INSERT`, `FUNCTION`, or the list of the job that gets a part: `sources`, `tables`, `operators`,
            `sinks`.
        name: of the part; of a sink for `INSERT`, of a field for `SET`.
        at: where the name begins.
        settings: the elements of `WITH`; for `SET` and `FUNCTION`, one with the value.
        schema: the columns of a source or table that its format has.
        computed: the columns of a source that are expressions, each as `expression AS name`.
        watermark: of a source.
        query: of a view or an `INSERT`.
        partitions: columns that a sink is partitioned by.
    """

    kind: str
    name: str
    at: int
    settings: tuple[Setting, ...] = ()
    schema: str | None = None
    computed: tuple[str, ...] = ()
    watermark: Column | None = None
    query: Query | None = None
    partitions: tuple[str, ...] | None = None


def read_statement(cursor: Cursor) -> Statement:
    """Return a statement from its tokens.

    Raises:
        NotSql: it is none that a job can have.
    """
    if cursor.skip("SET"):
        return _set(cursor)
    if cursor.skip("INSERT"):
        return _insert(cursor)
    if cursor.skip("CREATE"):
        if cursor.skip("TEMPORARY", "FUNCTION"):
            return _function(cursor)
        for word, read in _CREATE:
            if cursor.skip(word):
                return read(cursor)
        fix = "a job has CREATE SOURCE, CREATE TABLE, CREATE FUNCTION, CREATE VIEW and CREATE SINK"
        raise cursor.error("SOURCE, TABLE, FUNCTION, VIEW or SINK", fix)
    first = cursor.peek()
    if first is not None and first.is_word("EXECUTE", "BEGIN", "END"):
        fix = "leave it out: all statements of a file are one job"
        raise NotSql(f"{first.value.upper()} is no statement here", fix, first.start)
    raise cursor.error("a statement", f"the statements are {_FORMS}")


def name_of(cursor: Cursor) -> tuple[str | None, str | None]:
    """Return the kind and name of the part that an unreadable statement is about, or None for each if not known."""
    words = [token for token in cursor.rest[:3] if token.kind in ("word", "name")]
    if len(words) == 3 and words[0].is_word("INSERT"):
        return "sink", words[2].value
    kinds = {"SOURCE": "source", "TABLE": "table", "FUNCTION": "function", "VIEW": "operator", "SINK": "sink"}
    if len(words) == 3 and words[0].is_word("CREATE") and words[1].value.upper() in kinds:
        return kinds[words[1].value.upper()], words[2].value
    return None, None


def _source(cursor: Cursor) -> Statement:
    token = cursor.name("the source")
    listed = _columns(cursor) if cursor.peek() is not None and cursor.skip("(") else _Columns()
    settings = _with(cursor)
    _ends(cursor)
    if listed.computed and (other := next((each for each in settings if each.key in ("columns", "python")), None)):
        fix = f"keep one of them: {other.key!r} lists all columns"
        raise NotSql(f"has computed columns and {other.key!r}", fix, other.at)
    return Statement(
        kind="sources",
        name=token.value,
        at=token.start,
        settings=settings,
        schema=listed.schema,
        computed=listed.computed,
        watermark=listed.watermark,
    )


def _table(cursor: Cursor) -> Statement:
    token = cursor.name("the table")
    listed = _columns(cursor) if cursor.peek() is not None and cursor.skip("(") else _Columns()
    settings = _with(cursor)
    _ends(cursor)
    if listed.watermark is not None:
        fix = f"write CREATE SOURCE {token.value} for a stream; the rows of a table have no event time"
        raise NotSql("has a watermark, and is a table", fix, listed.watermark.at)
    if listed.computed:
        fix = "leave them out, and compute them in the query that joins the table"
        raise NotSql("has computed columns, and is a table", fix, token.start)
    return Statement(kind="tables", name=token.value, at=token.start, settings=settings, schema=listed.schema)


def _view(cursor: Cursor) -> Statement:
    token = cursor.name("the view")
    settings = _with(cursor, optional=True)
    query = None
    if cursor.skip("AS"):
        query = _query(cursor)
    elif not any(each.key in ("python", "lookup.table", "temporalJoin.on") for each in settings):
        raise cursor.error("'AS'", f"write CREATE VIEW {token.value} AS SELECT …")
    _ends(cursor)
    return Statement(kind="operators", name=token.value, at=token.start, settings=settings, query=query)


def _sink(cursor: Cursor) -> Statement:
    token = cursor.name("the sink")
    partitions = None
    if cursor.skip("PARTITIONED"):
        cursor.expect("BY", "(", fix="write PARTITIONED BY (column, …)")
        partitions = tuple(_names(cursor, "a column"))
        cursor.expect(")")
    settings = _with(cursor)
    _ends(cursor)
    return Statement(kind="sinks", name=token.value, at=token.start, settings=settings, partitions=partitions)


def _function(cursor: Cursor) -> Statement:
    token = cursor.name("the function")
    fix = f"write CREATE FUNCTION {token.value} AS 'module.function', a function in Python"
    cursor.expect("AS", fix=fix)
    at, named = cursor.at, cursor.next()
    if named is None or named.kind != "text":
        raise NotSql("has no text in quotes that names its function", fix, at)
    _ends(cursor)
    module, dot, function = named.value.rpartition(".")
    reference = f"{module}:{function}" if dot and ":" not in named.value else named.value
    setting = Setting(token.value, reference, at)
    return Statement(kind="FUNCTION", name=token.value, at=token.start, settings=(setting,))


_CREATE = (
    ("SOURCE", _source),
    ("TABLE", _table),
    ("FUNCTION", _function),
    ("VIEW", _view),
    ("SINK", _sink),
)


def _insert(cursor: Cursor) -> Statement:
    cursor.expect("INTO", fix="write INSERT INTO sink SELECT …")
    token = cursor.name("the sink")
    settings = _with(cursor, optional=True)
    return Statement(kind="INSERT", name=token.value, at=token.start, settings=settings, query=_query(cursor))


def _set(cursor: Cursor) -> Statement:
    fix = "write it like SET 'parallelism' = 4"
    at = cursor.at
    key = _key(cursor, fix)
    cursor.expect("=", fix=fix)
    if not cursor.rest:
        raise cursor.error("a value", fix)
    start = cursor.at
    first = cursor.next()
    value = first.value if first is not None and first.kind == "text" and not cursor.rest else None
    while cursor.next() is not None:
        pass
    text = cursor.text[start : cursor.end].strip() if value is None else value
    return Statement(kind="SET", name=key, at=at, settings=(Setting(key, text, at),))


@dataclass(frozen=True, slots=True)
class _Columns:
    schema: str | None = None
    computed: tuple[str, ...] = ()
    watermark: Column | None = None


def _columns(cursor: Cursor) -> _Columns:
    """Return the columns and the watermark in a list of columns, after its parenthesis."""
    elements: list[list[Token]] = [[]]
    watermark: Column | None = None
    depth = 0
    while True:
        token = cursor.peek()
        if token is None:
            raise cursor.error("')'", "close the list of columns")
        if not depth and token.is_word("WATERMARK") and not elements[-1]:
            following = cursor.peek(1)
            if following is not None and following.is_word("FOR"):
                if watermark is not None:
                    raise NotSql("has a second watermark", "keep one", token.start)
                watermark = _watermark(cursor)
                elements[-1] = []
                if not cursor.skip(",") and not _follows(cursor, ")"):
                    raise cursor.error("',' or ')'")
                continue
        cursor.next()
        if token.kind == "sign" and token.value == ")" and not depth:
            break
        if token.kind == "sign" and token.value == "," and not depth:
            elements.append([])
            continue
        elements[-1].append(token)
        # In an expression, angle brackets compare.
        depth += _depth(token, "(", ")") if _is_computed(elements[-1]) else _depth(token)
    computed = tuple(_computed(cursor.text, each) for each in elements if _is_computed(each))
    elements = [each for each in elements if each and not _is_computed(each)]
    columns = [_joined(cursor.text, each) for each in elements]
    return _Columns(_between(cursor.text, elements, columns) if columns else None, computed, watermark)


def _is_computed(tokens: Sequence[Token]) -> bool:
    return len(tokens) > 2 and tokens[0].kind in ("word", "name") and tokens[1].is_word("AS")


def _computed(text: str, tokens: Sequence[Token]) -> str:
    return f"{_joined(text, tokens[2:])} AS {text[tokens[0].start : tokens[0].end]}"


def list_elements(text: str) -> list[str]:
    """Return the elements of a list, which commas outside of parentheses separate.

    Raises:
        NotSql: a quote or a comment is not closed.
    """
    elements: list[list[Token]] = [[]]
    depth = 0
    for token in (token for each in statements(text) for token in each):
        if token.kind == "sign" and token.value == "," and not depth:
            elements.append([])
            continue
        depth += _depth(token, "([{", ")]}")
        elements[-1].append(token)
    return [_joined(text, each) for each in elements if each]


def _depth(token: Token, opening: str = "(<", closing: str = ")>") -> int:
    if token.kind != "sign":
        return 0
    return sum(token.value.count(each) for each in opening) - sum(token.value.count(each) for each in closing)


def _joined(text: str, tokens: Sequence[Token]) -> str:
    """Return the text of some tokens; a line break or a comment between two of them becomes a space."""
    parts = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        gap = text[before.end : token.start] if before is not None else ""
        parts += [gap if not gap or set(gap) == {" "} else " ", text[token.start : token.end]]
    return "".join(parts)


def _between(text: str, elements: Sequence[Sequence[Token]], columns: Sequence[str]) -> str:
    """Return columns as one schema, with the spaces between them where they are on one line."""
    schema = columns[0]
    for before, after, column in zip(elements[:-1], elements[1:], columns[1:], strict=True):
        gap = text[before[-1].end : after[0].start]
        schema += (gap if set(gap) <= {",", " "} and gap.count(",") == 1 else ", ") + column
    return schema


def _watermark(cursor: Cursor) -> Column:
    fix = "write it like WATERMARK FOR departed AS departed - INTERVAL 1 HOUR"
    at = cursor.at
    cursor.expect("WATERMARK", "FOR")
    column = _column(cursor)
    cursor.expect("AS", fix=fix)
    start = cursor.at
    if _column(cursor) != column:
        raise NotSql(f"has a watermark for {column!r} that is computed from something else", fix, start)
    if not cursor.skip("-"):
        return Column(column, "0s", at)
    cursor.expect("INTERVAL", fix=fix)
    start, words = cursor.at, []
    while (token := cursor.peek()) is not None and token.kind in ("text", "number", "word"):
        words.append(token.value)
        cursor.next()
    delay = " ".join(" ".join(words).split())
    if not _INTERVAL.fullmatch(delay):
        raise NotSql("has a watermark without an interval of whole units of time", fix, start)
    return Column(column, delay, at)


def _column(cursor: Cursor) -> str:
    parts = [cursor.name("a column").value]
    while cursor.skip("."):
        parts.append(cursor.name("a field").value)
    return ".".join(parts)


def _with(cursor: Cursor, *, optional: bool = False) -> tuple[Setting, ...]:
    fix = "write WITH ('key' = 'value', …)"
    if optional and not _follows(cursor, "WITH", "("):
        return ()
    cursor.expect("WITH", "(", fix=fix)
    settings: list[Setting] = []
    while True:
        at = cursor.at
        key = _key(cursor, fix)
        cursor.expect("=", fix=fix)
        if (own := _of_flink(key)) is not None:
            raise NotSql(f"has {key!r}, which is Flink's", own, at)
        if any(each.key == key for each in settings):
            raise NotSql(f"has {key!r} twice", "keep one", at)
        settings.append(Setting(key, _value(cursor, fix), at))
        if cursor.skip(")"):
            return tuple(settings)
        cursor.expect(",", fix=fix)


def _of_flink(key: str) -> str | None:
    """Return what to write for an option of Flink's connectors; None for any other."""
    if key.startswith("properties."):
        return f"write 'kafka.{key.removeprefix('properties.')}'"
    return _FOR_OPTIONS_OF_FLINK.get(key)


def _key(cursor: Cursor, fix: str) -> str:
    token = cursor.peek()
    if token is not None and token.kind == "text":
        cursor.next()
        return token.value
    if token is None or token.kind != "word":
        raise cursor.error("a key in quotes", fix)
    return _column(cursor)


def _value(cursor: Cursor, fix: str) -> str:
    sign = "-" if cursor.skip("-") else ""
    token = cursor.next()
    if token is not None and token.kind == "number":
        return sign + cursor.text[token.start : token.end]
    if token is not None and not sign and token.kind == "text":
        return token.value
    if token is not None and not sign and token.is_word("TRUE", "FALSE"):
        return token.value.lower()
    at = token.start if token is not None else cursor.end
    raise NotSql("has a value that is no text in quotes, number, true or false", fix, at)


def _names(cursor: Cursor, of: str) -> list[str]:
    names = [cursor.name(of).value]
    while cursor.skip(","):
        names.append(cursor.name(of).value)
    return names


def _query(cursor: Cursor) -> Query:
    """Return the query in the rest of the statement; comments around it are part of it."""
    if not cursor.rest:
        raise cursor.error("a query", "write SELECT …")
    tokens = cursor.rest
    before = cursor.before
    while cursor.next() is not None:
        pass
    return Query(cursor.text[before : cursor.end], before, tokens)


def _follows(cursor: Cursor, *words: str) -> bool:
    tokens = [cursor.peek(ahead) for ahead in range(len(words))]
    return all(
        token is not None and token.kind in ("word", "sign") and token.value.upper() == word
        for token, word in zip(tokens, words, strict=True)
    )


def _ends(cursor: Cursor) -> None:
    if cursor.rest:
        raise cursor.error("the end of the statement", "separate statements by ';'")


def unknown_field(key: str, fields: Sequence[str], at: int) -> NotSql:
    """Return the problem of a key that a statement does not take."""
    return NotSql(f"has no field {key!r}", did_you_mean(key, fields, "fields"), at)
