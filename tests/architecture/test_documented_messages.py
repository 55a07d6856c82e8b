"""Every message that the guide to errors quotes is one of the product's, and so is every class that it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest
import yaml
from tests.architecture.documents import ROOT, Block, blocks

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.protocol.restarts import WITHIN_A_PROCESS
from streamjob_operator.resources.reasons import WRONG

GUIDE = ROOT / "docs" / "how-to" / "troubleshoot.md"
SOURCES = [*(ROOT / "runtime").rglob("*.py"), *(ROOT / "operator").rglob("*.py")]
ANYTHING = "\0"
"""Stands in a template for what is filled in, and in a quotation for `…`."""

OF_OTHERS = {
    "password authentication failed": "PostgreSQL",
}
"""Messages of other programs, which the product passes on."""

_ROW = re.compile(r"^\| (?P<messages>[^|]+) \| (?P<classes>`[A-Z]\w+`(?:, `[A-Z]\w+`)*) \|", re.MULTILINE)


@cache
def templates() -> tuple[str, ...]:
    """Return the texts in the product's sources, with ANYTHING for what is filled in."""
    return tuple({text for file in SOURCES for text in _texts(ast.parse(file.read_text()))})


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else ANYTHING for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # `%s` stands for a value in log messages, `{…}` in formatted ones.
            yield re.sub(r"%(?:\.\d)?[sdfg]|\{[\w.]+\}", ANYTHING, node.value)


def quotations() -> list[str]:
    return sorted({each for row in _ROW.finditer(GUIDE.read_text()) for each in _quoted(row["messages"])})


def _quoted(cell: str) -> Iterator[str]:
    for double, single in re.findall(r"``\s?(.+?)\s?``|`([^`]+)`", cell):
        yield double or single


def classes() -> list[str]:
    return sorted({each for row in _ROW.finditer(GUIDE.read_text()) for each in re.findall(r"\w+", row["classes"])})


def is_said(quotation: str, texts: tuple[str, ...]) -> bool:
    """Return whether a quotation is a part of what one of the texts can become."""
    wanted = quotation.replace("…", ANYTHING).strip(ANYTHING + " ")
    if not frozenset().union(*map(_words, texts)).issuperset(re.findall(r"[A-Za-z]{3,}", wanted)):
        return False
    # A message may be put together of several texts, where the quotation leaves something out.
    parts = [each.strip(" :") for each in wanted.split(ANYTHING)]
    return _in_one(wanted, texts) or all(_in_one(each, texts) for each in parts if len(re.findall(r"\w+", each)) > 1)


def _in_one(wanted: str, texts: tuple[str, ...]) -> bool:
    return any(_shared(wanted, text) and _fits(wanted, text) for text in texts)


@cache
def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[A-Za-z]+", text))


def _fits(wanted: str, text: str) -> bool:
    """Return whether two texts with gaps can be one, the first a part of the second; nothing but gaps is no text."""
    literal = "".join(re.findall(r"\w", text))
    if len(literal) < 8 and ANYTHING in text:
        return False
    # Positions in the text that the quotation may have reached; a gap in either matches any characters.
    places = set(range(len(text) + 1))
    for character in wanted:
        if character == ANYTHING:
            places = set(range(min(places), len(text) + 1)) if places else set()
            continue
        after = set()
        for place in places:
            if place < len(text) and text[place] == character:
                after.add(place + 1)
            # A gap takes the character and goes on, or has ended before it.
            if place < len(text) and text[place] == ANYTHING:
                after.add(place)
                if place + 1 < len(text) and text[place + 1] == character:
                    after.add(place + 2)
        places = after
        if not places:
            return False
    return True


def _shared(wanted: str, text: str) -> bool:
    """Return whether most words of a quotation are in the text: the others are filled in there."""
    said = _words(text)
    words = re.findall(r"[A-Za-z]{3,}", wanted)
    return 2 * sum(word in said for word in words) >= len(words)


def test_quotations_are_found() -> None:
    assert len(quotations()) > 60
    assert len(classes()) > 50


@pytest.mark.parametrize("quotation", quotations())
def test_the_product_says_what_the_guide_quotes(quotation: str) -> None:
    assert quotation in OF_OTHERS or is_said(quotation, templates())


@pytest.mark.parametrize("quotation", ["the bucket … is made of wood", "… is not a manifestation"])
def test_what_nobody_says_is_found(quotation: str) -> None:
    assert not is_said(quotation, templates())


def test_the_classes_and_reasons_that_the_guide_names_exist() -> None:
    defined = {
        node.name
        for file in SOURCES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    }

    assert [each for each in classes() if each not in defined | WRONG.keys()] == []


@pytest.mark.parametrize(
    "block", [each for each in blocks() if each.language == "yaml"], ids=lambda each: f"{each.document}:{each.line}"
)
def test_yaml_in_documents_can_be_read(block: Block) -> None:
    list(yaml.safe_load_all(block.text))


def test_the_guides_state_the_delays_of_restarts_that_a_process_has() -> None:
    assert (WITHIN_A_PROCESS.initial_delay, WITHIN_A_PROCESS.multiplier, WITHIN_A_PROCESS.max_delay) == (0.1, 2, 60)
    assert (WITHIN_A_PROCESS.jitter, WITHIN_A_PROCESS.attempts, WITHIN_A_PROCESS.reset_after) == (0.1, 10, 600)

    guide = " ".join(GUIDE.read_text().split())

    assert "after 0.1 s, then after a delay that doubles each time, up to a minute, more or less 10 %." in guide
    assert "After ten restarts it ends with exit code 5; ten minutes without a failure reset the count." in guide
    concepts = " ".join((ROOT / "docs" / "concepts.md").read_text().split())
    assert "after a tenth of a second. Each further failure doubles the delay, up to a minute." in concepts


def test_the_page_of_defaults_states_those_of_checkpoints() -> None:
    policy = LiveCheckpointingPolicy()
    assert (policy.interval, policy.timeout) == (10, 600)

    page = (ROOT / "docs" / "defaults.md").read_text()

    for row in (
        "| `interval` | 10 s |",
        "| `timeout` | 10 minutes |",
        f"| `tolerableFailedCheckpoints` | {policy.tolerable_failed_checkpoints} |",
    ):
        assert row in page
