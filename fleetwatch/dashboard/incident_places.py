"""The GPUs that an incident is about, and where more of each is to be seen."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from fleetwatch.accounts.visibility import sight, visible_teams
from fleetwatch.alerts.breach import Breach
from fleetwatch.alerts.measuring.month_drivers import opens_budget
from fleetwatch.costs.mapping import attribution
from fleetwatch.dashboard.incident_pages import uuids_of
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.visible_jobs import visible

MAX_PLACES = 8  # shown; the job's page has them all


@dataclass(frozen=True, slots=True)
class Place:
    """A GPU of the breach; `explained` is the address of what explains its time meanwhile, "" where
    not all of that is the reader's to see.
    """

    gpu: GPU
    explained: str


@dataclass(frozen=True, slots=True)
class Places:
    """The first GPUs by node and index, and how many more there are."""

    shown: list[Place]
    left_off: int


def places(breach: Breach) -> Places:
    """Of its GPUs those that are known; none of what is about no GPU."""
    gpus = sorted(inventory.newest_rows(uuids_of(breach)).values(), key=_place_of)
    first = gpus[:MAX_PLACES]
    is_explained = bool(gpus) and _is_explained(breach)
    shown = [Place(gpu, _explained(gpu, breach) if is_explained else "") for gpu in first]
    return Places(shown, len(gpus) - len(first))


def is_page_seen(breach: Breach) -> bool:
    """Whether the reader sees the page of what it is about: to whom an incident was given alone its
    job, team or budget is none.
    """
    if sight() is None:
        return True
    if breach.kind == "job":
        return visible(Job.objects.filter(key=breach.subject)).exists()
    if breach.kind == "team":
        return visible_teams().filter(slug=breach.subject).exists()
    return opens_budget(breach)


def _place_of(gpu: GPU) -> tuple[str, int, str]:
    return gpu.node.name, -1 if gpu.index is None else gpu.index, gpu.uuid


def _is_explained(breach: Breach) -> bool:
    """Whether the GPUs' time under the job, of a GPU under whomever, is all the reader's to see."""
    if breach.kind != "job":
        return sight() is None
    job = visible(Job.objects.filter(key=breach.subject)).first()
    return job is not None and attribution.seen_spans(job) is None


def _explained(gpu: GPU, breach: Breach) -> str:
    job = {"job": breach.subject} if breach.kind == "job" else {}
    meanwhile = {"from": breach.since_ms, "to": max(breach.until_ms, breach.since_ms + 1)}
    return f"{reverse('explain')}?{urlencode({'gpu': gpu.uuid} | job | meanwhile)}"
