"""Functions in Python that SQL calls are declared in each form of a job, and found without Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from streamjob import Job
from streamjob.errors import InvalidJob
from streamjob.job.loading.converting import NotConvertible, converted
from streamjob.job.loading.load import LoadedJob, load_dsl, load_job

REST = """
CREATE SOURCE clicks WITH ('format' = 'rate');
CREATE VIEW shops AS SELECT shop_of(value) AS shop FROM clicks;
CREATE SINK report WITH ('format' = 'json', 'path' = 'out');
INSERT INTO report SELECT * FROM shops;
"""


@pytest.fixture(autouse=True)
def _path_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())


def load(directory: Path, functions: str) -> LoadedJob:
    (directory / "steps.py").write_text("def shop_of(value):\n    return value % 50\n\nother = shop_of\n")
    (directory / "job.sql").write_text(f"SET 'name' = 'shops';\n{functions}\n{REST}")
    return load_job(directory / "job.sql")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE FUNCTION shop_of AS 'steps.shop_of';",
        "create temporary function `shop_of` as 'steps:shop_of';",
    ],
)
def test_a_statement_creates_a_function(tmp_path: Path, statement: str) -> None:
    loaded = load(tmp_path, statement)

    assert loaded.spec.functions == {"shop_of": "steps:shop_of"}
    assert loaded.function("shop_of")(57) == 7


def test_a_function_is_in_a_module_of_a_package(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "prices.py").write_text("def shop_of(value):\n    return value\n")

    loaded = load(tmp_path, "CREATE FUNCTION shop_of AS 'parts.prices.shop_of';")

    assert loaded.spec.functions == {"shop_of": "parts.prices:shop_of"}


def test_a_job_in_python_names_its_functions(tmp_path: Path) -> None:
    job = Job("shops", functions={"shop_of": load_job})
    clicks = job.source("clicks", format="rate")
    job.sink("report", input=clicks, format="json", options={"path": "out"})

    assert load_dsl(job, directory=tmp_path).spec.functions == {"shop_of": "streamjob.job.loading.load:load_job"}


def test_a_notebook_names_its_own_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = ModuleType("__main__")
    exec("def shop_of(value): return value % 50", vars(notebook))
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    job = Job("shops", functions={"shop_of": notebook.shop_of})
    job.sink("report", input=job.source("clicks", format="rate"), format="json", options={"path": "out"})

    assert load_dsl(job, directory=tmp_path).function("shop_of")(57) == 7


def test_a_function_without_a_name_cannot_be_converted() -> None:
    job = Job("shops", functions={"shop_of": lambda value: value})
    job.sink("report", input=job.source("clicks", format="rate"), format="json", options={"path": "out"})

    with pytest.raises(NotConvertible, match=r"function 'shop_of' is .*<lambda>"):
        converted(job.spec())


@pytest.mark.parametrize(
    ("statements", "what"),
    [
        ("CREATE FUNCTION f AS 'shop_of';", "function 'f': cannot be 'shop_of'\n    fix: name it as module:function"),
        (
            "CREATE FUNCTION f AS 'steps.shop_off';",
            "line 2, column 17: function 'f': steps.py has no function 'shop_off'\n    fix: did you mean 'shop_of'?",
        ),
        ("CREATE FUNCTION f AS 'nowhere.shop_of';", "there is no module 'nowhere'"),
        (
            "CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1;",
            "function 'f': has ( where 'AS' should be\n    fix: write CREATE FUNCTION f AS 'module.function'",
        ),
        ("CREATE FUNCTION f AS steps.shop_of;", "has no text in quotes that names its function"),
        ("CREATE FUNCTION `f g` AS 'steps.shop_of';", "function 'f g': has a name that SQL cannot call"),
        ("CREATE FUNCTION f AS 'steps.shop_of'; CREATE FUNCTION f AS 'steps.other';", "is created again"),
        (
            "CREATE FUNCTION f AS 'steps.shop_of'; CREATE FUNCTION F AS 'steps.other';",
            "function 'F': has the name of 'f', and case does not matter",
        ),
        ("CREATE FUNCTION f AS 'steps.shop_of' USING JAR 'x.jar';", "where the end of the statement should be"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, statements: str, what: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        load(tmp_path, statements)

    assert what in str(refused.value)
    assert "line 2, column" in str(refused.value)
