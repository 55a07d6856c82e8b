"""Options of connectors: finds them by name, and replaces `${env:NAME}` by the variable's value.

This is the only way in which secrets enter a job. They are resolved when a connector is opened, and never stored in the
model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, unquote_plus

from streamjob.errors import InvalidInput
from streamjob.job.model.references import (
    ENVIRONMENT,
    Unset,
    has_default,
    names_in,
    replaced,
    unset_in,
    without_defaults,
)

if TYPE_CHECKING:
    from streamjob.job.model.encoding_spec import Encoding, Registry
    from streamjob.job.model.spec import SinkSpec, SourceSpec, TableSpec

_Part = TypeVar("_Part", "SourceSpec", "SinkSpec")

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_SECRET = re.compile(
    r"(password|passwd|passphrase|passcode|secret|token|credentials?|cookies?|bearer|jwt"
    r"|(private|access|account|api|keystore|storage|shared|signing)[._-]?key|access[._-]?key[._-]?id"
    r"|jaas[._-]config|connection[._-]?string|user[._-]info"
    r"|(?<![a-z])(pwd|dsn|sas|pem|auth(?!or(?!iz)|enticator)[a-z]*([._-](header|string|data|info|params?))?))"
    r"([._-]?(key|value))?$"
    # Azure's option names end with the account, and header names are arbitrary.
    r"|account[._-]key[._-]|sas[._-]fixed[._-]token|(?<![a-z])headers?([._-].*)?$"
)
_WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BOOLEAN = re.compile(r"true|false", re.IGNORECASE)
_LOGIN = re.compile(r"://[^/@\s]+:[^/@\s]+@|password=(?!\$\{env:)[^;&\s]", re.IGNORECASE)
_REFERRED_LOGIN = re.compile(r"://([^/@\s:$]+|\$\{env:\}):\$\{env:\}@")
_USERINFO = re.compile(r"://([^/?#\s]+)@")
_ASSIGNED = re.compile(r"""(?:password|secret)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^"'&;\s][^&;\s]*))""", re.IGNORECASE)
_MASK = "***"
_SHORT = 4
"""A secret shorter than this is redacted only where it stands alone."""


class MissingVariable(InvalidInput):
    """An option refers to an environment variable that is not set."""


class UnusableOptions(InvalidInput):
    """The options of a source or sink are invalid."""


def option(options: Mapping[str, str], name: str) -> str | None:
    """Return the value of an option, or None; like Spark, ignores the case of its name."""
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)


def without(options: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return the options without some; like Spark, ignores the case of their names."""
    lower = {name.lower() for name in names}
    return {key: value for key, value in options.items() if key.lower() not in lower}


def environment_names(value: str) -> Iterator[str]:
    """Yield the environment variables that a value refers to."""
    yield from names_in(value, ENVIRONMENT)


def missing_names(value: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the environment variables without which a value cannot be used."""
    yield from unset_in(value, ENVIRONMENT, environ.get)


def substitute(value: str, environ: Mapping[str, str]) -> str:
    """Return `value` with each `${env:NAME}` replaced.

    Raises:
        MissingVariable: a variable is not set, and the reference has no default.
    """
    try:
        return replaced(value, ENVIRONMENT, environ.get)
    except Unset as error:
        raise MissingVariable(
            f"the environment variable {error.name} is not set", "set it where the job runs"
        ) from None


def is_secret(key: str, value: str) -> bool:
    """Return whether an option contains a plain-text secret, judged by its name and by logins in its value.

    The default of a reference is plain text, too.
    """
    plain = without_defaults(value, ENVIRONMENT)
    if _LOGIN.search(_REFERRED_LOGIN.sub("://", plain)):
        return True
    referred = "${env:}" in plain and not has_default(value, ENVIRONMENT)
    return _is_named_for_secret(key, plain) and not referred


def _is_named_for_secret(key: str, value: str) -> bool:
    # `header: true` of a CSV file is not a secret.
    return _SECRET.search(_WORD_BEGINS.sub("_", key).lower()) is not None and _BOOLEAN.fullmatch(value) is None


def secrets_in(options: Mapping[str, str]) -> frozenset[str]:
    """Return the texts that messages must not show: values of secret options, and passwords inside others.

    Args:
        options: the options with environment variables resolved.
    """
    found = {value for name, value in options.items() if _is_named_for_secret(name, value)}
    for value in options.values():
        for match in _USERINFO.finditer(value):
            password = match[1].partition(":")[2]
            found |= {password, unquote(password)}
        for match in _ASSIGNED.finditer(value):
            password = next(filter(None, match.groups()), "")
            found |= {password, unquote(password), unquote_plus(password)}
    return frozenset(secret for secret in found if secret.strip())


def redacted(text: str, secrets: Collection[str]) -> str:
    """Return a text with each secret replaced by `***`; different whitespace inside a secret counts as equal."""
    patterns = []
    for secret in sorted(filter(str.strip, secrets), key=len, reverse=True):
        pattern = r"\s+".join(map(re.escape, secret.split()))
        patterns.append(pattern if len(secret) >= _SHORT else rf"(?<!\w){pattern}(?!\w)")
    return re.sub("|".join(patterns), _MASK, text) if patterns else text


def absolute_path(path: str, directory: Path) -> str:
    """Return a relative path as an absolute one below `directory`; return URIs and absolute paths unchanged."""
    if _URI.match(path) or path.startswith("/"):
        return path
    return str(directory.absolute() / path)


def encodings_of(part: SourceSpec | TableSpec | SinkSpec) -> dict[str, Encoding]:
    """Return how the keys and values of a part's records are decoded or encoded, by `key` and `value`."""
    found = {name: getattr(part, name, None) for name in ("key", "value")}
    return {name: each for name, each in found.items() if each is not None}


def all_options(part: SourceSpec | TableSpec | SinkSpec) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the options of a part, its encodings and their registries, each with what stands before their names."""
    yield "", part.options
    for name, encoding in encodings_of(part).items():
        yield f"{name}.options.", encoding.options
        if encoding.registry is not None:
            yield f"{name}.registry.", {"url": encoding.registry.url, **encoding.registry.options}


def resolve_registry(registry: Registry, directory: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the resolved options for the client of a registry, with its `url`; they may contain secrets.

    Args:
        directory: the job file's directory; relative locations of certificates are below it.
        environ: the environment for `${env:NAME}`.

    Raises:
        MissingVariable: a variable is not set.
    """
    resolved = {key: substitute(value, environ) for key, value in registry.options.items()}
    files = {key: absolute_path(value, directory) for key, value in resolved.items() if key.endswith(".location")}
    return {**resolved, **files, "url": substitute(registry.url, environ)}


def with_resolved_encodings(part: _Part, environ: Mapping[str, str]) -> _Part:
    """Return a source or sink with resolved options of its encodings, for where its records are decoded or encoded.

    Raises:
        MissingVariable: a variable is not set.
    """
    resolved = {
        name: encoding.model_copy(
            update={"options": {key: substitute(value, environ) for key, value in encoding.options.items()}}
        )
        for name, encoding in encodings_of(part).items()
        if encoding.options
    }
    return part.model_copy(update=resolved) if resolved else part
