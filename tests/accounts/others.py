"""What is another team's in the world, each name of it with a mark, and addresses that name it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from django.http import HttpResponse

from fleetwatch.accounts import people
from fleetwatch.accounts.models import Identity, Organisation, OthersShown, Team, User
from fleetwatch.alerts.incidents.open_names import BY
from fleetwatch.alerts.incidents.open_names import PERSON as PERSON_OPEN
from fleetwatch.alerts.models import (
    Incident,
    IncidentEvent,
    IncidentGroup,
    Notification,
    Route,
    Rule,
    Silence,
)
from fleetwatch.budgets.models import Budget
from fleetwatch.costs.mapping import attribution
from fleetwatch.costs.models import MappingRule
from fleetwatch.dashboard.views.costs import GROUPS as COST_GROUPS
from fleetwatch.dashboard.views.waste import GROUPS
from fleetwatch.diagnosis.models import Finding, Fix
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from fleetwatch.notify.models import Channel
from tests.accounts.walking import Page, Walker, addresses_of, body
from tests.accounts.world import World
from tests.alerts.factories import an_incident
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.diagnosis import told
from tests.notify.factories import slack_channel

TEAM, USER, NAME, PERSON = "zz-team", "zz-user", "zz-name", "zz-person"
OTHERS_KEY = "slurm/della/zz-key"
RULED, COST_CENTRE, INCIDENT = "zz-project", "zz-centre", "zz-incident"
SILENCED, CHANNEL = "zz-silenced", "zz-channel"
FIXED = "zz-fixed"  # a job that only a fix names
OTHERS = (
    TEAM,
    USER,
    NAME,
    PERSON,
    OTHERS_KEY,
    quote(OTHERS_KEY, safe=""),
    RULED,
    COST_CENTRE,
    INCIDENT,
    FIXED,
    SILENCED,
    CHANNEL,
)
REASON = "known and {by} is no name"
SAID_OF_INCIDENT = (
    ("ack", f"acknowledged by {BY}: {REASON}"),
    ("assign", f"given to {PERSON_OPEN} by {BY}"),
    ("resolve", f"resolved by {BY}: {REASON}"),
    ("told_opened", f"{PERSON_OPEN} by E-mail: because it was given to them"),
)
OWN_KEY = "slurm/della/1000"
DAY = Interval(NOW - timedelta(hours=24), NOW)
MACHINE = "node-001"
HOW = {"from", "to", "range", "tz", "sort", "group_by"}
WEEK = "from=now-7d&to=now"  # as links of pages have it: what they lead to is asked once


def shown(choice: str) -> None:
    Organisation.objects.update_or_create(pk=1, defaults={"others_shown": choice})


def make() -> None:
    """Another team's job on the second GPU that wasted too, and idles; of everything that is that
    team's the name has the mark.
    """
    others = factories.job(OTHERS_KEY, name=NAME, user=USER, team=TEAM, external_id="zz-key")
    gpu = GPU.objects.get(uuid="GPU-node-001-1")
    start = NOW - timedelta(hours=20)
    factories.entry(gpu, hours_ago=20, state="idle", gpu_ms=HOUR_MS, held_by=others).save()
    told.cause(of=others, on=gpu, start=start)
    told.finding(others, first_ms=to_ms(start), last_ms=to_ms(start) + HOUR_MS)
    team = others.team
    person = people.create_person(
        people.NewPerson(PERSON, f"{PERSON}@people.example", team=team), now=NOW
    )
    people.give_name(person, people.Name("unix", USER), source=Identity.Source.ADMIN, now=NOW)
    Finding.objects.filter(job=others).update(assignee=person)
    Budget.objects.create(team=team, month=date(2026, 11, 1), amount=Decimal(777), created_at=NOW)
    Incident.objects.update(subject=INCIDENT)
    MappingRule.objects.create(
        user=USER, team=team, project=RULED, cost_centre=COST_CENTRE,
        valid_from=NOW - timedelta(days=60), created_at=NOW,
    )  # fmt: skip
    attribution.attribute([others.pk])
    Fix.objects.create(
        user=USER, job_name=FIXED, gpus=1, cause="idle_held", at=NOW - timedelta(days=1),
        was_noticed=True, outcome="improved", runs_before=5, runs_after=4, saved_low_ms=HOUR_MS,
        saved_high_ms=2 * HOUR_MS,
    )  # fmt: skip
    _of_both(person)
    _not_told(team)
    shown(OthersShown.OWN_TEAMS)


def _of_both(person: User) -> None:
    """Incidents of the reader's team that a person of the other one holds, was given, was told of,
    acknowledged and resolved; and a silence of that team by the same person.
    """
    team, rule = Team.objects.get(slug="nlp-research"), Rule.objects.order_by("pk").first()
    people_of = {"assignee": person, "acknowledged_by": person, "resolved_by": person}
    over = an_incident(
        rule, OWN_KEY, opened_at=NOW - timedelta(hours=9), resolved_at=NOW - timedelta(hours=8),
        team=team, person=person, resolution=f"resolved by {BY}: {REASON}", **people_of,
    )  # fmt: skip
    group = IncidentGroup.objects.create(rule=rule, key="both", opened_at=NOW)
    engineer = User.objects.get(username="walker-engineer")
    going_on = an_incident(
        rule, OWN_KEY, opened_at=NOW - timedelta(hours=1), state="acknowledged", group=group,
        team=team, person=engineer, **people_of,
    )  # fmt: skip
    for incident in (over, going_on):
        for kind, text in SAID_OF_INCIDENT:
            IncidentEvent.objects.create(
                incident=incident, at=NOW, kind=kind, text=text, by=person, person=person
            )
    Notification.objects.create(
        group=group, step=0, kind="opened", person=person, channel=Channel.objects.first(),
        address=person.email, why="because it was given to them", due_at=NOW, created_at=NOW,
    )  # fmt: skip
    Silence.objects.create(
        matchers=[{"label": "team", "values": ["nlp-research"], "is_not": False}],
        starts_at=NOW, ends_at=NOW + timedelta(days=1), reason=REASON, created_at=NOW,
        by=person, approved_by=person,
    )  # fmt: skip


def _not_told(team: Team) -> None:
    """What the other team silenced, and its route."""
    Silence.objects.create(
        matchers=[{"label": "team", "values": [TEAM], "is_not": False}],
        starts_at=NOW - timedelta(hours=1),
        ends_at=NOW + timedelta(days=1),
        reason=SILENCED,
        created_at=NOW,
    )
    route = Route.objects.create(kind="team", team=team)
    route.channels.add(slack_channel("https://slack.example", name=CHANNEL))


def own_actions(role: str, split: World) -> list[str]:
    """What is the walker's of the API's actions: the lead was warned."""
    action = split.policy.actions.get(state="warned")
    return [f"/api/v1/actions/{action.pk}"] if action.person == split.users[role] else []


def others_paths(split: World, others: Job) -> list[str]:
    """Addresses that name what is others', beside those of the table."""
    number = others.findings.get().pk
    return [
        f"/jobs/{OTHERS_KEY}",
        f"/findings/{number}",
        f"/findings?job={OTHERS_KEY}",
        f"/findings?team={TEAM}",
        f"/findings?assignee={PERSON}",
        f"/findings?user={USER}",
        "/findings?status=all&range=30d",
        "/jobs?q=zz",
        f"/jobs?{WEEK}&user={USER}",
        f"/jobs?{WEEK}&team={TEAM}",
        f"/jobs?node={MACHINE}&sort=cost",
        *(f"/waste?{WEEK}&group_by={group_by}" for group_by in GROUPS),
        *(f"/waste.csv?{WEEK}&group_by={group_by}" for group_by in GROUPS),
        *(f"/jobs.csv?{WEEK}", f"/jobs.csv?{WEEK}&user={USER}"),
        *(f"/costs?{WEEK}&group_by={group_by}" for group_by in COST_GROUPS),
        *(f"/costs.csv?{WEEK}&group_by={group_by}" for group_by in COST_GROUPS),
        *(f"/charts/costs?as=csv&group_by={group_by}" for group_by in COST_GROUPS),
        *(f"/waste?range=7d&group_by=job&team={TEAM}", f"/waste.csv?range=7d&user={USER}"),
        "/search?q=zz",
        *(f"/filters?{WEEK}", f"/filters?of=findings&{WEEK}"),
        *("/alerts?state=resolved", "/alerts?state=acknowledged", f"/alerts?person={PERSON}"),
        *("/explain", f"/explain?job={OTHERS_KEY}", "/explain?gpu=GPU-node-001-1"),
        *("/explain.csv", f"/explain.csv?job={OTHERS_KEY}", "/explain.csv?gpu=GPU-node-001-1"),
        f"/explain?gpu=GPU-node-001-1&job={OTHERS_KEY}",
        *(f"/budgets/teams/{TEAM}", f"/charts/budget?team={TEAM}", "/charts/budget"),
        f"/charts/finding?finding={number}",
        *(f"/charts/spend?as=csv&job={OTHERS_KEY}", f"/charts/spend?as=table&team={TEAM}"),
    ]


