"""What needs somebody before any dollar does: silent agents, broken GPUs, channels that reach
nobody, incidents, backlog. Each count is that of the list behind it.
"""

from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from fleetwatch.alerts.incidents import incident_inbox
from fleetwatch.alerts.selectors import visible_incidents
from fleetwatch.dashboard.agent_lines import silent_agents
from fleetwatch.ledger.broken_gpus import broken_gpus
from fleetwatch.ledger.check import waiting_hours
from fleetwatch.ledger.state_days import SETTLED
from fleetwatch.lib.intervals import floor_hour, from_ms
from fleetwatch.notify.selectors import failing_channels

FIRST = from_ms(0)
FIRING = "Firing incidents"


@dataclass(frozen=True, slots=True)
class HealthCard:
    """How many there are of what should be none, the address of the list of them ("" where there is
    no list of none), and how bad that is: "bad" or "warn".
    """

    label: str
    count: int
    if_none: str
    address: str
    level: str = "bad"

    @property
    def colour(self) -> str:
        return self.level if self.count else "good"


def fleet_health(now: datetime) -> list[HealthCard]:
    """Of the whole fleet, what to look at first."""
    status = reverse("status")
    firing = incident_inbox.counts(visible_incidents(), now)["firing"]
    broken = len(broken_gpus())
    failing = len(failing_channels())
    return [
        HealthCard(
            "Silent agents", silent_agents(now), "all report", f"{reverse('agents')}?health=silent"
        ),
        HealthCard("Broken GPUs", broken, "all work", f"{status}#broken" if broken else ""),
        HealthCard(FIRING, firing, "none", f"{reverse('alerts')}?state=firing", "warn"),
        HealthCard("Failing channels", failing, "none", f"{status}#channels" if failing else ""),
        HealthCard("Overdue hours", overdue_hours(now), "none", f"{status}#waiting", "warn"),
    ]


def overdue_hours(now: datetime) -> int:
    """Hours of nodes that have been over for a while and are in no figure, or not as they came
    last.
    """
    return waiting_hours(FIRST, floor_hour(now - SETTLED))
