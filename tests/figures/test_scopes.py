"""What a scope names of jobs narrows the time that they held."""

import pytest

from fleetwatch.figures.selectors import Scope, totals, totals_by
from tests.costs.factories import a_gpu, a_job, an_entry
from tests.figures.test_selectors import DAY

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("facts", "ms"),
    [
        ({"kind": "batch"}, 1),
        ({"kind": "service"}, 2),
        ({"kind": "interactive"}, 0),
        ({"cluster": "erie"}, 2),
        ({"cluster": "erie", "kind": "batch"}, 0),
        ({"label": "env=prod"}, 1),
        ({"label": "env=pro"}, 0),
        ({"label": "env="}, 2),
        ({"label": "env"}, 3),
        ({"label": "ENV"}, 0),
        ({"label": "a=b=c"}, 2),
        ({"label": "' OR 1=1 --"}, 0),
        ({"label": "env", "user": "bob"}, 2),
        ({"kind": "batch", "states": ("useful",)}, 0),
    ],
)
def test_time_is_narrowed_by_what_its_job_is_and_by_its_labels(facts, ms):
    """1 ms of a batch job, 2 ms of a service, 4 ms free."""
    gpu = a_gpu()
    batch = a_job(kind="batch", cluster="della", labels={"env": "prod"})
    service = a_job(kind="service", cluster="erie", user="bob", labels={"env": "", "a": "b=c"})
    an_entry(gpu, "idle", 1, job=batch)
    an_entry(gpu, "useful", 2, job=service)
    an_entry(gpu, "free", 4)

    assert totals(DAY, scope=Scope(**facts)).capacity_ms == ms
    assert (
        sum(line.totals.capacity_ms for line in totals_by(DAY, "job", scope=Scope(**facts))) == ms
    )
