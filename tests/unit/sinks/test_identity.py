"""The identity of a sink where it commits."""

from __future__ import annotations

from streamjob_runtime.sinks.identity import identity_of


def test_sinks_of_different_names_have_different_identities() -> None:
    names = [("a", "b", "c"), ("ab", "", "c"), ("a", "bc", "")]

    assert len({identity_of(*each) for each in names}) == 3


def test_a_later_version_knows_a_sink_by_the_same_identity() -> None:
    assert identity_of("default", "job", "report") == "928835daf74f4222"
