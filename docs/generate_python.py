"""Writes the reference of the Python API from its docstrings: `python docs/generate_python.py`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamjob import Job, feedback
from streamjob.sink import ChecksSchema, CommitsTogether, Previews, Sink, SinkContext, Staged, StagedObject, Staging
from streamjob.store.base import Store
from streamjob_runtime.process.notebook import Progress, RunningJob
from streamjob_runtime.testing.job_test import JobTest
from streamjob_runtime.testing.preview import Preview
from streamjob_runtime.testing.session import Session

TARGET = Path(__file__).parent / "reference" / "python.md"

_SECTIONS: tuple[tuple[str, str, tuple[tuple[str, Any], ...]], ...] = (
    (
        "Jobs",
        "The fields behind the arguments are those of the [job file](job-file.md).",
        (("streamjob", Job), ("streamjob", feedback)),
    ),
    (
        "Jobs in notebooks",
        "The results of `Job.preview` and `Job.run`. [Work in a notebook](../how-to/work-in-a-notebook.md) is a guide.",
        tuple((each.__module__, each) for each in (Preview, RunningJob, Progress)),
    ),
    (
        "Tests of jobs",
        "[Test a job](../how-to/test-a-job.md) is a guide. With pytest, the fixture `streamjob_job` makes a `JobTest`.",
        (("streamjob.testing", JobTest), ("streamjob.testing", Session)),
    ),
    (
        "Sinks",
        "[Write a sink](../how-to/write-a-sink.md) is a guide.",
        tuple(
            ("streamjob.sink", each)
            for each in (Sink, SinkContext, Staged, Staging, StagedObject, Previews, ChecksSchema, CommitsTogether)
        ),
    ),
    ("Stores", "[Write a store](../how-to/write-a-store.md) is a guide.", (("streamjob.store.base", Store),)),
)
_HEAD = """\
# The Python API

<!-- Written by docs/generate_python.py from the docstrings in runtime/; change it there. -->

Import only these names in a job. All others may change without notice.
"""
_WIDTH = 100
_ANNOTATION = re.compile(r"^(\*{0,2}\w+): '(.*?)'(?= = |$)")
_HEADING = re.compile(r"(Args|Returns|Raises|Yields):")


def render() -> str:
    """Return the reference as Markdown."""
    parts = [_HEAD]
    for title, text, members in _SECTIONS:
        parts.append(f"## {title}\n\n{text}\n")
        for module, member in members:
            parts += _member(module, member)
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _member(module: str, member: Any) -> Iterator[str]:
    name = member.__name__
    yield f"### `{module}.{name}`\n\n```python\n{_signature(name, member)}\n```\n\n{_text(member)}\n"
    if not inspect.isclass(member):
        return
    for each, value in vars(member).items():
        if each.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"#### `{name}.{each}`\n\n{_text(value.fget)}\n"
        elif inspect.isfunction(value):
            yield f"#### `{name}.{each}`\n\n```python\n{_signature(each, value)}\n```\n\n{_text(value)}\n"


def _signature(name: str, member: Any) -> str:
    if inspect.isclass(member) and getattr(member, "_is_protocol", False):
        return f"class {name}(Protocol)"
    signature = inspect.signature(member)
    parameters = [
        _ANNOTATION.sub(r"\1: \2", str(each)) for each in signature.parameters.values() if each.name != "self"
    ]
    kinds = [each.kind for each in signature.parameters.values() if each.name != "self"]
    keyword = inspect.Parameter.KEYWORD_ONLY
    if keyword in kinds:
        parameters.insert(kinds.index(keyword), "*")
    returned = signature.return_annotation
    has_return = returned is not inspect.Signature.empty and not inspect.isclass(member)
    end = f") -> {returned}" if has_return else ")"
    line = f"{name}({', '.join(parameters)}{end}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in parameters), end])


def _text(member: Any) -> str:
    """Return a docstring with its arguments and errors as lists."""
    lines: list[str] = []
    for line in (inspect.getdoc(member) or "").splitlines():
        if (heading := _HEADING.fullmatch(line)) is not None:
            lines.append(f"**{ {'Args': 'Arguments'}.get(heading[1], heading[1]) }**\n")
        elif (entry := re.fullmatch(r"    (\w[\w, ]*): (.*)", line)) is not None:
            names = ", ".join(f"`{each}`" for each in entry[1].split(", "))
            lines.append(f"- {names}: {entry[2]}")
        elif line.startswith("        "):
            lines.append(f"  {line.strip()}")
        else:
            lines.append(line.strip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
