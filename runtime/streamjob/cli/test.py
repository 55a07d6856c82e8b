"""`streamjob test`: runs the tests of a job file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from streamjob import runtime
from streamjob.cli.job_files import FileArgument, FilesOption, SetOption, VarOption, files_of
from streamjob.errors import ExitCode, InvalidInput
from streamjob.job.loading.job_tests import JobTestSpec, file_beside, read_tests_file
from streamjob.job.loading.load import LoadedJob, load_job
from streamjob.job.model.suggest import did_you_mean


class NoTests(InvalidInput):
    """A job has no tests, or none of the given name."""


class UnwritableReport(InvalidInput):
    """The report cannot be written."""


def file_tests_command(
    file: FileArgument = None,
    files: FilesOption = None,
    overrides: SetOption = None,
    variables: VarOption = None,
    names: Annotated[
        list[str] | None,
        typer.Option("--test", metavar="NAME", help="Run this test only. Can be repeated. Default: all tests."),
    ] = None,
    kills: Annotated[
        bool, typer.Option("--kill", help="Kill and restore the job in every step: the results must not change.")
    ] = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write the results as JUnit's XML.")
    ] = None,
) -> None:
    """Run the tests of a job file, on an embedded Spark.

    The tests of job.yaml are in the file itself, below `tests`, or in job.tests.yaml. The job reads and writes nothing
    but the rows of its tests. The exit code is 0 if all tests pass, 5 if not, and 2 if the job or a test is invalid.
    """
    path, overlays = files_of(file, files)
    runtime.require("`streamjob test`")
    parser = runtime.parse_with_spark
    loaded = load_job(path, overrides or (), overlays=overlays, variables=variables or (), spark_parser=parser)
    tests = chosen(loaded, tests_of(loaded, Path(path)), names or [])
    typer.echo(f"{loaded.origin}: {_counted(len(tests))}")
    results: list[Any] = []
    for result in runtime.run_job_tests(loaded, tests, kills=kills):
        results.append(result)
        _show(result)
    passed = sum(each.passed for each in results)
    typer.echo(f"{passed} of {_counted(len(results))} passed")
    if junit is not None:
        try:
            junit.write_bytes(runtime.junit(loaded.spec.name, results))
        except OSError as error:
            raise UnwritableReport(f"{junit}: cannot be written: {error.strerror}", "name another file") from None
    if passed < len(results):
        raise typer.Exit(int(ExitCode.FAILED))


def tests_of(loaded: LoadedJob, file: Path) -> tuple[JobTestSpec, ...]:
    """Return the tests of a job file, in it and beside it. Raises NoTests, InvalidJob."""
    beside = file_beside(file)
    found = (*loaded.tests, *(read_tests_file(beside, loaded.spec, loaded.variables) if beside.exists() else ()))
    if not found:
        fix = f"write them into {beside.name}, below `tests:`"
        if file.suffix in (".yaml", ".yml"):
            fix = f"add `tests:` to it, or {fix}"
        raise NoTests(f"{loaded.origin} has no tests", fix)
    return found


def chosen(loaded: LoadedJob, tests: tuple[JobTestSpec, ...], names: list[str]) -> tuple[JobTestSpec, ...]:
    """Return the tests with these names, or all. Raises NoTests."""
    known = [each.name for each in tests]
    for name in names:
        if name not in known:
            raise NoTests(f"{loaded.origin} has no test {name!r}", did_you_mean(name, known, "tests"))
    return tuple(each for each in tests if not names or each.name in names)


def _show(result: Any) -> None:
    word, colour = ("passed", "green") if result.passed else ("FAILED", "red")
    typer.secho(f"  {word}", fg=colour, nl=False)
    typer.echo(f"  {result.name} ({result.seconds:.1f} s)")
    for failure in result.failures:
        for line in failure.splitlines():
            typer.echo(f"    {line}")


def _counted(tests: int) -> str:
    return "1 test" if tests == 1 else f"{tests} tests"
