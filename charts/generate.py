"""Writes the generated files of the chart: `python charts/generate.py`.

The resource definitions are copies of those in `crds/`, because a chart is packaged by itself. The values in the
chart's README are the comments of its `values.yaml`. The dashboards are defined in `dashboards.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from dashboards import dashboards

CHART = Path(__file__).parent / "streamjob"
DEFINITIONS = Path(__file__).parents[1] / "crds"
_MARK = "# -- "
_HEAD = """\
# Chart of the streamjob controller

<!-- Written by charts/generate.py from the comments of values.yaml; change them there. -->

```sh
helm install streamjob charts/streamjob --namespace streamjob --create-namespace --wait
```

[Install the controller](../../docs/how-to/install-the-controller.md) explains how to install, upgrade and remove it.
Unknown values are errors.

## Values

| Value | Default | |
|---|---|---|
"""


def files() -> dict[Path, str]:
    """Return the generated files of the chart with their content."""
    copies = {CHART / "files" / "crds" / each.name: each.read_text() for each in sorted(DEFINITIONS.glob("*.yaml"))}
    drawn = {CHART / "files" / "dashboards" / name: content for name, content in dashboards().items()}
    return {CHART / "README.md": _HEAD + "".join(_rows((CHART / "values.yaml").read_text())), **copies, **drawn}


def _rows(text: str) -> Iterator[str]:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode), "values.yaml is a mapping"
    for path, node, description in _described(root, text.splitlines(), ()):
        default = json.dumps(_value(node), ensure_ascii=False)
        yield f"| `{'.'.join(path)}` | `{default}` | {description} |\n"


def _described(
    node: yaml.MappingNode, lines: list[str], prefix: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], yaml.Node, str]]:
    for key, value in node.value:
        path = (*prefix, key.value)
        description = _comment_above(lines, key.start_mark.line)
        if description:
            yield path, value, description
        elif isinstance(value, yaml.MappingNode):
            yield from _described(value, lines, path)
        else:
            raise ValueError(f"values.yaml: {'.'.join(path)} has no comment above it that begins with '{_MARK}'")


def _comment_above(lines: list[str], line: int) -> str:
    comment: list[str] = []
    for text in map(str.strip, reversed(lines[:line])):
        if not text.startswith("#"):
            break
        if text.startswith(_MARK):
            return " ".join([text.removeprefix(_MARK), *reversed(comment)])
        comment.append(text.removeprefix("#").strip())
    return ""


def _value(node: yaml.Node) -> Any:
    return yaml.safe_load(yaml.serialize(node))


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
