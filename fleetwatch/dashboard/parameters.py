"""What a page's address may ask for: a parameter that the page does not know is said on it, an old
name leads to the new one.

Files and fragments, on which nothing can be said, refuse it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect

from fleetwatch.dashboard.choices import chosen, chosen_several
from fleetwatch.figures.totals import UNALLOCATED, Scope
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.policy import PARTS, SHOWN_STATES
from fleetwatch.lib import timeframes
from fleetwatch.lib.parameter_names import renamed, repeated, unknown

View = Callable[..., HttpResponseBase]

PERIOD = (*timeframes.NAMES, timeframes.ZONE)
# what figures are narrowed to, as the API's filters; a state is of the time, the last three are of
# the job
NO_JOB = "(unallocated)"  # as an address says it: an empty parameter narrows nothing
SUBJECTS = (
    *("team", "user", "project", "cost_centre", "node", "gpu_model"),
    *("state", "kind", "cluster", "label"),
)
CAUSE = "cause"  # findings, jobs and waste are narrowed to
OF_FINDINGS = (CAUSE, "assignee", "job", "job_name")  # the others they alone are narrowed to
PLACES = ("team", "node", "gpu_model", "cluster")  # of lists of what is at this moment
FILTERS = (*SUBJECTS, *OF_FINDINGS)
LONGEST_NAME = 60  # of what is told back
# filters that another page has: why this one has not
ELSEWHERE = {
    CAUSE: (
        "A cause can't narrow this: it is of the wasted time of jobs. Jobs, waste and the savings"
        " inbox are narrowed by `cause`."
    )
}
MAX_TOLD = 5  # of unknown names


def takes(*names: str) -> Callable[[View], View]:
    """A page that knows these parameters: another one is said above it, with the sentence that
    nothing was narrowed by it.
    """

    def say(request: HttpRequest) -> None:
        for name in unknown(request.GET, names)[:MAX_TOLD]:
            messages.error(request, f"{_sentence(name, names)} What you see is not narrowed by it.")
        for name in repeated(request.GET, names):
            messages.error(request, f"{_once(name)} What you see is that of the last one.")

    return _judged(names, say, is_page=True)


def takes_only(*names: str) -> Callable[[View], View]:
    """A file or a fragment that knows these parameters: 422 for another one."""
    return _judged(names, lambda request: refusal(request, names), is_page=False)


def _judged(
    names: Collection[str], judge: Callable[[HttpRequest], HttpResponse | None], *, is_page: bool
) -> Callable[[View], View]:
    """The view after `judge`, which may answer in its place, at the address with new names; what it
    takes, and whether it is a page, are attributes of it.
    """

    def marked(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method != "GET":
                return view(request, *args, **kwargs)
            params = renamed(request.GET, names)
            if params is not None:
                return redirect(f"{request.path}?{params.urlencode()}")
            return judge(request) or view(request, *args, **kwargs)

        answer.parameters = names  # type: ignore[attr-defined]
        answer.is_page = is_page  # type: ignore[attr-defined]
        return answer

    return marked


def refusal(request: HttpRequest, names: Collection[str]) -> HttpResponse | None:
    """422 with why, where the address of a file or a fragment can't be answered as it stands; None
    where it can.
    """
    sentences = [_sentence(name, names) for name in unknown(request.GET, names)]
    sentences += [_once(name) for name in repeated(request.GET, names)]
    return refused(sentences[0]) if sentences else None


def refused(sentence: str) -> HttpResponse:
    """422 with the sentence, as plain text."""
    return HttpResponse(f"{sentence}\n", content_type="text/plain; charset=utf-8", status=422)


def filters_of(request: HttpRequest) -> dict[str, str]:
    """What the address narrows the figures to, by name; a parameter that is missing or empty
    narrows nothing.
    """
    return among(request, SUBJECTS)


def scope_of(filters: Mapping[str, str]) -> Scope:
    """The figures that these filters ask for; NO_JOB of a team or another owner: of what no job
    held.
    """
    named = {
        name: UNALLOCATED if value == NO_JOB else value
        for name, value in filters.items()
        if name != "state"
    }
    scope = Scope(**named)  # type: ignore[arg-type]
    return in_states(scope, filters["state"].split(",")) if filters.get("state") else scope


def in_states(scope: Scope, shown: Sequence[str]) -> Scope:
    """The figures of these states alone, as pages show them; what no state narrows, of none."""
    if not shown:
        return replace(scope, states=None, shown=None)
    states = tuple(dict.fromkeys(PARTS.get(state, state) for state in shown))
    return replace(scope, states=states, shown=tuple(shown))


def among(request: HttpRequest, names: Collection[str]) -> dict[str, str]:
    """What of these filters the address asks for, by name."""
    return {name: request.GET[name] for name in names if request.GET.get(name)}


def filtered(request: HttpRequest) -> tuple[Scope, dict[str, str]]:
    """What the address narrows the figures to, and the same by name; a state or kind that there is
    not is said on the page, and narrows nothing.
    """
    filters = filters_of(request)
    if not chosen_several(request, "state", SHOWN_STATES):
        filters.pop("state", None)
    if not chosen(request, "kind", Job.Kind.values):
        filters.pop("kind", None)
    return scope_of(filters), filters


def _once(name: str) -> str:
    return f"The parameter {name!r} is there more than once."


def _sentence(name: str, names: Collection[str]) -> str:
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    there = f"parameters are {', '.join(names)}" if names else "there are none here"
    return f"There is no parameter {name[:LONGEST_NAME]!r}: {there}."
