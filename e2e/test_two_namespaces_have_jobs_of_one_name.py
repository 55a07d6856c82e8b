"""Jobs of one name live in two namespaces under one controller, and share one place for their checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from e2e.harness.controller import ALONE, StreamJobs, running_controller
from e2e.harness.namespace import Namespace
from e2e.harness.visits import visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


@pytest.fixture
def both(definitions: None, namespace: Namespace, other: Namespace) -> Iterator[tuple[StreamJobs, StreamJobs]]:
    """The StreamJobs of both namespaces, under one controller."""
    with running_controller(namespace, (*ALONE, "--namespace", other.name)):
        found = StreamJobs(namespace), StreamJobs(other)
        yield found
        for each in found:
            each.remove_all()


def test_each_of_them_has_its_own_state_and_output_and_outlives_the_other(both: tuple[StreamJobs, StreamJobs]) -> None:
    for place, (jobs, end) in enumerate(zip(both, (20, 30), strict=True)):
        jobs.namespace.write(visits(0, end))
        jobs.apply(
            NAME,
            checkpointing={"location": f"{both[0].namespace.location}-shared", "interval": "1s"},
            deletionPolicy=("Delete", "Retain")[place],
        )
    first, second = (jobs.wait_for_state(NAME, "STABLE") for jobs in both)
    paths = [each["checkpoint"]["lastCompleted"]["path"] for each in (first, second)]
    for jobs, path in zip(both, paths, strict=True):
        assert path.startswith(f"{both[0].namespace.location}-shared/{jobs.namespace.name}/{NAME}/")
    one, two = both

    two.change(NAME, sparkConf={"spark.sql.session.timeZone": "UTC"})
    upgraded = two.wait_until_ready(NAME)
    assert upgraded["jobStatus"]["attempt"] == 2
    assert one.status(NAME)["jobStatus"]["attempt"] == 1
    one.wait_for_whole_report(NAME, 20)

    (driver,) = two.drivers(NAME)
    one.namespace.delete("StreamJob", NAME)
    one.namespace.wait_gone("StreamJob", NAME)
    assert not one.is_stored(paths[0])
    two.namespace.write(visits(30, 40))
    two.wait_for_whole_report(NAME, 40)
    assert two.drivers(NAME) == [driver]
    assert two.status(NAME)["jobStatus"]["restarts"] == 0
