"""Hostile specs: every kind that has held up a controller, and random changes of a good spec.

A spec that the API server rejects never reaches a controller. So most of these follow the definition, and only one in
six violates it.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

GOOD: Object = {
    "job": {
        "sources": [{"name": "numbers", "format": "rate", "options": {"rowsPerSecond": 5}}],
        "operators": [{"name": "odd", "inputs": ["numbers"], "sql": "SELECT * FROM numbers WHERE value % 2 = 1"}],
        "sinks": [{"name": "out", "input": "odd", "format": "console"}],
    },
    "checkpointing": {"location": "s3://snapshots/jobs", "interval": "10s"},
    "suspend": True,
}
"""A job that rests: it needs a controller, and no pod."""

_TEXTS = (
    "a" * 3900,
    "(" * 3900,
    "[" * 3900,
    "\u0000",
    "\ud7ff\U0001f600",
    " ",
    "${env:A}",
    "0 0 31 2 *",
    "99999999999d",
)
_ODD: tuple[Any, ...] = (*_TEXTS, "", -1, 0, 2**31, 2**53, 1e300, True, None, [], {}, [[]], {"": ""})


def hostile(number: int, seed: int = 15) -> Iterator[Object]:
    """Yield the given number of specs; the same for the same seed."""
    chance = random.Random(seed)
    for index in range(number):
        spec = copy.deepcopy(GOOD)
        if index % 2 == 0:
            _KINDS[index // 2 % len(_KINDS)](spec, chance)
        else:
            change = _mutate if index % 6 == 5 else _vary
            for _ in range(chance.randint(1, 4)):
                change(spec, chance)
        # Nothing is to run.
        spec["suspend"] = True
        yield spec


def _vary(spec: Object, chance: random.Random) -> None:
    """Put something odd where the definition takes it."""
    path, values = chance.choice(_FREE)
    place: Any = spec
    for key in path[:-1]:
        place = place[key] if isinstance(key, int) else place.setdefault(key, {})
    place[path[-1]] = copy.deepcopy(chance.choice(values))


def _mutate(spec: Object, chance: random.Random) -> None:
    path = chance.choice(list(_places(spec)))
    place: Any = spec
    for key in path[:-1]:
        place = place[key]
    odd = chance.choice(_ODD)
    place[path[-1]] = str(place[path[-1]]) + odd if isinstance(odd, str) and chance.random() < 0.5 else odd


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in entries:
        yield (*path, key)
        yield from _places(each, (*path, key))


_SOURCE, _OPERATOR, _SINK = (("job", kind, 0) for kind in ("sources", "operators", "sinks"))
_NAMES = ("numbers", "odd", "out", "_", "a" * 63, "NUMBERS")
_EDGES: tuple[Any, ...] = (*_ODD, *_NAMES, {"from": "odd", "feedback": True}, {"from": "odd", "schema": "(" * 3900})
_DURATIONS = ("0s", "0ms", "1d", "99999999999d", "1ms" * 1000)
_NUMBERS = (1, 2, 32767, 32768)
_FREE: tuple[tuple[tuple[str | int, ...], tuple[Any, ...]], ...] = (
    ((*_SOURCE, "name"), _NAMES),
    ((*_SOURCE, "format"), _TEXTS),
    ((*_SOURCE, "schema"), (*_TEXTS, "", "a INT, " * 5000)),
    ((*_SOURCE, "options", "path"), _ODD),
    ((*_SOURCE, "options"), ({}, {"": ""}, {"\u0000": "a"}, {"password": "a"}, dict.fromkeys(_TEXTS, "a"))),
    ((*_SOURCE, "watermark"), tuple({"column": each, "delay": "1 hour"} for each in _TEXTS)),
    ((*_SOURCE, "bounded"), (True,)),
    ((*_OPERATOR, "name"), _NAMES),
    ((*_OPERATOR, "uid"), _NAMES),
    ((*_OPERATOR, "inputs"), tuple([each] * number for each in _EDGES for number in (1, 2, 500))),
    ((*_OPERATOR, "sql"), (*_TEXTS, "", "SELECT", "SELECT * FROM odd", "-- " * 20_000, "/*" * 30_000)),
    ((*_OPERATOR, "python"), (*_TEXTS, "", "os:abort", "a.b:c", ":", "." * 3900 + ":" + "." * 90)),
    ((*_OPERATOR, "outputMode"), ("complete", "update")),
    ((*_SINK, "input"), _NAMES),
    ((*_SINK, "format"), (*_TEXTS, "kafka", "postgresql", "iceberg", "os:abort")),
    ((*_SINK, "options", "topic"), _ODD),
    ((*_SINK, "partitionBy"), ([], ["a"] * 500, list(_TEXTS))),
    (("job", "parallelism"), _NUMBERS),
    (("job", "maxParallelism"), _NUMBERS),
    (("job", "sparkConf", "spark.a"), _ODD),
    (("sparkConf",), ({}, {"": ""}, dict.fromkeys(_TEXTS, "a"), {f"spark.{each}": "a" for each in range(900)})),
    (("parallelism",), _NUMBERS),
    (("maxParallelism",), _NUMBERS),
    (("checkpointing", "location"), tuple(f"{start}{end[:2000]}" for start in ("/", "s3://a") for end in _TEXTS)),
    (("checkpointing", "interval"), _DURATIONS),
    (("checkpointing", "timeout"), _DURATIONS),
    (("savepoints", "schedule"), ("*/1 * * * *", "59 23 31 12 6", "0 0 29 2 *", "1ms", "99999999999d")),
    (("volumes",), tuple([{"name": f"v{number}", "b": each} for number in range(50)] for each in _ODD)),
    (("driver", "template"), tuple({"spec": each} for each in _ODD if isinstance(each, dict | str | int))),
    (("image",), _TEXTS),
    (("storage", "credentialsSecretRef"), ({"name": "missing"}, {"name": "a" * 253})),
    (("initialSavepointPath",), ("/a", "s3://a/b", "file:///\u0000")),
    (("allowNonRestoredState",), (True,)),
    (("strictMigration",), (True,)),
    (("restartNonce",), (0, -1, 2**53)),
)
"""Fields, and what the definition lets them have."""


def _sql(spec: Object, sql: str) -> None:
    spec["job"]["operators"][0]["sql"] = sql


def _option(spec: Object, value: Any) -> None:
    spec["job"]["sources"][0]["options"]["a"] = value


def _nested(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = {"a": found}
    return found


def _parentheses(spec: Object, chance: random.Random) -> None:
    depth = chance.randint(500, 20_000)
    _sql(spec, "SELECT " + "(" * depth + "value" + ")" * depth + " FROM numbers")


def _subqueries(spec: Object, chance: random.Random) -> None:
    depth = chance.randint(20, 4500)
    _sql(spec, "SELECT * FROM (" * depth + "SELECT value FROM numbers" + ")" * depth)


def _conditions(spec: Object, chance: random.Random) -> None:
    number = chance.randint(500, 3300)
    _sql(spec, "SELECT * FROM numbers WHERE " + " AND ".join(f"value <> {each}" for each in range(number)))


def _unions(spec: Object, chance: random.Random) -> None:
    _sql(spec, " UNION ALL ".join(["SELECT value FROM numbers"] * chance.randint(100, 2000)))


def _cases(spec: Object, chance: random.Random) -> None:
    depth = chance.randint(20, 500)
    _sql(spec, "SELECT " + "CASE WHEN value > 1 THEN " * depth + "1" + " END" * depth + " AS a FROM numbers")


def _quotes(spec: Object, chance: random.Random) -> None:
    _sql(spec, "SELECT " + "'\\" * chance.randint(1000, 30_000) + " watermark delay o")


def _schedule(spec: Object, chance: random.Random) -> None:
    never = ("0 0 31 2 *", "0 0 30,31 feb *", "*/7 * 31 2,4,6,9,11 *", "0 0 */31 * 2", "999999999999d", "0s")
    spec["savepoints"] = {"schedule": chance.choice(never)}


def _options(spec: Object, chance: random.Random) -> None:
    spec["job"]["sources"][0]["options"] = {f"o{each}": "x" * 10 for each in range(chance.randint(100, 1000))}


def _deep_option(spec: Object, chance: random.Random) -> None:
    _option(spec, _nested(chance.randint(100, 5000)))


def _deep_template(spec: Object, chance: random.Random) -> None:
    spec["driver"] = {"template": _nested(chance.randint(100, 5000))}


def _schema(spec: Object, chance: random.Random) -> None:
    depth = chance.randint(100, 9000)
    spec["job"]["sources"][0]["schema"] = "a " + "ARRAY<" * depth + "INT" + ">" * depth


def _json(spec: Object, chance: random.Random) -> None:
    depth = chance.randint(1000, 50_000)
    options = {"kafka.bootstrap.servers": "a:1", "subscribe": "a", "startingOffsets": "[" * depth + "]" * depth}
    spec["job"]["sources"][0] |= {"format": "kafka", "options": options}


def _many(spec: Object, chance: random.Random) -> None:
    number = chance.randint(50, 550)
    names = ["numbers", *(f"o{each}" for each in range(number))]
    spec["job"]["operators"] = [
        {"name": name, "inputs": [before], "sql": f"SELECT * FROM {before}"}
        for before, name in itertools.pairwise(names)
    ]
    spec["job"]["sinks"][0]["input"] = names[-1]


def _large(spec: Object, chance: random.Random) -> None:
    number = chance.randint(5, 20)
    query = "SELECT * FROM numbers WHERE " + " OR ".join(["value + 1 = 2"] * 3000)
    spec["job"]["operators"] = [{"name": f"o{each}", "inputs": ["numbers"], "sql": query} for each in range(number)]
    spec["job"]["sinks"][0]["input"] = "o0"


_KINDS = (
    *(_parentheses, _subqueries, _conditions, _unions, _cases, _quotes, _schedule, _options, _deep_option),
    *(_deep_template, _schema, _json, _many, _large),
)