def shown_of_others(answer: HttpResponse, path: str) -> list[str]:
    """What is others' and stands in the answer, without what it repeats of the address."""
    text = body(answer)
    return [word for word in OTHERS if word in text and unquote(word) not in unquote(path)]


def named_by(path: str) -> str:
    """The address without what only says of when, in which order and by what figures are: what is
    there under one of these is there under each.
    """
    parts = urlsplit(path)
    names = [pair for pair in parse_qsl(parts.query) if pair[0] not in HOW]
    return f"{parts.path}?{urlencode(sorted(names))}"


@dataclass
class Reading:
    """What a reader met at every address, each asked once; `wrong` is what should not be."""

    by: Walker
    answered: dict[str, int] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    wrong: list[tuple[str, str | int]] = field(default_factory=list)

    def open(self, path: str, name: str = "") -> None:
        """The address; its name is empty for one beside the table."""
        answer = self.by.ask("GET", path)
        narrowed = answer.get("Location", "")
        if narrowed.startswith(f"{path}?"):  # to the reader's own part of it
            answer = self.by.ask("GET", narrowed)
        self.answered[path] = answer.status_code
        if answer.status_code >= 500 and name != "readyz":
            self.wrong.append((path, answer.status_code))
        if answer.status_code != 200:
            return
        self.opened.add(name)
        self.wrong += [(path, word) for word in shown_of_others(answer, path)]
        if not path.startswith("/accounts/"):
            self.links |= {link.partition("#")[0] for link in Page(body(answer)).links}

    def closed(self) -> list[str]:
        """The links that lead to what there is not; what was opened is not asked again."""
        of_pages = {link for link in self.links if link.startswith("/") and "/static/" not in link}
        answered = {named_by(path): status for path, status in self.answered.items()}
        for link in sorted(of_pages):
            if named_by(link) not in answered:
                answered[named_by(link)] = self.by.ask("GET", link).status_code
        return sorted(link for link in of_pages if answered[named_by(link)] == 404)

    @property
    def pages(self) -> set[str]:
        """The names of what was opened, but for what is about everybody's own log-in."""
        of_logins = ("account", "mfa", "social", "openid")
        return {name for name in self.opened if not name.startswith(of_logins)}


def read_everything(by: Walker, split: World, beside: Iterable[str]) -> Reading:
    """Every address of the table, and those beside it."""
    reading = Reading(by)
    for address in addresses_of(split):
        reading.open(address.path, address.name)
    for path in beside:
        reading.open(path)
    return reading
