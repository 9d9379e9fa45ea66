"""Where a line of costs leads: to what it is made of."""

from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

from django.urls import reverse

from fleetwatch.dashboard.parameters import NO_JOB
from fleetwatch.figures.totals import UNALLOCATED

# by what a line's own costs are shown; a job has a page of its own
OPENED_BY = {
    "team": "user",
    "project": "user",
    "cost_centre": "team",
    "user": "job",
    "node": "job",
    "gpu_model": "team",
    "state": "team",
}
# lines of which what no job held is one: it is opened by state
OWNERS = ("team", "project", "cost_centre", "user")


def opened_by(
    group_by: str, keys: Iterable[str], filters: Mapping[str, str] | None
) -> dict[str, str]:
    """By the key of a line the address of its own costs, without a period; {} where lines have
    none. `filters` are the page's; None: it is no page of costs.
    """
    if group_by not in OPENED_BY or filters is None:
        return {}
    kept = {**filters, "group_by": OPENED_BY[group_by]}
    start = reverse("costs")
    addresses = {}
    for key in keys:
        if key != UNALLOCATED:
            addresses[key] = f"{start}?{urlencode(kept | {group_by: key})}"
        elif group_by in OWNERS:
            unheld = {**filters, "group_by": "state", group_by: NO_JOB}
            addresses[key] = f"{start}?{urlencode(unheld)}"
    return addresses
