"""Jobs and their users by what they are called, as far as the reader sees them."""

from collections.abc import Collection

from django.db.models import Case, F, Q, QuerySet, Subquery, When
from django.db.models.functions import Coalesce, Collate
from django.db.models.lookups import IContains, IExact

from fleetwatch.accounts.visibility import sight
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.outcomes import RUNNING
from fleetwatch.jobs.visible_jobs import visible
from fleetwatch.lib.sql import execute, read_statement

# whose names are read: who types waits for no seconds, and the jobs page has all
NEWEST = 50_000
_RUNNING_FIRST = (
    Case(When(state=RUNNING, end_ms=None, then=0), default=1),
    F("start_ms").desc(nulls_last=True),
    "key",
)
_USERS_CALLED = read_statement("jobs/sql/users_called.sql")


def jobs_called(text: str, *, limit: int, first: Collection[str] = ()) -> list[Job]:
    """The job with that key, and of the newest those in whose key or name each word of the text is,
    or whose user a word is; those of the users `first` before others, those that run first, then
    the newest, with their teams.
    """
    in_order = (Case(When(user__in=first, then=0), default=1), *_RUNNING_FIRST)
    wanted = Q()
    for word in text.split():
        wanted &= called(word)
    several = (Job.objects.filter(key=text), _newest().filter(wanted))
    jobs = [
        job
        for rows in several
        for job in visible(rows).select_related("team").order_by(*in_order)[:limit]
    ]
    return list({job.pk: job for job in jobs}.values())[:limit]


def called(word: str) -> Q:
    """Jobs in whose key or name the word is, or whose user it is."""
    if not word.isascii():
        return Q(key__icontains=word) | Q(name__icontains=word) | Q(user__iexact=word)
    # by bytes, in half the time: no letter but its own becomes one of such a word
    key, name, user = (Collate(F(column), "C") for column in ("key", "name", "user"))
    return Q(IContains(key, word)) | Q(IContains(name, word)) | Q(IExact(user, word))


def jobs_of_users(users: Collection[str], *, limit: int) -> list[Job]:
    """The newest of these users', those that run first, with their teams."""
    if not users:
        return []
    rows = visible(_newest().filter(user__in=users)).select_related("team")
    return list(rows.order_by(*_RUNNING_FIRST)[:limit])


def users_called(text: str, *, limit: int) -> list[str]:
    """Users of jobs whose name has the text in it; to who does not see everything those of the
    newest jobs alone.
    """
    if sight() is None:
        return [name for (name,) in execute(_USERS_CALLED, {"text": text, "size": limit})]
    users = visible(_newest().filter(user__icontains=text)).exclude(user="").order_by("user")
    return list(users.values_list("user", flat=True).distinct()[:limit])


def _newest() -> QuerySet[Job]:
    """By when they began, and those that did not yet: asked by its id in a list, each of all jobs
    would be read.
    """
    began = Job.objects.exclude(start_ms=None).order_by("-start_ms").values("start_ms")
    since_ms = Coalesce(Subquery(began[NEWEST - 1 : NEWEST]), 0)
    return Job.objects.filter(Q(start_ms=None) | Q(start_ms__gte=since_ms))
