"""The tokens of a SQL file, as sqlglot finds them for Spark: words, names, texts, numbers and signs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import Token as SqlglotToken
from sqlglot import TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

from streamjob.job.model.origins import Place
from streamjob.job.model.problem import Refused

_TEXTS = {TokenType.STRING, TokenType.RAW_STRING}
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAY_OPEN = re.compile(r"['\"`]|/\*")
_MOST_TRIES = 20


class NotSql(Refused):
    """A text cannot be read as a statement.

    Args:
        at: where in the file, in characters from its start.
    """

    def __init__(self, what: str, fix: str, at: int) -> None:
        super().__init__(what, fix)
        self.at = at


@dataclass(frozen=True, slots=True)
class Token:
    """A token: its kind (`word`, `name` in backticks, `text`, `number` or `sign`), its value, and its characters."""

    kind: str
    value: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Return whether it is one of some keywords, in any case."""
        return self.kind == "word" and self.value.upper() in words


def place_in(text: str, at: int, file: str = "") -> Place:
    """Return the place of a character of a text, counted from its start."""
    return Place(file, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def statements(text: str) -> list[list[Token]]:
    """Return the tokens of each statement of a text; semicolons separate them, and the last may have none.

    Raises:
        NotSql: a quote or a comment is not closed.
    """
    found: list[list[Token]] = [[]]
    for token in _tokens(text):
        if token.kind == "sign" and token.value == ";":
            found[-1].append(token)
            found.append([])
        else:
            found[-1].append(token)
    return [each for each in found if any(token.value != ";" or token.kind != "sign" for token in each)]


def _tokens(text: str) -> Iterator[Token]:
    try:
        tokens = Spark().tokenize(text)
    except TokenError:
        raise _unclosed(text) from None
    last: Token | None = None
    for token in (part for each in tokens for part in _parts(text, each)):
        if last is not None and last.kind == token.kind == "text" and last.end == token.start:
            # Two texts without a space are one, with a quote in it.
            last = Token("text", last.value + text[token.start] + token.value, last.start, token.end)
            continue
        if last is not None:
            yield last
        last = token
    if last is not None:
        yield last


def _parts(text: str, token: SqlglotToken) -> Iterator[Token]:
    """Yield a token as this module has it; sqlglot makes one of `GROUP BY`, which are two words."""
    # sqlglot begins a semicolon behind a comment with the comment.
    start = token.end if token.token_type == TokenType.SEMICOLON else token.start
    kind = _kind(token.token_type, token.text)
    words = list(_WORD.finditer(text, start, token.end + 1)) if kind == "sign" else []
    if len(words) > 1:
        yield from (Token("word", word[0], word.start(), word.end()) for word in words)
    else:
        yield Token(kind, token.text, start, token.end + 1)


def _kind(kind: TokenType, text: str) -> str:
    if kind == TokenType.IDENTIFIER:
        return "name"
    if kind in _TEXTS:
        return "text"
    if kind == TokenType.NUMBER:
        return "number"
    return "word" if _WORD.fullmatch(text) else "sign"


def _unclosed(text: str) -> NotSql:
    """Return the problem of a text with a quote or comment that is not closed."""
    opening = [match.start() for match in _MAY_OPEN.finditer(text)][-_MOST_TRIES:]
    for at in reversed(opening):
        if _is_complete(text[:at]):
            return NotSql(f"{text[at]!r} is not closed" if text[at] != "/" else "'/*' is not closed", "close it", at)
    return NotSql("a quote or a comment is not closed", "close it", len(text))


def _is_complete(text: str) -> bool:
    try:
        Spark().tokenize(text)
    except TokenError:
        return False
    return True


class Cursor:
    """Goes through the tokens of a statement.

    Args:
        text: the file.
        tokens: the statement's, with its semicolon if it has one.
    """

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        ends = tokens[-1].kind == "sign" and tokens[-1].value == ";"
        self._tokens = tokens[:-1] if ends else tokens
        self.end = tokens[-1].start if ends else len(text)
        self._next = 0

    @property
    def at(self) -> int:
        """The start of the next token; the end of the statement if there is none."""
        token = self.peek()
        return token.start if token is not None else self.end

    @property
    def before(self) -> int:
        """The end of the last token that was read."""
        return self._tokens[self._next - 1].end if self._next else self.at

    @property
    def rest(self) -> Sequence[Token]:
        """The tokens that follow."""
        return self._tokens[self._next :]

    def peek(self, ahead: int = 0) -> Token | None:
        """Return a token that follows, or None."""
        index = self._next + ahead
        return self._tokens[index] if index < len(self._tokens) else None

    def next(self) -> Token | None:
        """Return the next token and go on; None at the end."""
        token = self.peek()
        self._next += token is not None
        return token

    def skip(self, *words: str) -> bool:
        """Go past keywords or signs if they follow, in this order, and return whether they do."""
        for ahead, word in enumerate(words):
            token = self.peek(ahead)
            if token is None or token.kind not in ("word", "sign") or token.value.upper() != word:
                return False
        self._next += len(words)
        return True

    def expect(self, *words: str, fix: str = "") -> None:
        """Go past keywords or signs; raises NotSql if others follow."""
        for word in words:
            if not self.skip(word):
                raise self.error(f"{word!r}", fix)

    def name(self, of: str) -> Token:
        """Return a name, with or without backticks; raises NotSql if none follows."""
        token = self.peek()
        if token is None or token.kind not in ("word", "name"):
            raise self.error(f"the name of {of}")
        self._next += 1
        return token

    def error(self, expected: str, fix: str = "") -> NotSql:
        """Return the problem that something else was expected here."""
        token = self.peek()
        if token is None:
            return NotSql(f"ends where {expected} should be", fix, self.end)
        found = self.text[token.start : token.end]
        return NotSql(
            f"has {found if len(found) < 40 else found[:40] + '…'} where {expected} should be", fix, token.start
        )
