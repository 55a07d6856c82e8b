"""Loads a catalog, and says of what goes wrong there whose fault it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    BadRequestError,
    ForbiddenError,
    NoSuchPropertyException,
    NotInstalledError,
    OAuthError,
    UnauthorizedError,
    ValidationError,
)

from streamjob.errors import StreamJobError
from streamjob.job.iceberg import IcebergOptions, catalog_properties
from streamjob.job.options import redacted, secrets_in
from streamjob_runtime.sinks.iceberg.errors import CatalogRefuses, CatalogUnreachable

_REFUSED = (BadRequestError, ForbiddenError, OAuthError, UnauthorizedError, PermissionError)
_UNUSABLE = (NoSuchPropertyException, NotInstalledError, ModuleNotFoundError, ValidationError, ValueError)
_SAYS_NO = re.compile(
    r"authentication failed|permission denied|insufficientprivilege|access.?denied|forbidden|unauthorized|"
    r'database "[^"]*" does not exist|nosuchbucket|no such bucket|signaturedoesnotmatch|invalidaccesskeyid',
    re.IGNORECASE,
)
_FIRST_LINES = 300
_DEFAULTS = {
    # A pooled connection may have been closed since it was last used, minutes ago.
    "pool_pre_ping": "true",
    # Arrow waits for one second and for three: a busy store takes longer at times.
    "s3.connect-timeout": "10",
    "s3.request-timeout": "60",
}


class Explainer:
    """Turns the errors of a catalog, its client and the files' store into the sink's, without secrets.

    Args:
        label: what the message calls the sink.
        options: the sink's, resolved.
    """

    def __init__(self, label: str, options: Mapping[str, str]) -> None:
        self._label = label
        self._secrets = secrets_in(options)

    @contextmanager
    def explaining(self, what: str, *, by_options: bool = False) -> Iterator[None]:
        """Raise what the block raises as an error of the sink.

        Args:
            what: what the block does, as in "the catalog cannot be loaded".
            by_options: whether it fails if an option has a value of no use.
        """
        try:
            yield
        except StreamJobError:
            raise
        except Exception as error:
            raise self.explained(error, what, by_options=by_options) from None

    def explained(self, error: Exception, what: str, *, by_options: bool = False) -> StreamJobError:
        """Return the sink's error for another one; see `explaining`."""
        text = self._text(error)
        message = f"{self._label}: {what}: {type(error).__name__}: {text}"
        if isinstance(error, _REFUSED) or _SAYS_NO.search(f"{type(error).__name__} {text}"):
            return CatalogRefuses(message, "correct the credentials, or give them the right to do this")
        if by_options and isinstance(error, _UNUSABLE):
            return CatalogRefuses(message, "correct the options catalog.…")
        return CatalogUnreachable(message, "see that the catalog and the files' store can be reached from here")

    def _text(self, error: Exception) -> str:
        text = " ".join(str(error).partition("[SQL:")[0].split())
        return redacted(text, self._secrets)[:_FIRST_LINES]


def open_catalog(options: Mapping[str, str], parsed: IcebergOptions, explainer: Explainer) -> Catalog:
    """Return the catalog that options name.

    Raises:
        CatalogRefuses: it does not let the sink in, or cannot be what the options say.
        CatalogUnreachable: it does not answer.
    """
    with explainer.explaining("the catalog cannot be loaded", by_options=True):
        return load_catalog(parsed.catalog_name, **{**_DEFAULTS, **catalog_properties(options)})


def file_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what gives access to a table's files, without what is for the catalog alone."""
    return {name: value for name, value in properties.items() if name not in {"uri", "credential", "token", "type"}}
