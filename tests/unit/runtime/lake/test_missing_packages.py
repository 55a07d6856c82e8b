"""A source whose packages are not installed says what to install."""

from __future__ import annotations

import sys
from typing import Any, cast

import pytest

from streamjob.extras import MissingExtra
from streamjob.job.model.spec import SourceSpec
from streamjob_runtime.chain.sources.discovered_files import DiscoveredFiles

READERS = "streamjob_runtime.chain.sources.lake"


@pytest.mark.parametrize(
    ("form", "package", "reader", "options"),
    [
        ("delta", "deltalake", "delta_versions", {"path": "/t"}),
        (
            "iceberg",
            "pyiceberg",
            "iceberg_snapshots",
            {"table": "n.t", "catalog.type": "rest", "catalog.uri": "http://catalog"},
        ),
    ],
)
def test_a_lake_table_without_its_packages_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, form: str, package: str, reader: str, options: dict[str, str]
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"{READERS}.{reader}", raising=False)
    files = DiscoveredFiles.of(cast(Any, None), SourceSpec(name="rows", format=form, options=options), options)
    assert files is not None

    with pytest.raises(MissingExtra, match="Source 'rows' needs the extra") as missing:
        files.offer_sample()
    assert missing.value.fix == f"pip install 'streamjob[{form}]'"
