"""Runs a PySpark program with stand-ins for Spark, so that nothing starts."""

from __future__ import annotations

import ast
import os
import sys
import traceback
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSequence, Sequence, Set
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.machinery import ModuleSpec
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

from streamjob.errors import InvalidInput
from streamjob.job.connectors.options import is_secret
from streamjob_import.expressions import FromEnvironment, Place, Root, Undecided, Value, refuse_special
from streamjob_import.recording import Frame, Session, Waits, column_function, user_function

_SURROUNDINGS = [
    "getpass.getuser", "os.getlogin", "os.getpid", "platform.node", "random.randint", "random.random",
    "secrets.token_hex", "secrets.token_urlsafe", "socket.getfqdn", "socket.gethostname", "tempfile.mkdtemp",
    "uuid.uuid1", "uuid.uuid4",
]  # fmt: skip
"""Functions that give something else elsewhere, or at each call."""
_FUNCTIONS = ("pyspark.sql.functions", "pyspark.sql.avro.functions", "pyspark.sql.protobuf.functions")
_MAKERS = ("udf", "pandas_udf", "arrow_udf", "udtf", "arrow_udtf")
_KINDS = {"dataframe.DataFrame": Frame, "column.Column": Value}
_ROUNDS = 20
_Patch = tuple[str, str, Any]


class ProgramFailed(InvalidInput):
    """The program ended with an exception before it started a query."""


class NothingStarted(InvalidInput):
    """The program ended without starting a query."""


@dataclass(slots=True)
class Recording:
    """What a program did.

    Args:
        names: what its module holds at the end, by name.
        variables: the variables of the environment that it read, by name, or what it took in their place.
        computed: what it was given by functions that give something else elsewhere, with what gave it.
        constants: what its text holds, and its arguments.
        unread: the other variables, which it may know by another way, without those that are short or common.
        missing: modules that it imports and that are not installed here.
        ended: the line and kind of the exception by which it ended after it had started queries.
    """

    program: Path
    session: Session
    names: Mapping[str, Any]
    variables: Mapping[str, FromEnvironment]
    computed: Mapping[str, str]
    constants: Set[Any]
    unread: tuple[FromEnvironment, ...]
    missing: Sequence[str] = ()
    ended: str = ""


def record(program: Path, arguments: Sequence[str] = ()) -> Recording:
    """Run a program; return what it would have started.

    Raises:
        ProgramFailed: it ended with an exception before that.
        NothingStarted: it started no query.
        Undecided: it decides by a value that only Spark knows.
    """
    argv, program = [str(program), *arguments], program.absolute()
    session = Session.current = Session()
    Undecided.raised.clear()
    module = types.ModuleType("__main__")
    module.__file__ = str(program)
    # Notebooks and Spark's shell have these names.
    module.__dict__.update(spark=session, sc=session.sparkContext, display=lambda *_: None)
    module.__dict__["dbutils"] = Value(Root("dbutils"))
    ended, said, before, computed = "", "", set(sys.modules), dict[str, str]()
    environment = _Environment(os.environ, computed)
    absent = _Absent()
    process: list[_Patch] = [
        ("sys", "argv", argv),
        ("sys", "path", [str(program.parent.resolve()), *sys.path]),
        ("sys", "meta_path", [*sys.meta_path, absent]),
        ("os", "environ", environment),
        ("time", "sleep", _sleep(session)),
    ]
    with _stand_ins(module, environment, [*_replaced(computed), *process]):
        try:
            exec(compile(program.read_bytes(), str(program.resolve()), "exec"), module.__dict__)
        except (Waits, KeyboardInterrupt):
            pass
        except SystemExit as error:
            if error.code not in (None, 0):
                ended, said = "its exit", f"it exits with {error.code!r}"
        except Undecided:
            raise
        except Exception as error:
            # Its text may hold a login; it gets into no job.
            ended = f"{_line_of(error)}: {type(error).__name__}"
            said = f"{ended}: {error}"
    if Undecided.raised:
        raise Undecided.raised[0]
    if not session.queries:
        if ended:
            fix = "give it what it needs to run: its arguments behind `--`, its variables, its modules"
            raise ProgramFailed(f"{program}: {said}", fix)
        fix = "name the file that does; a function that nobody calls is not found"
        raise NothingStarted(f"{program}: it starts no query by `writeStream … start()`", fix)
    files = {str(getattr(sys.modules[name], "__file__", None) or "<") for name in set(sys.modules) - before}
    modules = [Path(each) for each in (str(program), *files) if Place.is_program(each) and each.endswith(".py")]
    nodes = chain.from_iterable(ast.walk(ast.parse(each.read_bytes())) for each in modules)
    constants = {*arguments, *(each.value for each in nodes if isinstance(each, ast.Constant))}
    names, unread = dict(module.__dict__), tuple(environment.unread(constants))
    return Recording(program, session, names, environment.read, computed, constants, unread, absent.modules, ended)


