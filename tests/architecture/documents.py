"""The commands, messages and files that documents quote."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
GENERATED = {ROOT / "docs" / "reference" / "cli.md"}

_BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`(streamjob [a-z][^`]*)`(?!`)")
_TYPED = re.compile(r"(?:\$ )?(?:[A-Z_]+=\S+ )*streamjob ")
_VARIABLE = re.compile(r"[A-Z_]+=")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code in a document; `language` is empty if it names none."""

    document: str
    line: int
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command of `streamjob` that a document shows; `whole`: as it is to be typed, not only named in a sentence."""

    document: str
    line: int
    words: tuple[str, ...]
    whole: bool

    def __str__(self) -> str:
        return f"{self.document}:{self.line}: {' '.join(self.words)}"


def blocks() -> Iterator[Block]:
    """Yield the blocks of code of all documents."""
    for file in DOCUMENTS:
        text = file.read_text()
        for found in _BLOCK.finditer(text):
            indent, language, content = found.groups()
            lines = (line.removeprefix(indent) for line in content.splitlines())
            yield Block(_name(file), text.count("\n", 0, found.start()) + 2, language, "\n".join(lines))


def commands() -> Iterator[Command]:
    """Yield the commands of `streamjob` in all documents but the generated reference."""
    generated = {_name(file) for file in GENERATED}
    for block in blocks():
        if block.document in generated:
            continue
        for number, line in _whole_lines(block.text):
            typed = line.strip()
            if block.language not in ("sh", "bash", "console") and not typed.startswith("$ "):
                continue
            if _TYPED.match(typed) is None:
                continue
            words = shlex.split(typed.removeprefix("$ "), comments=True)
            while words and _VARIABLE.match(words[0]):
                del words[0]
            if words[:1] == ["streamjob"]:
                end = next(
                    (place for place, word in enumerate(words) if word in ("|", "&&", ">", ";", "&")), len(words)
                )
                yield Command(block.document, block.line + number, tuple(words[1:end]), whole=True)
    for file in DOCUMENTS:
        if file in GENERATED:
            continue
        text = file.read_text()
        prose = _BLOCK.sub(lambda found: "\n" * found.group().count("\n"), text)
        for found in _INLINE.finditer(prose):
            words = shlex.split(found.group(1).replace("\n", " "))
            yield Command(_name(file), prose.count("\n", 0, found.start()) + 1, tuple(words[1:]), whole=False)


def _whole_lines(text: str) -> Iterator[tuple[int, str]]:
    begun, first = "", 0
    for number, line in enumerate(text.splitlines()):
        first = number if not begun else first
        if line.endswith("\\"):
            begun += line[:-1]
            continue
        yield first, begun + line
        begun = ""


def _name(file: Path) -> str:
    return str(file.relative_to(ROOT))
