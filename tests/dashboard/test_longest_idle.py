"""The job that idles longest, as the overview says it."""

from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests import stored_runs
from tests.dashboard import factories
from tests.dashboard.shown_incidents import incident, text

pytestmark = pytest.mark.django_db


def test_the_longest_idle_is_as_old_and_dear_as_its_incident_which_counts_over_a_gap(admin):
    """One job idles since 11:00, after a gap; its incident began at 09:00 and counts $4.12. The
    other one idles since 10:30 without one.
    """
    node = factories.node()
    factories.rate("2.00")
    jobs = [factories.job(f"slurm/della/{number}", name=f"train-{number}") for number in (1, 2)]
    for index, (job, ago) in enumerate(zip(jobs, (1, 1.5), strict=True)):
        gpu = factories.gpu(node, index=index, hours=4)
        factories.entry(gpu, hours_ago=1, state="idle", held_by=job).save()
        lasted = {"idle": int(ago * HOUR_MS)}
        stored_runs.store(factories.run(gpu, hours_ago=ago, hours=ago, states=lasted, held_by=job))
    since_ms = to_ms(factories.NOW - timedelta(hours=3))
    facts = {"cost_usd": Decimal("4.12")}
    incident(jobs[0].key, since_ms=since_ms, until_ms=to_ms(factories.NOW), facts=facts)

    page = " ".join(text(admin, "/").split())

    assert "Longest: train-1 of ann (nlp) on node-001 GPU 0, since Fri 20 Nov, 09:00 (3 h)" in page
    assert '<span title="$4.120000">$4.12</span> so far' in page
