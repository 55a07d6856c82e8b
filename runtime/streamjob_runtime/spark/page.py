"""Spark's own page: off by default, and only for the control API of the same driver, which lets its readers in."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from streamjob.job.model.spark_settings import Owner, values_of
from streamjob_runtime.spark.jvm import CLASSES

ENABLED = "spark.ui.enabled"
HEADER = "X-Streamjob-Spark-Page"
VARIABLE = "_STREAMJOB_SPARK_PAGE"
"""The environment variable from which Java knows the secret: command lines and Spark's page would show a setting."""
_FILTER = CLASSES["SparkPageGuard"]


@dataclass(frozen=True, slots=True)
class SparkPage:
    """Where Spark's page is, and the secret that opens it."""

    url: str
    secret: str = field(repr=False)


def is_enabled(conf: Mapping[str, str]) -> bool:
    """Return whether a job's Spark has its page."""
    return conf.get(ENABLED, "false").strip().lower() == "true"


def new_secret() -> str:
    """Return a new secret."""
    return secrets.token_urlsafe(32)


def settings_of_page(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Spark's page that a job cannot change; none if it is off."""
    if not is_enabled(conf):
        return {}
    others = [each.strip() for each in conf.get("spark.ui.filters", "").split(",") if each.strip()]
    return {
        **values_of(Owner.PAGE),
        # Our filter comes first.
        "spark.ui.filters": ",".join([_FILTER, *others]),
    }


def page_at(web_url: str | None, secret: str) -> SparkPage | None:
    """Return Spark's page, given the address that Spark tells; None if it is off."""
    port = None if web_url is None else urlsplit(web_url).port
    return None if port is None else SparkPage(f"http://127.0.0.1:{port}", secret)
