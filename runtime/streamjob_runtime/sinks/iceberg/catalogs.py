"""Loads a catalog, and translates its errors so that they name the responsible party."""

from __future__ import annotations

import os
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
from pyiceberg.io.pyarrow import PyArrowFileIO

from streamjob.errors import InvalidInput, StreamJobError
from streamjob.job.connectors.iceberg import IcebergTableOptions, catalog_properties
from streamjob.job.connectors.options import redacted, secrets_in

_REFUSED = (BadRequestError, ForbiddenError, OAuthError, UnauthorizedError, PermissionError)
_UNUSABLE = (NoSuchPropertyException, NotInstalledError, ModuleNotFoundError, ValidationError, ValueError)
_SAYS_NO = re.compile(
    r"authentication failed|permission denied|insufficientprivilege|access.?denied|forbidden|unauthorized|"
    r'database "[^"]*" does not exist|nosuchbucket|no such bucket|signaturedoesnotmatch|invalidaccesskeyid',
    re.IGNORECASE,
)
_FIRST_LINES = 300
_DEFAULTS = {
    # A pooled connection may have been closed since its last use minutes ago.
    "pool_pre_ping": "true",
    # Arrow's default timeouts are one and three seconds; a busy store sometimes takes longer.
    "s3.connect-timeout": "10",
    "s3.request-timeout": "60",
}


class CatalogRefuses(InvalidInput):
    """The catalog or the file store answers, but refuses the sink's credentials or an operation."""


class CatalogUnreachable(StreamJobError):
    """The catalog or the file store does not answer; the job continues from its checkpoint once it does."""


class Explainer:
    """Translates errors of a catalog, its client and the file store into the sink's, without secrets."""

    def __init__(self, label: str, options: Mapping[str, str]) -> None:
        self._label = label
        self._secrets = secrets_in(options)

    @contextmanager
    def explaining(self, what: str, *, by_options: bool = False) -> Iterator[None]:
        """Translate errors inside this context.

        Args:
            what: the failed operation, as in "the catalog cannot be loaded".
            by_options: whether an invalid option value can be the cause.
        """
        try:
            yield
        except StreamJobError:
            raise
        except Exception as error:
            raise self.explained(error, what, by_options=by_options) from None

    def explained(self, error: Exception, what: str, *, by_options: bool = False) -> StreamJobError:
        """Return the sink's error for another error; see `explaining`."""
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


def open_catalog(options: Mapping[str, str], parsed: IcebergTableOptions, explainer: Explainer) -> Catalog:
    """Return the catalog of some options.

    Raises:
        CatalogRefuses: it refuses the credentials, or does not match the options.
        CatalogUnreachable: it does not answer.
    """
    with explainer.explaining("the catalog cannot be loaded", by_options=True):
        catalog = load_catalog(parsed.catalog_name, **{**_DEFAULTS, **catalog_properties(options)})
    _use_old_checksums(catalog.properties)
    return catalog


def open_files(properties: Mapping[str, str]) -> PyArrowFileIO:
    """Return access to a table's files.

    Args:
        properties: those of the table's access; those for the catalog only are left out.
    """
    _use_old_checksums(properties)
    catalogs = {"uri", "credential", "token", "type"}
    return PyArrowFileIO({name: value for name, value in properties.items() if name not in catalogs})


def _use_old_checksums(properties: Mapping[str, str]) -> None:
    # Servers other than AWS may not support AWS's newer checksums; one answers 400 to an upload in ten. Arrow has
    # no option for it but these variables.
    if "s3.endpoint" in properties or "AWS_ENDPOINT_URL" in os.environ:
        for name in ("AWS_REQUEST_CHECKSUM_CALCULATION", "AWS_RESPONSE_CHECKSUM_VALIDATION"):
            os.environ.setdefault(name, "when_required")
