"""A policy that may act, a job that idles from nine on, and people who hear of it."""

from datetime import datetime, timedelta
from decimal import Decimal

from fleetwatch.accounts.models import User
from fleetwatch.actions.models import Policy
from fleetwatch.actions.taking_steps import advance
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.notify.models import Delivery
from fleetwatch.telemetry.models import HealthEvent
from tests.alerts import people
from tests.alerts.factories import NINE, a_rule, at, longer, ms
from tests.costs.factories import a_rate

WAIT = 60  # minutes after each warning
RULE_MINUTES = 30


def a_policy(rule=None, **fields) -> Policy:
    """On, past its week of dry run, for team nlp's batch jobs."""
    usual = {
        "kind": "stop_job",
        "is_enabled": True,
        "job_kinds": ["batch", "interactive"],
        "first_wait_minutes": WAIT,
        "second_wait_minutes": WAIT,
        "max_per_hour": 5,
        "max_usd_per_hour": Decimal(100),
        "rehearsed_from": NINE - timedelta(days=30),
        "dry_run_until": NINE - timedelta(days=1),
        "created_at": NINE - timedelta(days=30),
    }
    teams = fields.pop("teams", [people.team("nlp")])
    policy = Policy.objects.create(rule=rule or a_rule(), **(usual | fields))
    policy.teams.set(teams)
    return policy


def an_idle_job(**fields):
    """The run of ana's job, told by Slack, at $2 an hour."""
    people.app()
    people.person()
    run = people.idle_job(**({"external_id": "1"} | fields))
    a_rate("2", gpu=run.gpu)
    return run


def an_operator(username: str = "ops") -> User:
    return User.objects.create(username=username, role=User.Role.OPERATOR)


def goes_on(run, minutes: float, *, is_delivered: bool = True) -> dict[str, int]:
    """The job idles up to that minute; what actions did then."""
    longer(run, minutes)
    announcing.run(at(minutes))
    did = advance(at(minutes))
    if is_delivered:
        deliver(at(minutes))
    return did


def deliver(now: datetime) -> None:
    """What waits arrives at that moment."""
    waiting = Delivery.objects.filter(state=Delivery.State.PENDING)
    waiting.update(state=Delivery.State.SENT, sent_at=now, attempts=1)


def answer(node, key: str, text: str, minutes: float) -> None:
    """The agent says so, as an event of its node."""
    HealthEvent.objects.create(
        node=node, at_ms=ms(minutes), kind="action_result", text=f"{key} {text}"
    )


def the_incident() -> Incident:
    return Incident.objects.get()
