"""What the people of a demo hub have set up: projects, channels and routes that reach nobody, saved
views, a maintenance window, an exemption, a token, and who gets a team's statement.

By the same functions as on the pages. The audit log remembers what was set up once: what a visitor
changed or removed stays so.
"""

from collections.abc import Callable
from datetime import datetime, time, timedelta

from django.db import transaction

from fleetwatch.accounts.models import AuditEntry, Team, User
from fleetwatch.accounts.saved_views import save_view
from fleetwatch.accounts.selectors import zone
from fleetwatch.accounts.services import create_api_token, set_organisation
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.messaging.team_routes import set_route
from fleetwatch.alerts.models import Route, Silence
from fleetwatch.alerts.silences import SilenceTerms, add_silence
from fleetwatch.costs.mapping.mappings import add_rule
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, Terms
from fleetwatch.demo.cast import acting_as
from fleetwatch.demo.fleet import CLUSTER, DAYS, nodes
from fleetwatch.figures import boundaries
from fleetwatch.notify.models import Channel
from fleetwatch.notify.services import create_channel
from fleetwatch.notify.transports.delivery_log import DELIVERY_LOG
from fleetwatch.reports.statement_sending import add_recipient

NAME = "Aurora Labs"
# account of the scheduler, project, cost centre; of the others nobody said any
PROJECTS = (
    ("nlp", "Language models", "CC-410"),
    ("vision", "Perception", "CC-420"),
    ("speech", "Perception", "CC-420"),
    ("serving", "Search", "CC-510"),
)
ON_CALL = "Platform on call"
TEAM = "nlp"  # whose lead is one of the cast
SATURDAY = 5
FROM_HOUR = 6
LASTS = timedelta(hours=4)
EXEMPT_FOR = timedelta(days=90)
People = dict[str, User]


def set_up(now: datetime) -> list[str]:
    """The actions of the audit log that stand for what was set up now. Nothing where one of the
    cast is gone.
    """
    people = {user.username: user for user in User.objects.filter(is_active=True)}
    if not people.keys() >= {"admin", "amara", "fiona", "otto"}:
        return []
    done = set(AuditEntry.objects.filter(action__in=PARTS).values_list("action", flat=True))
    missing = [action for action in PARTS if action not in done]
    for action in missing:
        with transaction.atomic():
            PARTS[action](people, now)
    return missing


def _organisation(_: People, __: datetime) -> None:
    set_organisation(name=NAME, time_zone=zone())


def _mappings(people: People, now: datetime) -> None:
    """Which project and cost centre an account of the scheduler works for."""
    since = boundaries.midnight(now, zone(), days=-DAYS - 1)
    with acting_as(people["fiona"]):
        for account, project, cost_centre in PROJECTS:
            terms = Terms(
                Conditions(account=account),
                Gives(project=project, cost_centre=cost_centre),
                valid_from=since,
            )
            add_rule(terms, now=now, by="fiona")


def _tokens(people: People, now: datetime) -> None:
    """One whose secret nobody knows."""
    with acting_as(people["otto"]):
        create_api_token(people["otto"], scope="read", now=now, name="Grafana, fleet board")


def _channels(people: People, now: datetime) -> None:
    """The delivery log in place of a chat: nothing of a demo leaves the hub."""
    team, _ = Team.objects.get_or_create(slug=TEAM)
    with acting_as(people["otto"]):
        on_call = create_channel(DELIVERY_LOG.kind, ON_CALL, {}, now=now, gets_digest=True)
        of_team = create_channel(DELIVERY_LOG.kind, f"Team {TEAM}", {}, now=now)
        for kind in (Route.Kind.OPERATORS, Route.Kind.UNOWNED):
            set_route(kind, [on_call], by=people["otto"], now=now)
    with acting_as(people["amara"]):
        set_route(Route.Kind.TEAM, [of_team], by=people["amara"], now=now, team=team)


def _statements(people: People, now: datetime) -> None:
    """What a team's month cost goes to its channel by itself once the month is over."""
    channel = Channel.objects.filter(name=f"Team {TEAM}").first()
    team = Team.objects.filter(slug=TEAM).first()
    if channel is not None and team is not None:
        with acting_as(people["fiona"]):
            add_recipient(team, channel, "", now=now, by="fiona")


def _views(people: People, now: datetime) -> None:
    month = ("/costs", "group_by=team&range=MTD")
    with acting_as(people["fiona"]):
        save_view(people["fiona"], "Month to date by team", month, is_shared=True, now=now)
    users = ("/costs", f"team={TEAM}&group_by=user&range=7d")
    with acting_as(people["amara"]):
        save_view(people["amara"], "NLP by person, this week", users, is_shared=True, now=now)
    idle = ("/waste", "state=idle&group_by=node&range=24h")
    with acting_as(people["admin"]):
        save_view(
            people["admin"], "Idle in the last 24 hours, by node", idle, is_shared=False, now=now
        )


def _silences(people: People, now: datetime) -> None:
    days = (SATURDAY - now.weekday()) % 7 or 7
    saturday = datetime.combine(
        now.date() + timedelta(days=days), time(FROM_HOUR), tzinfo=now.tzinfo
    )
    window = SilenceTerms(
        kind=Silence.Kind.MAINTENANCE,
        matchers=(Matcher("node", (nodes()[-1].name,)), Matcher("cluster", (CLUSTER,))),
        starts_at=saturday,
        ends_at=saturday + LASTS,
        reason="Firmware of the switch in its rack",
    )
    warm = SilenceTerms(
        kind=Silence.Kind.EXEMPTION,
        matchers=(Matcher("name", ("rerank-api",)), Matcher("team", ("serving",))),
        starts_at=now,
        ends_at=now + EXEMPT_FOR,
        reason="Keeps a warm replica: answers within 50 ms are agreed",
        approved_by=people["otto"],
    )
    for by, terms in ((people["otto"], window), (people["admin"], warm)):
        with acting_as(by):
            add_silence(terms, by=by, now=now)


PARTS: dict[str, Callable[[People, datetime], None]] = {
    "organisation.set": _organisation,
    "mapping.add": _mappings,
    "token.create": _tokens,
    "channel.create": _channels,
    "report.recipient": _statements,
    "view.save": _views,
    "silence.add": _silences,
}
