"""PySpark's private names stand in one module, so that the next version of Spark has one place to look at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]
GATEWAY = ROOT / "runtime" / "streamjob_runtime" / "spark" / "gateway.py"
FOLDERS = ("runtime", "operator", "bench", "examples", "e2e")

_OTHERS = {"_callback_server", "_origin", "_streamingCheckpointManager"}
"""Private names of PySpark and py4j that do not look as if they led to Java."""


def names_of_pyspark() -> frozenset[str]:
    """Return the private names by which the installed PySpark reaches Java."""
    root = Path(pyspark.__file__).parent
    folders = (root, root / "core", root / "sql", root / "sql" / "classic", root / "sql" / "streaming")
    texts = (file.read_text() for folder in folders for file in folder.glob("*.py"))
    return frozenset(name for text in texts for name in re.findall(r"\.(_j\w+|_gateway\w*)\b", text)) | _OTHERS


PRIVATE = names_of_pyspark()


def touched(source: str) -> Iterator[str]:
    """Yield the lines and names of PySpark's private side in a module's source."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE and not _is_self(node.value):
            yield f"{node.lineno}: {node.attr}"
        elif isinstance(node, ast.Constant) and node.value in PRIVATE:
            yield f"{node.lineno}: {node.value!r}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "py4j":
            yield f"{node.lineno}: {node.module}"
        elif isinstance(node, ast.Import):
            yield from (f"{node.lineno}: {each.name}" for each in node.names if each.name.split(".")[0] == "py4j")


def _is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id == "self"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("spark._jvm.io.streamjob.Channels", "_jvm"),
        ("spark.sparkContext._gateway.proc", "_gateway"),
        ("frame._jdf", "_jdf"),
        ("query._jsq.recentProgress()", "_jsq"),
        ("spark._jsparkSession.version()", "_jsparkSession"),
        ("column._jc", "_jc"),
        ("spark.sparkContext._jsc.sc()", "_jsc"),
        ("error._origin", "_origin"),
        ("getattr(spark, '_jvm')", "'_jvm'"),
        ("def late():\n    from py4j.protocol import Py4JJavaError", "py4j.protocol"),
        ("import py4j.java_gateway", "py4j.java_gateway"),
    ],
)
def test_a_private_name_of_pyspark_is_found(line: str, name: str) -> None:
    assert [found.partition(": ")[2] for found in touched(line)] == [name]


def test_the_gateway_is_the_only_module_that_touches_private_names_of_pyspark() -> None:
    assert list(touched(GATEWAY.read_text())), "the names that this test knows are those in use"

    modules = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py") if file != GATEWAY)
    found = [f"{file.relative_to(ROOT)}:{each}" for file in modules for each in touched(file.read_text())]

    assert found == []
