"""The fields of a page's filters, with what there is to choose in its period: fetched when they are
opened.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from django.http import HttpRequest

from fleetwatch.accounts.colleagues import reachable
from fleetwatch.accounts.models import User
from fleetwatch.dashboard import words
from fleetwatch.dashboard.parameters import FILTERS, PERIOD, SUBJECTS
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context, shows
from fleetwatch.diagnosis.causes import CATALOGUE, UNFIT
from fleetwatch.diagnosis.findings import deciding
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Look
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.selectors import clusters
from fleetwatch.ledger.policy import SHOWN_STATES

MAX_OPTIONS = 500
MAX_LISTED = 30  # of a list that one reads; a longer one is typed into
LEDGER = ("team", "user", "project", "cost_centre", "node", "gpu_model")  # what has time

TYPED = ("label", "job", "job_name")

Option = tuple[str, str]  # value, and in words


@dataclass(frozen=True, slots=True)
class FilterField:
    """One filter of a form: its options, most wasted dollars first; none = it is typed."""

    name: str
    value: str
    options: Sequence[Option]

    @property
    def is_useful(self) -> bool:
        """Not where there is nothing to choose."""
        return bool(self.options or self.value) or self.name in TYPED

    @property
    def is_listed(self) -> bool:
        return 0 < len(self.options) <= MAX_LISTED


@shows("dashboard/_filter_fields.html", "", "of", *FILTERS, *PERIOD, is_part=True)
def filters(request: HttpRequest, period: Period) -> Context:
    """`of`: which of them the page has, with commas; without it those of figures."""
    asked = request.GET.get("of", "").split(",")
    names = [name for name in FILTERS if name in asked] or SUBJECTS
    seen = costs.look(period.interval, *LEDGER)
    fields = [_field(name, request.GET.get(name, ""), seen) for name in names]
    return {"fields": [field for field in fields if field.is_useful]}


def _field(name: str, value: str, seen: Look) -> FilterField:
    options = _with_time(seen, name) if name in LEDGER else _OPTIONS.get(name, list)()
    if value and value not in {key for key, _ in options}:
        options = [(value, value), *options] if options else options
    return FilterField(name, value, options)


def _with_time(seen: Look, name: str) -> list[Option]:
    """What had GPU time in the period; not what no job held."""
    groups = [group for group in seen.by(name) if group.key]
    return [(group.key, group.label) for group in groups[:MAX_OPTIONS]]


def _causes() -> list[Option]:
    return [(cause.code, cause.title) for cause in CATALOGUE if cause.code not in UNFIT]


def _people() -> list[Option]:
    people = reachable(deciding.candidates())[:MAX_OPTIONS]
    return [(person.username, _named_person(person)) for person in people]


def _named_person(person: User) -> str:
    return person.username if person.is_active else f"{person.username} (deactivated)"


def _named(names: Mapping[str, str]) -> list[Option]:
    return list(names.items())


def _clusters() -> list[Option]:
    return [(name, name) for name in clusters(MAX_OPTIONS)]


_OPTIONS: dict[str, Callable[[], list[Option]]] = {
    "state": partial(_named, {name: words.BY_NAME[name].label for name in SHOWN_STATES}),
    "kind": partial(_named, dict(Job.Kind.choices)),
    "cluster": _clusters,
    "cause": _causes,
    "assignee": _people,
}