def _line_of(error: Exception) -> str:
    active = [each for each in traceback.extract_tb(error.__traceback__) if Place.is_program(each.filename)]
    return f"{Path(active[-1].filename).name}, line {active[-1].lineno}" if active else "the program"


@contextmanager
def _stand_ins(module: types.ModuleType, environment: _Environment, replaced: Iterable[_Patch]) -> Iterator[None]:
    with ExitStack() as stack:
        # The program may change the directory.
        stack.enter_context(chdir("."))
        for place, name, value in replaced:
            stack.enter_context(patch.object(import_module(place), name, value))
        main, sys.modules["__main__"] = sys.modules["__main__"], module
        sys.setprofile(_Calls(environment))
        try:
            yield
        finally:
            sys.setprofile(None)
            sys.modules["__main__"] = main
            for name in [name for name, each in sys.modules.items() if isinstance(each, _Module)]:
                del sys.modules[name]


def _replaced(computed: dict[str, str]) -> Iterator[_Patch]:
    for place in _FUNCTIONS:
        names = vars(import_module(place))
        for name, value in names.items():
            if callable(value) and not name.startswith("_") and not isinstance(value, type):
                yield place, name, user_function(name) if name in _MAKERS else column_function(place, name)
    window = Value(Root("Window", "from pyspark.sql import Window"))
    for key, value in {"session.SparkSession": Session, "window.Window": window, **_KINDS}.items():
        place, name = key.split(".")
        yield "pyspark.sql", name, value
        yield f"pyspark.sql.{place}", name, value
    for place, name in (each.split(".") for each in _SURROUNDINGS):
        yield place, name, _noting(getattr(import_module(place), name), f"{place}.{name}()", computed)
    context = type("SparkContext", (), {"getOrCreate": staticmethod(lambda *_: Session.active().sparkContext)})
    yield "pyspark", "SparkContext", context


