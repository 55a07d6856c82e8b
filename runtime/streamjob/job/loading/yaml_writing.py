"""Writes a job file as YAML that `yaml_file` reads back as the same values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from streamjob.job.loading.yaml_file import YamlError, read_scalar

_OTHER_BREAKS = ("\r", "\x85", "\u2028", "\u2029")
"""Line breaks of YAML 1.1 besides the line feed."""


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and puts texts into quotes that would be read as something different."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return true: a value that is there twice is written twice."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent; lists are not indented below their key."""
        super().increase_indent(flow, indentless)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None
    if "\n" in value.strip("\n") and not _changed_in_a_block(value):
        style = "|"
    elif not _is_plain(value):
        style = "'" if value.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _changed_in_a_block(value: str) -> bool:
    """Return whether a block would lose spaces at the end of a line, or turn another line break into a line feed."""
    breaks = any(each in value for each in _OTHER_BREAKS)
    return breaks or any(line.endswith((" ", "\t")) for line in value.split("\n"))


def _is_plain(value: str) -> bool:
    try:
        return bool(read_scalar(value) == value)
    except YamlError:
        return False


_Dumper.add_representer(str, _text)


def write_yaml(data: Mapping[str, Any]) -> str:
    """Return the content of a job file as YAML."""
    return yaml.dump(dict(data), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
