"""Jobs from a few words, for tests: the parts of a job file, and the file or spec that they make.

Further fields are those of the job file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from streamjob.job.model.spec import JobSpec

Part = dict[str, Any]


def source(name: str, form: str = "rate", schema: str | None = None, path: str | Path = "", **fields: Any) -> Part:
    """Return a source; files have a schema and a path."""
    return {"name": name, "format": form, **_given(schema=schema, options=_options(path, fields)), **fields}


def timed_source(name: str = "events", **fields: Any) -> Part:
    """Return a source of files with an event time."""
    usual = {"schema": "k STRING, at TIMESTAMP", "path": name, "watermark": {"column": "at", "delay": "0s"}}
    return source(name, "json", **{**usual, **fields})


def files(name: str, path: str | Path, schema: str, form: str = "json", **fields: Any) -> Part:
    """Return a source of files, of which each is a batch."""
    options = {"maxFilesPerTrigger": 1, **fields.pop("options", {})}
    return source(name, form, schema, path, options=options, **fields)


def topic(name: str, servers: str, topics: str, options: Mapping[str, Any] | None = None, **fields: Any) -> Part:
    """Return a source of the records of topics."""
    where = {"kafka.bootstrap.servers": servers, "subscribe": topics}
    return source(name, "kafka", options={**where, **(options or {})}, **fields)


def sql(name: str, inputs: str | Sequence[str], query: str = "SELECT * FROM {}", **fields: Any) -> Part:
    """Return an operator that is a query; `{}` in it stands for its first input."""
    read = _names(inputs)
    return {"name": name, "inputs": read, "sql": query.replace("{}", read[0]), **fields}


def python(name: str, inputs: str | Sequence[str], function: str, **fields: Any) -> Part:
    """Return an operator that is a function, `module:name`."""
    return {"name": name, "inputs": _names(inputs), "python": function, **fields}


def sink(of: str, form: str = "console", path: str | Path = "", *, name: str = "", **fields: Any) -> Part:
    """Return a sink of an operator's rows, by default with the name `to-<operator>`."""
    return {"name": name or f"to-{of}", "input": of, "format": form, **_given(options=_options(path, fields)), **fields}


def job_file(
    *operators: Part, sources: Sequence[Part] | None = None, sinks: Sequence[Part | str] = (), **fields: Any
) -> Part:
    """Return a job file.

    Args:
        operators: the operators.
        sources: by default `timed_source()`.
        sinks: or the names of operators whose rows go to the console; by default the last operator, or source.
        fields: other fields of the job.
    """
    read = [timed_source()] if sources is None else list(sources)
    written = sinks or [[*read, *operators][-1]["name"]]
    return {
        "name": "job",
        "sources": read,
        "operators": list(operators),
        "sinks": [sink(each) if isinstance(each, str) else each for each in written],
        **fields,
    }


def job_spec(*operators: Part, **fields: Any) -> JobSpec:
    """Return the spec of the job that `job_file` writes."""
    return JobSpec.model_validate(job_file(*operators, **fields))


def _names(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _options(path: str | Path, fields: dict[str, Any]) -> dict[str, Any] | None:
    options = ({"path": str(path)} if path else {}) | fields.pop("options", {})
    return options or None


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
