"""People: who has an account and what each may do, how others come in, and what was done."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib import messages
from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts import people as writes
from fleetwatch.accounts.log_in.second_factor import (
    drop_factors,
    factors,
    has_factor,
)
from fleetwatch.accounts.models import ApiToken, Identity, Invitation, Membership, Team, User
from fleetwatch.accounts.names.holders import OF_JOBS
from fleetwatch.accounts.permissions import Right, needs
from fleetwatch.accounts.selectors import organisation, team_choices
from fleetwatch.accounts.visibility import LIMITED
from fleetwatch.dashboard.accountless import DAYS, accountless
from fleetwatch.dashboard.forms.asked import Asked, Done, read_form
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import read_period
from fleetwatch.dashboard.persons_time import totals_of
from fleetwatch.dashboard.showing import Context, page
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.message import Message
from fleetwatch.notify.services import mail

MAX_SHOWN = 500


@require_GET
@needs(Right.PEOPLE)
@never_cache
@takes("q")
def people(request: HttpRequest) -> HttpResponse:
    """`?q=` narrows them by user name, e-mail address or name in another system."""
    return _people(request)


@require_POST
@needs(Right.PEOPLE)
@never_cache
def invite(request: HttpRequest) -> HttpResponse:
    """A link that makes one account: shown once, and sent where there is an address."""
    asked = read_form(request)
    try:
        done = _invite(asked)
    except RefusedFieldError as error:
        return _people(request, action="invite", errors={error.field: str(error)})
    return _people(request, done=done)


@require_POST
@needs(Right.PEOPLE)
@never_cache
def withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    invitation = get_object_or_404(Invitation, pk=pk, accepted_by=None, revoked_at=None)
    writes.withdraw(invitation, now=read_form(request).now)
    messages.success(request, "The invitation was withdrawn: its link no longer works.")
    return redirect("people")


@require_POST
@needs(Right.PEOPLE)
@never_cache
def belongs(request: HttpRequest) -> HttpResponse:
    """A user of jobs belongs to the account that the form names."""
    asked = read_form(request)
    try:
        done = _give_name(_account(asked), asked)
    except RefusedFieldError as error:
        return _people(request, action="belongs", errors={error.field: str(error)})
    messages.success(request, done.text)
    return redirect("people")


@require_GET
@needs(Right.PEOPLE)
@never_cache
@takes()
def person(request: HttpRequest, pk: int) -> HttpResponse:
    return _person(request, get_object_or_404(User, pk=pk))


@require_POST
@needs(Right.PEOPLE)
@never_cache
def change_person(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    """One change of a person."""
    if action not in _CHANGES:
        raise Http404(action)
    user = get_object_or_404(User, pk=pk)
    try:
        done = _CHANGES[action](user, read_form(request))
    except RefusedFieldError as error:
        return _person(request, user, action=action, errors={error.field: str(error)})
    if done.secret:
        return _person(request, user, done=done)
    messages.success(request, done.text)
    return redirect("person", pk)


def _people(request: HttpRequest, **outcome: object) -> HttpResponse:
    period = read_period(request)
    text = request.GET.get("q", "").strip()
    every = _found(text)
    context: Context = {
        "people": every[:MAX_SHOWN],
        "left_off": max(0, every.count() - MAX_SHOWN),
        "text": text,
        "needs_factor": organisation().needs_second_factor,
        **_claims(),
        "accountless": accountless(period.now, text=text)[:MAX_SHOWN],
        "days": DAYS,
        "invitations": Invitation.objects.filter(
            accepted_by=None, revoked_at=None, expires_at__gt=period.now
        )
        .select_related("team", "by")
        .order_by("-created_at")[:MAX_SHOWN],
        "teams": team_choices(),
        "roles": User.Role.choices,
        "action": "",
        "errors": {},
        "sent": request.POST,
        **outcome,
    }
    return page(request, period, "dashboard/people.html", "people", context)


def _claims() -> Context:
    """Names that wait for an admin, the newest first: who claims much hides nobody who comes
    later.
    """
    waiting = _with_takers(Identity.objects.filter(confirmed_at=None, user__is_active=True))
    claims = list(waiting.select_related("user").order_by("-created_at", "-pk")[: MAX_SHOWN + 1])
    return {"claims": claims[:MAX_SHOWN], "has_older_claims": len(claims) > MAX_SHOWN}


def _with_takers(names: QuerySet[Identity]) -> QuerySet[Identity]:
    """The names, each with the user name of who else has it (`taken_by`; None: nobody)."""
    same = {field: OuterRef(field) for field in ("system", "cluster", "name")}
    standing = Identity.objects.filter(**same, confirmed_at__isnull=False)
    others = standing.exclude(user=OuterRef("user")).values("user__username")
    return names.annotate(taken_by=Subquery(others[:1]))


def _found(text: str) -> QuerySet[User]:
    """Everybody whom the text is in, with teams and names; "" is everybody. `lacks_name`: an
    engineer or a lead whose no job is.
    """
    narrowed = Q(username__icontains=text) | Q(email__icontains=text)
    named = Q(pk__in=Identity.objects.filter(name__icontains=text).values("user"))
    of_jobs = Identity.objects.filter(
        user=OuterRef("pk"), system__in=OF_JOBS, confirmed_at__isnull=False
    )
    return (
        User.objects.filter(narrowed | named if text else Q())
        .annotate(
            lacks_name=Q(role__in=LIMITED) & ~Exists(of_jobs),
            has_factor=Exists(factors(OuterRef("pk"))),
        )
        .prefetch_related(_current_teams(), "identities")
        .order_by("-is_active", "username")
    )


def _current_teams() -> "Prefetch[str]":
    current = Membership.objects.filter(valid_until=None).select_related("team")
    return Prefetch("memberships", current.order_by("team__slug"))


def _person(request: HttpRequest, user: User, **outcome: object) -> HttpResponse:
    period = read_period(request)
    current = set(user.memberships.filter(valid_until=None).values_list("team__slug", flat=True))
    names = _with_takers(user.identities.order_by("system", "cluster", "name"))
    context: Context = {
        "person": user,
        **_week(names, period.now),
        "memberships": user.memberships.select_related("team").order_by("-valid_from"),
        "names": names,
        "systems": Identity.System.choices,
        "tokens": ApiToken.objects.filter(user=user, revoked_at=None).order_by("-created_at"),
        "has_factor": has_factor(user),
        "teams": [each for each in team_choices() if each[0] not in current],
        "of_jobs": OF_JOBS,
        "roles": User.Role.choices,
        "action": "",
        "errors": {},
        "sent": request.POST,
        **outcome,
    }
    return page(request, period, "dashboard/person.html", "people", context)


def _week(names: Iterable[Identity], now: datetime) -> Context:
    """What jobs under the names that stand cost lately; no totals without one."""
    of_jobs = [each for each in names if each.system in OF_JOBS and each.confirmed_at]
    week = Interval(now - timedelta(days=DAYS), now)
    return {"totals": totals_of(of_jobs, week), "days": DAYS}


def _account(asked: Asked) -> User:
    """Whom the form names. Raises RefusedFieldError."""
    username = asked.text("account")
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise RefusedFieldError(f"There is no account “{username}”.", field="account")
    return user


def _team(asked: Asked) -> Team | None:
    """The team that the form names; None for none. Raises RefusedFieldError."""
    slug = asked.text("team")
    team = Team.objects.filter(slug=slug).first()
    if slug and team is None:
        raise RefusedFieldError("There is no such team: choose one of the list.", field="team")
    return team


def _invite(asked: Asked) -> Done:
    address = asked.text("email")
    invited = writes.Invited(asked.text("role"), address, _team(asked))
    text = writes.invite(invited, by=asked.user, now=asked.now)
    link = settings.PUBLIC_URL.rstrip("/") + reverse("invitation", args=[text])
    if not address:
        return Done("An invitation for one person, for seven days. Send this link:", link)
    sent = mail(
        address,
        Message(
            title=f"{asked.by} invites you to FleetWatch",
            summary="FleetWatch shows what your GPU jobs cost and how much of it was wasted.",
            url=link,
            text="The link creates your account, once, within seven days.",
        ),
        now=asked.now,
    )
    if sent.ok:
        return Done(f"The invitation was sent to {address}; its link, if you need it:", link)
    return Done(f"The invitation was not sent ({sent.text}). Send this link yourself:", link)


def _set_role(user: User, asked: Asked) -> Done:
    writes.set_role(user, asked.text("role"))
    return Done(f"{user.username} is {user.get_role_display().lower()} now.")


def _join(user: User, asked: Asked) -> Done:
    team = _team(asked)
    if team is None:
        raise RefusedFieldError("Which team?", field="team")
    writes.join(user, team, since=asked.now)
    return Done(f"{user.username} is in {team.name} from now on.")


def _leave(user: User, asked: Asked) -> Done:
    membership = asked.row(user.memberships.select_related("team"))
    writes.leave(user, membership.team, at=asked.now)
    return Done(f"{user.username} is not in {membership.team.name} any more.")


def _give_name(user: User, asked: Asked) -> Done:
    name = writes.Name(asked.text("system"), asked.text("name"), asked.text("cluster"))
    writes.give_name(user, name, source=Identity.Source.ADMIN, now=asked.now)
    return Done(f"{name.name} is {user.username} from now on.")


def _confirm(user: User, asked: Asked) -> Done:
    identity = asked.row(user.identities.all())
    writes.confirm_name(identity, now=asked.now)
    return Done(f"{identity.name} is {user.username} from now on.")


def _take_name(user: User, asked: Asked) -> Done:
    identity = asked.row(user.identities.all())
    writes.take_name(identity)
    return Done(f"{identity.name} is nobody’s name any more.")


def _deactivate(user: User, asked: Asked) -> Done:
    writes.deactivate(user, now=asked.now)
    return Done(f"{user.username} is out: sessions and tokens ended now. What he did stays.")


def _activate(user: User, _: Asked) -> Done:
    writes.activate(user)
    return Done(f"{user.username} may log in again: by your provider, or with a new password.")


def _sign_out(user: User, asked: Asked) -> Done:
    writes.sign_out(user, now=asked.now)
    return Done(f"Sessions and tokens of {user.username} ended now; the log-in stays.")


def _new_password(user: User, _: Asked) -> Done:
    password = writes.give_password(user)
    return Done(f"The new password of {user.username}, whose sessions ended:", password)


def _drop_factors(user: User, _: Asked) -> Done:
    drop_factors(user)
    return Done(f"The second factors of {user.username} are gone: the password alone lets in.")


_CHANGES: dict[str, Callable[[User, Asked], Done]] = {
    "role": _set_role,
    "join": _join,
    "leave": _leave,
    "name": _give_name,
    "confirm": _confirm,
    "take": _take_name,
    "deactivate": _deactivate,
    "activate": _activate,
    "sign_out": _sign_out,
    "password": _new_password,
    "factors": _drop_factors,
}
