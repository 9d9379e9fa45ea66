"""The hub's clockwork at the story's word: `python -m tests.day.hands`, in the hub's environment. A
line of JSON in (what to do, and with what), a line of JSON out.

Its `work` is what beat asks of the workers, in the order in which a number travels.
"""

import json
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import django

django.setup()  # models want it first

# isort: split
from django.utils import timezone  # noqa: E402

from fleetwatch.accounts.models import Identity, Team, User  # noqa: E402
from fleetwatch.accounts.people import Name, give_name  # noqa: E402
from fleetwatch.alerts.models import Route, Rule  # noqa: E402
from fleetwatch.alerts.tasks import evaluate  # noqa: E402
from fleetwatch.budgets.selectors import lines as budget_lines  # noqa: E402
from fleetwatch.budgets.tasks import refresh as refresh_budgets  # noqa: E402
from fleetwatch.costs.tasks import attribute_changed, ensure_example_rates, sum_recent_days  # noqa: E402
from fleetwatch.diagnosis.tasks import diagnose  # noqa: E402
from fleetwatch.ingest.tasks import bill_silent  # noqa: E402
from fleetwatch.ingest.tokens import create_agent_token  # noqa: E402
from fleetwatch.ledger.tasks import post, refresh_state_days  # noqa: E402
from fleetwatch.notify.services import create_channel  # noqa: E402
from fleetwatch.notify.tasks import deliver_due  # noqa: E402
from fleetwatch.operations.models import Heartbeat  # noqa: E402
from fleetwatch.operations.tasks import beat_worker  # noqa: E402
from fleetwatch.reports.tasks import weekly_digest  # noqa: E402

WORK = (
    beat_worker,
    ensure_example_rates,
    attribute_changed,
    bill_silent,
    post,
    refresh_state_days,
    sum_recent_days,
    diagnose,
    refresh_budgets,
    weekly_digest,
    evaluate,
    deliver_due,
)
LISTENS_SINCE = timedelta(days=1)


def work() -> None:
    """One turn of the clockwork, now."""
    _note_open_door(timezone.now())
    for task in WORK:
        task()


def _note_open_door(now: datetime) -> None:
    """The web process notes each 10 s of its own time that it takes batches; of the time that the
    story skips the notes are written here.
    """
    fields = {"at": now, "since": now - LISTENS_SINCE}
    Heartbeat.objects.update_or_create(name="door", defaults=fields)


def token(node: str) -> str:
    """The node's, for its agent."""
    return create_agent_token(node, timezone.now())


def channel(kind: str, name: str, config: dict[str, str], gets_digest: bool = False) -> int:
    """Its id."""
    now = timezone.now()
    return int(create_channel(kind, name, config, now=now, gets_digest=gets_digest).pk)


def route(kind: str, channels: list[int], team: str = "") -> None:
    """Where a team's incidents go, or the operators'."""
    of = Team.objects.get(slug=team) if team else None
    Route.objects.create(kind=kind, team=of).channels.set(channels)


def slack_name(user: str, member: str) -> None:
    """The person is that Slack member, as an admin says."""
    person = User.objects.get(username=user)
    name = Name("slack", member)
    give_name(person, name, source=Identity.Source.ADMIN, now=timezone.now())


def rule(condition: str, channels: list[int] | None = None, **fields: Any) -> int:
    """Sets the rule that ships with the condition; its id."""
    [row] = Rule.objects.filter(condition=condition)
    for name, value in fields.items():
        setattr(row, name, value)
    row.save()
    if channels is not None:
        row.channels.set(channels)
    return int(row.pk)


def spent(team: str) -> float:
    """Dollars of the running month so far."""
    [line] = [each for each in budget_lines(timezone.now()) if each.key == team]
    return float(line.spent_usd)


DOES: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (work, token, channel, route, slack_name, rule, spent)
}


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        answer = DOES[asked.pop("do")](**asked)
        sys.stdout.write(json.dumps({"answer": answer}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
