"""A hub with something on every page, and with secrets, for who walks through it."""

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

import time_machine

from fleetwatch.accounts import people
from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import Identity, Team, User
from fleetwatch.accounts.names.name_rule_changes import NewNameRule, set_rule
from fleetwatch.accounts.saved_views import save_view
from fleetwatch.accounts.services import create_api_token, digest
from fleetwatch.actions.models import Action, Policy
from fleetwatch.alerts import back_test_runs, tried_rules
from fleetwatch.alerts.models import BackTestRun, Incident, Preference, Rule, Silence
from fleetwatch.alerts.services import terms_of
from fleetwatch.budgets.models import Budget
from fleetwatch.costs.models import Commitment, ExchangeRate, MappingRule, Region
from fleetwatch.diagnosis.models import Finding
from fleetwatch.finance import trial_runs
from fleetwatch.finance.invoices import import_invoice
from fleetwatch.finance.models import PolicyTrial
from fleetwatch.ingest.tokens import create_agent_token, create_enrollment_token
from fleetwatch.inventory.models import GPU, ElasticRule
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.selectors import newest_policy
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from tests.dashboard import factories, fleet
from tests.dashboard.factories import NOW
from tests.diagnosis import told
from tests.notify.factories import email_channel, slack_channel
from tests.reports.factories import computed, counted

ROLES = ("engineer", "lead", "finance", "operator", "admin")
MONTH = "2026-10"
OTHERS_ADDRESS = "bo-her-own@people.example"
INVITED_ADDRESS = "invited@people.example"
AUDITED = "only-the-audit-log-says-this"
WEBHOOK_SECRET = "an-address-that-is-a-secret"


@dataclass(frozen=True, slots=True)
class World:
    """Who and what there is; `tokens` by kind."""

    users: dict[str, User]
    tokens: dict[str, str]
    finding: Finding
    others: Finding
    silence: Silence
    policy: Policy
    trial: PolicyTrial
    back_test: BackTestRun
    invitation: str
    secrets: tuple[str, ...]


def make(slack_url: str, smtp_port: int) -> World:
    """People of each role, of whom the engineer has a job that wasted, and the lead its team."""
    fleet.make(nodes=1, gpus=2, hours=6)
    users = {role: factories.user(role=role, username=f"walker-{role}") for role in ROLES}
    invitation = _people(users)
    finding, others = _findings()
    Incident.objects.update(snoozed_until=NOW + timedelta(hours=1))  # so that it can be taken back
    _money(smtp_port, slack_url)
    save_view(users["operator"], "Waste", ("/waste", ""), is_shared=True, now=NOW)
    tokens = _tokens(users)
    with time_machine.travel(NOW - timedelta(hours=1), tick=False):
        record("rate.set", AUDITED)
    hashes = User.objects.exclude(password="").values_list("password", flat=True)
    return World(
        users,
        tokens,
        finding,
        others,
        _silence(),
        _policy(users["lead"]),
        _trial(),
        _back_test(),
        invitation,
        (WEBHOOK_SECRET, invitation, *tokens.values(), *hashes),
    )


def _trial() -> PolicyTrial:
    hour = Interval(NOW - timedelta(hours=1), NOW)
    return trial_runs.ask(newest_policy(), {"idle_batch_s": 300.0}, hour, by="fiona", now=NOW)


def _back_test() -> BackTestRun:
    rule = Rule.objects.get(condition="gpu_idle")
    terms = terms_of(rule)
    tried = tried_rules.asked_of(
        rule,
        (terms.settings, terms.scope),
        None,
        days=30,
        address="/alerts/rules",
    )
    return back_test_runs.ask(tried, by="fiona", now=NOW)


def _people(users: dict[str, User]) -> str:
    """The secret of an invitation; everybody has a claim that waits. The lead gets no digest, so
    that a stranger with a link that stops it changes nothing.
    """
    Preference.objects.create(user=users["lead"], gets_digest=False)
    people.give_name(
        users["engineer"], people.Name("unix", "ann"), source=Identity.Source.ADMIN, now=NOW
    )
    team = Team.objects.get(slug="nlp-research")
    people.join(users["lead"], team, since=NOW - timedelta(days=9))
    bo = people.create_person(people.NewPerson("bo", OTHERS_ADDRESS, team=team), now=NOW)
    for user in (*users.values(), bo):
        people.give_name(
            user, people.Name("slack", f"U-{user.username}"), source=Identity.Source.CLAIM, now=NOW
        )
    set_rule(NewNameRule("email", "walkers.example"), now=NOW)
    return people.invite(people.Invited("admin", INVITED_ADDRESS), by=users["admin"], now=NOW)