def _noting(function: Callable[..., Any], said: str, computed: dict[str, str]) -> Callable[..., Any]:
    def noting(*args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        computed.setdefault(str(value), f"{said} at {Place.here()}")
        return value

    return noting


def _sleep(session: Session) -> Callable[[float], None]:
    slept: Counter[tuple[str, int]] = Counter()

    def sleep(seconds: float) -> None:
        slept.update([next(Place.frames(), ("", 0))])
        # A loop that watches its queries never ends here.
        if session.queries and max(slept.values()) > _ROUNDS:
            raise Waits

    return sleep


class _Environment(dict[str, str]):
    """The environment; knows which variables the program reads, and marks what it gives.

    Args:
        real: that of the process.
        computed: gets the settings that are no texts, with what gave them.
    """

    def __init__(self, real: Mapping[str, str], computed: dict[str, str]) -> None:
        super().__init__(real)
        self._computed = computed
        self.read: dict[str, FromEnvironment] = {}

    def marked(self, value: str, name: str, default: str | None = None) -> FromEnvironment:
        """Return a value that knows its variable, and its default if that is no secret; note that this is read."""
        default = None if default and is_secret(name, default) else default
        self.read[name] = FromEnvironment(value, name, default)
        return self.read[name]

    def unread(self, constants: Set[Any]) -> Iterator[FromEnvironment]:
        """Yield variables that the program may have read at once; not those that are paths, short, or in its text."""
        said = "\n".join(each for each in constants if isinstance(each, str))
        for name, value in self.items():
            is_rare = len(value) > 5 and (is_secret(name, value) or (len(value) > 7 and not value.isalpha()))
            if is_rare and not (value in said or value in self._computed or os.path.exists(value.split(":")[0])):  # noqa: PTH110
                yield FromEnvironment(value, name)

    def __getitem__(self, name: str) -> str:
        value = super().__getitem__(name)
        return self.marked(value, name) if _is_asked_by_program() else value

    def get(self, key: str, default: Any = None) -> Any:
        """Return a variable, or what the program takes in its place."""
        if key in self:
            return self[key]
        if type(default) is str and default and _is_asked_by_program():
            return self.marked(default, key, default)
        return default

    def mark_settings(self, settings: Any, prefix: str = "") -> None:
        """Mark the texts in settings of pydantic, which copies what it is given; note other values."""
        # The second is of pydantic 1.
        fields = getattr(type(settings), "model_fields", None) or vars(type(settings)).get("__fields__")
        for name, each in fields.items() if isinstance(fields, dict) else ():
            alias, value = getattr(each, "validation_alias", None), vars(settings).get(name)
            names = getattr(getattr(each, "field_info", None), "extra", {}).get("env_names")
            choices = [one for one in names or getattr(alias, "choices", [alias]) if isinstance(one, str)]
            variables = choices or [getattr(settings, "model_config", {}).get("env_prefix", prefix) + name]
            set_as = next((key for one in variables for key in self if key.lower() == one.lower()), None)
            text = getattr(value, "_secret_value", value)
            if isinstance(text, str):
                # A value other than the declared default may be a secret from a file.
                default = text if set_as is None and value == each.default else None
                holder, key = (settings, name) if text is value else (value, "_secret_value")
                vars(holder)[key] = self.marked(text, set_as or variables[0].upper(), default)
            elif value != each.default:
                self._computed.setdefault(str(value), f"the setting {name} at {Place.here()}")
                self.mark_settings(value, f"{variables[0]}__")


def _is_asked_by_program() -> bool:
    """Return whether the program itself reads the environment or imports, and not a library that it calls."""
    frame: Any = sys._getframe(1)
    while frame.f_globals.get("__name__", "").partition(".")[0] in ("importlib", "os", "streamjob_import"):
        frame = frame.f_back
    return Place.is_program(frame.f_code.co_filename)


class _Module(types.ModuleType):
    """A module that is not installed here."""

    __path__: MutableSequence[str] = []  # noqa: RUF012 - as types.ModuleType has it
    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        refuse_special(name)
        if name == "configure_spark_with_delta_pip":
            return lambda builder, *_, **__: builder
        return Value(Root(name, f"from {self.__name__} import {name}"))


class _Absent:
    """Finds modules that nobody else finds."""

    def __init__(self) -> None:
        self.modules: list[str] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not _is_asked_by_program():
            return None
        self.modules.append(name)
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """It has no code."""


@dataclass(slots=True)
class _Calls:
    """Notes which functions of the program gave a DataFrame, and from what; marks settings of pydantic."""

    _environment: _Environment
    _open: list[tuple[Any, tuple[Any, ...]]] = field(default_factory=list)

    def __call__(self, frame: types.FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        if event == "return" and code.co_qualname == "BaseSettings.__init__":
            self._environment.mark_settings(frame.f_locals[code.co_varnames[0]])
        if event not in ("call", "return") or not Place.is_program(code.co_filename):
            return
        if event == "call":
            names = code.co_varnames[: code.co_argcount]
            self._open.append((code, tuple(frame.f_locals.get(name) for name in names)))
        elif self._open and self._open[-1][0] is code:
            _, args = self._open.pop()
            by_name = code.co_flags & 0x0C or code.co_kwonlyargcount
            if isinstance(result, Frame) and "<" not in code.co_qualname and not by_name:
                result.made.append((code, args))
