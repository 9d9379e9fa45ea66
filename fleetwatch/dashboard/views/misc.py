"""Search, definitions, the theme switch."""

from collections.abc import Sequence
from typing import cast

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.templatetags.static import static
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import User
from fleetwatch.dashboard import words
from fleetwatch.dashboard.glossary import TERMS
from fleetwatch.dashboard.parameters import View
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.search_dollars import (
    DAYS,
    FINDING_DAYS,
    clock_losses_of,
    dollars_of,
    savings_of,
)
from fleetwatch.dashboard.search_hits import (
    Hit,
    has_several_words,
    hits,
    main_pages,
    near,
    own_jobs,
)
from fleetwatch.dashboard.search_now import now_of
from fleetwatch.dashboard.search_order import ranked
from fleetwatch.dashboard.showing import Context, shows
from fleetwatch.diagnosis.findings.noted_facts import not_noted
from fleetwatch.jobs.selectors import gpus_held
from fleetwatch.ledger.policy import PARTS

MAX_HITS = 5  # of each kind, beside others
MAX_COUNTED = 500  # of each kind, in the palette too: it counts and ranks as the page does
MAX_QUICK_HITS = 4
THEME_MAX_AGE_S = 365 * 86_400


@shows("dashboard/search.html", "search", "q", "kind")
def search(request: HttpRequest, period: Period) -> Context:
    """Some of each kind with how many there are, or all of the `kind` that is asked for."""
    text = request.GET.get("q", "").strip()
    only = request.GET.get("kind", "")
    every = hits(text, cast("User", request.user), limit=MAX_COUNTED, now=period.now)
    savings = savings_of(every, period.now)
    groups = ranked(every, text, savings)
    return {
        "text": text,
        "has_several_words": has_several_words(text),
        "only": only,
        "found": len(every),
        "most_counted": MAX_COUNTED,
        "counts": {kind: len(several) for kind, several in groups},
        "savings": savings,
        "near": [] if every else near(text, cast("User", request.user)),
        **_shown(groups, only, period),
    }


def _shown(groups: Sequence[tuple[str, list[Hit]]], only: str, period: Period) -> Context:
    """The groups as far as they are shown, with what their things cost and do now."""
    limit = MAX_COUNTED if only else MAX_HITS
    shown = [(kind, several[:limit]) for kind, several in groups if only in ("", kind)]
    on_page = [hit for _, several in shown for hit in several]
    return {
        "groups": shown,
        "dollars": dollars_of(on_page, period.now),
        "unmeasured": _unmeasured(on_page),
        "clock_losses": clock_losses_of(on_page, period.now),
        "now_of": now_of(on_page, period.now),
        "gpus_held": gpus_held(_job_ids(on_page)),
        "days": DAYS,
        "finding_days": FINDING_DAYS,
    }


def _unmeasured(several: Sequence[Hit]) -> set[int]:
    """Ids of the findings of which what could be saved is told at most: what a step alone would
    have saved is not measured yet.
    """
    return not_noted([hit.finding_id for hit in several if hit.finding_id and hit.has_step])


def _job_ids(several: Sequence[Hit]) -> list[int]:
    subjects = [hit.subject for hit in several if hit.kind == "job"]
    return [subject.pk for subject in subjects if subject and subject.pk is not None]


@shows("dashboard/_search_hits.html", "search", "q", is_part=True)
def search_quickly(request: HttpRequest, period: Period) -> Context:
    """What is found so far, while somebody types; before that one's own jobs, and the pages to go
    to.
    """
    text = request.GET.get("q", "").strip()
    user = cast("User", request.user)
    every = hits(text, user, limit=MAX_COUNTED, now=period.now) if text else []
    savings = savings_of(every, period.now)
    ordered = ranked(every, text, savings) if text else _before_typing(user)
    groups = [
        (kind, several, several[:MAX_QUICK_HITS] if text else several) for kind, several in ordered
    ]
    on_page = [hit for _, _, shown in groups for hit in shown]
    return {
        "text": text,
        "groups": groups,
        "most": MAX_COUNTED,
        "savings": savings,
        "unmeasured": _unmeasured(on_page),
        "clock_losses": clock_losses_of(on_page, period.now),
    }


def _before_typing(user: User) -> list[tuple[str, list[Hit]]]:
    """What somebody may want to go to."""
    groups = (("job", own_jobs(user, MAX_QUICK_HITS)), ("page", main_pages(user)))
    return [group for group in groups if group[1]]


@shows("dashboard/definitions.html", "definitions")
def definitions(_: HttpRequest, __: Period) -> Context:
    wholes = {part: words.BY_NAME[whole].label for part, whole in PARTS.items()}
    return {"states": words.SHOWN, "wholes": wholes}


@shows("dashboard/glossary.html", "definitions", "q")
def glossary(request: HttpRequest, _: Period) -> Context:
    """All words, or those in which, or in whose meaning, the text is that is asked for."""
    text = request.GET.get("q", "").strip()
    terms = [term for term in TERMS if text.lower() in f"{term.word} {term.meaning}".lower()]
    firsts = {term.word[0].upper(): term.slug for term in reversed(terms)}
    return {"text": text, "terms": terms, "letters": sorted(firsts.items())}


def moved(to: str, *, part: str = "") -> View:
    """A former or likely address of the page of that name, or a part of it: it leads on, with all
    that it asks for.
    """

    @require_GET
    @login_required
    def lead(request: HttpRequest) -> HttpResponse:
        asked = f"{reverse(to)}?{request.GET.urlencode()}".removesuffix("?")
        return redirect(f"{asked}#{part}" if part else asked)

    return lead


@require_GET
def favicon(_: HttpRequest) -> HttpResponse:
    """Where programs ask that read no page: the icon that pages name."""
    return redirect(static("img/favicon.svg"))


@require_POST
@login_required
def theme(request: HttpRequest) -> HttpResponse:
    """The other theme, kept in a cookie; without JavaScript light is what is switched from
    first.
    """
    back = request.headers.get("Referer", "")
    response = redirect(
        back if url_has_allowed_host_and_scheme(back, {request.get_host()}) else "home"
    )
    chosen = "light" if request.COOKIES.get("theme") == "dark" else "dark"
    response.set_cookie("theme", chosen, max_age=THEME_MAX_AGE_S, samesite="Lax")
    return response