def _findings() -> tuple[Finding, Finding]:
    """One about the engineer's job, one about a node."""
    gpu = GPU.objects.get(uuid="GPU-node-001-0")
    job = Job.objects.get(key="slurm/della/1000")
    start = NOW - timedelta(hours=2)
    told.cause(of=job, on=gpu, start=start)
    span = {"first_ms": to_ms(start), "last_ms": to_ms(start) + HOUR_MS}
    told.capacity("orphaned", on=gpu, start=start)
    return told.finding(job, **span), told.place("orphaned", node=gpu.node, **span)


def _silence() -> Silence:
    """Of a node, by nobody who is still there."""
    return Silence.objects.create(
        matchers=[{"label": "node", "values": ["node-001"], "is_not": False}],
        starts_at=NOW - timedelta(hours=1),
        ends_at=NOW + timedelta(days=1),
        reason="moved to another rack",
        created_at=NOW,
    )


def _policy(lead: User) -> Policy:
    """Switched off, with a ladder that is over, and one about the job's next run that waits for
    who was warned.
    """
    Policy.objects.create(
        rule=Rule.objects.get(condition="gpu_fault"), kind="drain_node", job_kinds=[],
        first_wait_minutes=60, second_wait_minutes=60, max_per_hour=1,
        max_usd_per_hour=Decimal(50), created_at=NOW,
    )  # fmt: skip
    rule = Rule.objects.get(condition="job_idle")
    policy = Policy.objects.create(
        rule=rule, kind="stop_job", job_kinds=[], first_wait_minutes=60, second_wait_minutes=60,
        max_per_hour=1, max_usd_per_hour=Decimal(50), created_at=NOW,
    )  # fmt: skip
    for restarts, state, ended_at in ((0, "ended", NOW), (1, "warned", None)):
        Action.objects.create(
            policy=policy, kind="stop_job", is_dry_run=False, state=state,
            subject="slurm/della/1000", restarts=restarts, person=lead, gpus=1, usd_per_hour=Decimal(2),
            began_at=NOW - timedelta(hours=1), ended_at=ended_at,
        )  # fmt: skip
    return policy


def _money(smtp_port: int, slack_url: str) -> None:
    """A row of everything that finance and operators keep."""
    model, since = factories.gpu_model(), NOW - timedelta(days=60)
    team = Team.objects.get(slug="nlp-research")
    slack_channel(f"{slack_url}/{WEBHOOK_SECRET}")
    email_channel(smtp_port)
    Commitment.objects.create(
        name="reserved", gpu_model=model, gpus=1, price_per_gpu_hour=Decimal(1),
        valid_from=since, valid_to=NOW + timedelta(days=60), created_at=since,
    )  # fmt: skip
    ExchangeRate.objects.create(
        currency="EUR", usd_per_unit=Decimal("1.1"), valid_from=since, created_at=since
    )
    Region.objects.create(name="eu", valid_from=since, pue=Decimal("1.2"))
    MappingRule.objects.create(user="ann", team=team, valid_from=since, created_at=since)
    ElasticRule.objects.create(kind="name", pattern="spot-*")
    Budget.objects.create(team=team, month=date(2026, 11, 1), amount=Decimal(100), created_at=NOW)
    counted(GPU.objects.get(uuid="GPU-node-001-0"))
    computed(MONTH)
    import_invoice(b"gpu_model,gpu_hours,amount\nH100 SXM,4,18\n", MONTH, now=NOW)


def _tokens(users: dict[str, User]) -> dict[str, str]:
    """A token of each kind; those of people were used a moment ago."""
    month = timedelta(days=30)
    tokens = {
        f"{role} {scope}": create_api_token(user, scope=scope, now=NOW)
        for role, user in users.items()
        for scope in ("read", "write")
    }
    admin = users["admin"]
    tokens["admin as engineer"] = create_api_token(admin, scope="write", role="engineer", now=NOW)
    tokens["expired"] = create_api_token(admin, scope="write", now=NOW - month, expires_at=NOW)
    tokens["revoked"] = create_api_token(admin, scope="write", now=NOW)
    admin.api_tokens.filter(digest=digest(tokens["revoked"])).update(revoked_at=NOW)
    tokens["agent"] = create_agent_token("node-001", NOW)
    tokens["enrolment"] = create_enrollment_token(NOW, uses=9, ttl=month)
    for user in users.values():
        user.api_tokens.update(last_used_at=NOW)
    return tokens
