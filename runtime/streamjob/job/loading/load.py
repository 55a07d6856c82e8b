"""Loads a job from its file: YAML (a bare job or a StreamJob resource), SQL, or Python that defines `job`."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from streamjob import runtime
from streamjob.errors import InvalidInput, InvalidJob
from streamjob.ids import OperatorUid
from streamjob.job.checks import Subject
from streamjob.job.checks.subject import where
from streamjob.job.checks.validate import examine
from streamjob.job.connectors.options import (
    absolute_path,
    all_options,
    missing_names,
    resolve_registry,
    substitute,
)
from streamjob.job.connectors.resolving import resolve_options
from streamjob.job.loading.assembly import Changes, assemble
from streamjob.job.loading.job_tests import JobTestSpec, read_tests, unknown_parts
from streamjob.job.loading.stream_job import effective_job
from streamjob.job.loading.text_file import read_text, read_yaml
from streamjob.job.model.encoding_spec import Registry
from streamjob.job.model.origins import Origins, Place
from streamjob.job.model.problem import Problem, by_part
from streamjob.job.model.reading import read_spec
from streamjob.job.model.spec import JobSpec, OperatorSpec, SinkSpec, SourceSpec, TableSpec
from streamjob.job.model.variables import TESTS, parse_variables
from streamjob.job.planning.available_now import run_problems, schedule_problems
from streamjob.job.planning.dead_letters import functions_of_rows, with_dead_letters
from streamjob.job.python_job.arguments import UnknownArgument
from streamjob.job.python_job.dsl import Job
from streamjob.job.python_job.handles import Function
from streamjob.job.query.functions import NotFound, describe, find_function, make_importable

SparkParser = Callable[[str], str | None]
"""Returns why Spark cannot parse a query, or None."""
_NAME_IT = "name the job's YAML, SQL or Python file"


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job and the context of its file.

    Args:
        directory: the file's directory, absolute: paths and modules are relative to it.
        origin: the file as the user named it.
        functions: functions of sources and operators in Python, by uid.
        namespace: the namespace in a resource file; otherwise None.
        tests: the tests in its file.
        as_written: the job as its author wrote it, if that is different.
        variables: the values given for `${var:NAME}`, by name.
    """

    spec: JobSpec
    directory: Path
    origin: str
    functions: Mapping[OperatorUid, Function] = field(default_factory=dict)
    namespace: str | None = None
    tests: tuple[JobTestSpec, ...] = ()
    as_written: JobSpec | None = None
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def written(self) -> JobSpec:
        """The job as its author wrote it, without the operators that stand for the outputs of its sources."""
        return self.as_written or self.spec

    def resolve(self, part: SourceSpec | OperatorSpec) -> Function:
        """Return the function of a source or operator; the first call imports its module.

        Raises:
            InvalidJob: it cannot be imported.
        """
        if (function := self.functions.get(part.uid)) is not None:
            return function
        return self._found(part.python or "", where(part))

    def function(self, name: str) -> Function:
        """Return the function that SQL calls by a name; the first call imports its module.

        Raises:
            InvalidJob: it cannot be imported.
        """
        return self._found(self.spec.functions[name], f"function {name!r}")

    def _found(self, reference: str, whose: str) -> Function:
        try:
            found: Function = find_function(reference, self.directory)
        except NotFound as error:
            raise InvalidJob(self.origin, [error.problem(whose)]) from error
        return found

    def options(
        self, part: SourceSpec | TableSpec | SinkSpec, environ: Mapping[str, str] = os.environ
    ) -> dict[str, str]:
        """Return the resolved options for a connector; they may contain secrets.

        Raises:
            MissingVariable: an option refers to an environment variable that is not set.
        """
        return resolve_options(part, self.directory, environ)

    def registry_options(self, registry: Registry, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the resolved options for the client of a registry; they may contain secrets.

        Raises:
            MissingVariable: an option refers to an environment variable that is not set.
        """
        return resolve_registry(registry, self.directory, environ)

    def spark_conf(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the job's Spark configuration; it may contain secrets. Raises MissingVariable like `options`."""
        return {key: substitute(value, environ) for key, value in self.spec.spark_conf.items()}

    def location(self) -> str | None:
        """Return the checkpoint location in the file as an absolute path or a URI, or None."""
        location = self.spec.checkpointing.location
        return absolute_path(location, self.directory) if location is not None else None

    def missing_variables(self, environ: Mapping[str, str] = os.environ) -> list[Problem]:
        """Return a problem for each reference to an environment variable that is not set."""
        parts = [(where(each), *options) for each in self.spec.connectors() for options in all_options(each)]
        parts.append(("sparkConf", "", self.spec.spark_conf))
        return [
            Problem(owner, f"{before}{key} refers to the environment variable {name}, which is not set", f"set {name}")
            for owner, before, options in parts
            for key, value in options.items()
            for name in missing_names(value, environ)
        ]


def load_job(
    path: Path | str,
    overrides: Sequence[str] = (),
    *,
    overlays: Sequence[Path | str] = (),
    variables: Sequence[str] = (),
    spark_parser: SparkParser | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoadedJob:
    """Load and check a job.

    Args:
        path: a YAML file (a bare job, or a StreamJob resource), a SQL file, or a Python file that defines `job`.
        overrides: overrides of the form `PATH=VALUE`, applied to the job with its overlays.
        overlays: YAML files that are merged into the job, in their order.
        variables: values of the form `NAME=VALUE`, for `${var:NAME}`.
        spark_parser: asked about queries that sqlglot cannot read, before they are refused.
        environ: if given, references to missing variables are problems.

    Raises:
        InvalidJob: lists every problem that can be found without Spark.
        InvalidInput: a file cannot be read.
    """
    file = Path(path)
    origin = " + ".join(str(each) for each in (path, *overlays))
    origins = Origins(Place(str(path)) if overlays else None)
    if file.suffix == ".sql":
        source = _read_sql(file, str(path), origins, str(path) if overlays else "", variables, spark_parser)
    elif file.suffix == ".py":
        source = _read_python(file, str(path))
    else:
        source = _read_yaml(file, str(path))
    changes = Changes({str(each): _read_overlay(Path(each), str(each)) for each in overlays}, overrides, variables)
    return _checked(source, changes, file.absolute().parent, origins, origin, spark_parser, environ)


def load_dsl(job: Job, *, directory: Path | None = None, spark_parser: SparkParser | None = None) -> LoadedJob:
    """Check a job that Python code has defined, in a notebook or a test.

    Args:
        directory: the base of its relative paths and of its modules; default the current directory.
        spark_parser: asked about queries that sqlglot cannot read, before they are refused.

    Raises:
        InvalidJob: lists every problem that can be found without Spark.
    """
    content = _Content(job.data(), job.functions())
    base = (directory or Path.cwd()).absolute()
    return _checked(content, Changes({}), base, Origins(None), f"job {job.name!r}", spark_parser, None)


def _checked(
    source: _Content,
    changes: Changes,
    directory: Path,
    origins: Origins,
    origin: str,
    spark_parser: SparkParser | None,
    environ: Mapping[str, str] | None,
) -> LoadedJob:
    variables = parse_variables(changes.variables)[0]
    tests = read_tests(source.tests, variables)
    assembled = assemble(
        source.data,
        changes,
        directory,
        origins,
        spark_parser,
        is_resource=source.is_resource,
        used=tests.variables,
    )
    reading = read_spec(assembled.data)
    problems = [*source.problems, *assembled.problems]
    problems += [_placed(each, origins.of(reading.paths.get(each, ()))) for each in reading.problems]
    if reading.spec is None:
        raise InvalidJob(origin, _sorted(problems))
    loaded = LoadedJob(
        with_dead_letters(reading.spec),
        directory,
        origin,
        functions_of_rows(reading.spec, source.functions),
        source.namespace,
        tests.tests,
        reading.spec,
        variables,
    )
    complete = reading.complete and source.complete
    subject = Subject(reading.spec, directory, source.functions, spark_parser, reading.unread | source.unread, complete)
    # A field that a part seems to lack may be among its fields that could not be read.
    broken = reading.broken | assembled.broken | source.broken
    found = [each for each in examine(subject) if each.where not in broken]
    if environ is not None:
        found += loaded.missing_variables(environ)
    problems += [_placed(each, origins.about(each.where)) for each in found]
    problems += tests.problems
    if complete:
        problems += unknown_parts(tests.tests, reading.spec)
    if complete and not problems and source.is_scheduled:
        problems += run_problems(reading.spec)
    if problems:
        raise InvalidJob(origin, _sorted(problems))
    return loaded


def _sorted(problems: Iterable[Problem]) -> list[Problem]:
    """Return problems in the order of a SQL file's lines where they have lines, otherwise in the order of parts."""
    return sorted(by_part(problems), key=lambda each: (each.place.line, each.place.column) if each.place else (0, 0))


def _placed(problem: Problem, place: Place | None) -> Problem:
    return replace(problem, place=place)


def _read_overlay(file: Path, origin: str) -> dict[str, Any]:
    """Return the content of an overlay: the fields of a job that it changes."""
    documents = read_yaml(file, origin, _NAME_IT)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        what = "is empty" if not documents else "is not one mapping"
        raise InvalidJob(origin, [Problem("file", what, "write the fields of the job that it changes")])
    if "apiVersion" in documents[0] or "kind" in documents[0]:
        what = "is a resource, and an overlay has fields of a job"
        raise InvalidJob(origin, [Problem("file", what, "name it first, or write its fields without a resource")])
    return documents[0]


@dataclass(frozen=True, slots=True)
class _Content:
    data: dict[str, Any]
    functions: Mapping[OperatorUid, Function] = field(default_factory=dict)
    namespace: str | None = None
    is_resource: bool = False
    is_scheduled: bool = False
    tests: Any = None
    problems: Sequence[Problem] = ()
    broken: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()
    complete: bool = True


def _read_yaml(file: Path, origin: str) -> _Content:
    documents = read_yaml(file, origin, _NAME_IT)
    resources = [each for each in documents if isinstance(each, dict) and ("apiVersion" in each or "kind" in each)]
    candidates = [each for each in resources if each.get("kind") == "StreamJob"] if len(documents) > 1 else documents
    if len(candidates) != 1:
        what = f"holds {len(candidates)} jobs" if documents else "is empty"
        raise InvalidJob(origin, [Problem("file", what, "describe exactly one job in a file")])
    (document,) = candidates
    if not isinstance(document, dict):
        raise InvalidJob(origin, read_spec(document).problems)
    if document in resources:
        return _resource(document, origin)
    rest = {key: value for key, value in document.items() if key != TESTS}
    return _Content(rest, tests=document.get(TESTS))


def _resource(document: dict[str, Any], origin: str) -> _Content:
    """Return the job of a StreamJob, with the fields of its spec that override the job's own."""
    kind, version = document.get("kind"), document.get("apiVersion")
    problems = []
    if kind != "StreamJob":
        problems.append(Problem("file", f"is a resource of kind {kind!r}", "name a StreamJob or a bare job"))
    if version != "streamjob.io/v1alpha1":
        problems.append(Problem("file", f"has apiVersion {version!r}", "write apiVersion: streamjob.io/v1alpha1"))
    spec = document.get("spec")
    job = spec.get("job") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(job, dict):
        main = spec.get("mainApplicationFile") if isinstance(spec, dict) else None
        fix = f"name that file itself: {main}" if main else "put the job there: name, sources, operators, sinks"
        problems.append(Problem("spec.job", "is not there", fix))
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    if isinstance(job, dict) and "name" in metadata and job.get("name") not in (None, metadata["name"]):
        what = f"has the name {job['name']!r}, but its StreamJob is {metadata['name']!r}"
        problems.append(Problem("spec.job", what, "leave out the name: state is stored under the StreamJob's"))
    problems += _schedule_problems(spec)
    if problems or not isinstance(spec, dict) or not isinstance(job, dict):
        raise InvalidJob(origin, problems)
    named = {"name": metadata["name"], **job} if "name" in metadata else job
    scheduled = spec.get("schedule") is not None
    namespace = metadata.get("namespace")
    return _Content(effective_job(named, spec), namespace=namespace, is_resource=True, is_scheduled=scheduled)


def _schedule_problems(spec: Any) -> list[Problem]:
    """Return problems with the schedules of a StreamJob; the API server checks its other fields."""
    spec = spec if isinstance(spec, dict) else {}
    savepoints, runs = (part if isinstance(part := spec.get(name), dict) else {} for name in ("savepoints", "schedule"))
    given = (savepoints.get("schedule"), runs.get("cron"), runs.get("timeZone"))
    return schedule_problems(*(each if isinstance(each, str) else None for each in given))


def _read_sql(
    file: Path,
    origin: str,
    origins: Origins,
    name: str,
    variables: Sequence[str],
    spark_parser: SparkParser | None,
) -> _Content:
    # It needs sqlglot, which takes a moment to import.
    from streamjob.job.sql_job import read_sql

    read = read_sql(read_text(file, origin, _NAME_IT), origins, name, parse_variables(variables)[0], spark_parser)
    return _Content(read.data, problems=read.problems, broken=read.broken, unread=read.unread, complete=read.complete)


def _read_python(file: Path, origin: str) -> _Content:
    read_text(file, origin, _NAME_IT)
    name = file.stem
    path = file.absolute()
    if name in sys.stdlib_module_names or name in ("pyspark", "streamjob", "streamjob_runtime"):
        fix = "give the file another name: its functions are imported by that name"
        raise InvalidJob(origin, [Problem("file", f"has the name of the module {name!r}", fix)])
    make_importable(path.parent)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{origin}: cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        with _types_unparsed():
            spec.loader.exec_module(module)
    except InvalidJob as error:
        raise InvalidJob(origin, error.problems) from error
    except (Exception, SystemExit) as error:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise InvalidJob(origin, [_not_loaded(error, path)]) from error
    job = getattr(module, "job", None)
    if not isinstance(job, Job):
        jobs = [key for key, value in vars(module).items() if isinstance(value, Job)]
        fix = f"rename {jobs[0]!r} to 'job'" if jobs else "write job = Job('name') at the top level"
        raise InvalidJob(origin, [Problem("file", "defines no 'job'", fix)])
    return _Content(job.data(), job.functions())


def _types_unparsed() -> AbstractContextManager[None]:
    """Return what lets functions of Spark declare their types before Spark runs; nothing where it is not installed."""
    return runtime.types_unparsed() if runtime.has_spark() else nullcontext()


def _not_loaded(error: BaseException, file: Path) -> Problem:
    what, fix = describe(error, file), "correct it there"
    if isinstance(error, UnknownArgument):
        what, fix = what.replace(f"{type(error).__name__}: {error}", error.what), error.fix
    elif isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == "pyspark":
        fix = "install the runtime: pip install 'streamjob[runtime]'"
    elif _asks_spark(error):
        what = f"{what.partition(':')[0]}: asks Spark, which does not run yet when the file is loaded"
        fix = "move this into the function that uses it"
    return Problem("file", what, fix)


def _asks_spark(error: BaseException) -> bool:
    """Return whether PySpark raised an error because there is no session."""
    condition = getattr(error, "getCondition", lambda: None)()
    # Functions such as `col` assert that there is one.
    asserts = isinstance(error, AssertionError) and traceback.extract_tb(error.__traceback__)[-1].filename
    return condition == "SESSION_OR_CONTEXT_NOT_EXISTS" or bool(asserts and "pyspark" in Path(asserts).parts)
