"""What needs somebody before any dollar does: silent agents, broken GPUs, channels that reach
nobody, incidents, backlog. Each count is that of the list behind it.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.urls import reverse

from fleetwatch.alerts.incidents import incident_inbox
from fleetwatch.alerts.incidents.incident_rows import critical_first, incident_rows
from fleetwatch.alerts.selectors import visible_incidents
from fleetwatch.dashboard.agent_lines import silent_agents
from fleetwatch.dashboard.showing import Context
from fleetwatch.ledger.broken_gpus import broken_gpus
from fleetwatch.ledger.check import first_waiting_hour, waiting_hours
from fleetwatch.ledger.state_days import SETTLED
from fleetwatch.lib.intervals import floor_hour, from_ms
from fleetwatch.notify.selectors import channels

FIRST = from_ms(0)
FIRING = "Firing incidents"
MAX_FIRING = 100  # looked at for what belongs together
SHOWN_ROWS = 6


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
    none_level: str = "good"  # of none

    @property
    def colour(self) -> str:
        return self.level if self.count else self.none_level


def fleet_health(now: datetime) -> list[HealthCard]:
    """Of the whole fleet, what to look at first."""
    status = reverse("status")
    firing = incident_inbox.counts(visible_incidents(), now)["firing"]
    broken = len(broken_gpus())
    return [
        HealthCard(
            "Silent agents", silent_agents(now), "all report", f"{reverse('agents')}?health=silent"
        ),
        HealthCard("Broken GPUs", broken, "all work", f"{status}#broken" if broken else ""),
        HealthCard(FIRING, firing, "none", f"{reverse('alerts')}?state=firing", "warn"),
        _channels_card(status),
        HealthCard("Overdue hours", overdue_hours(now), "none", f"{status}#waiting", "warn"),
    ]


def needs_somebody(now: datetime) -> Context:
    """What is broken, silent or behind, and the incidents that fire, critical ones first, each by
    what they burn an hour; how many of them there are, and are not shown.
    """
    firing = visible_incidents().filter(incident_inbox.in_state("firing", now))
    dearest = incident_inbox.page_of_incidents(firing, sort="critical", after="", size=MAX_FIRING)
    rows = critical_first(incident_rows(dearest.lines))[:SHOWN_ROWS]
    health = fleet_health(now)
    count = next(card.count for card in health if card.label == FIRING)
    return {
        "health": health,
        "incidents": rows,
        "firing_count": count,
        "firing_left": max(0, count - sum(len(row.lines) for row in rows)),
    }


def _channels_card(status: str) -> HealthCard:
    """Of the channels by which nobody is reached; where none sends anything, the way to have one
    that does.
    """
    every = channels()
    failing = sum(each.is_failing for each in every)
    if failing:
        return HealthCard("Failing channels", failing, "", f"{status}#channels")
    if any(each.sends for each in every):
        return HealthCard("Failing channels", 0, "none", "")
    missing = f"0 of {len(every)} send" if every else "none set up"
    return HealthCard("Channels", 0, missing, reverse("settings_channels"), none_level="warn")


def overdue_hours(now: datetime) -> int:
    """Hours of nodes that have been over for a while and are in no figure, or not as they came
    last.
    """
    return waiting_hours(FIRST, floor_hour(now - SETTLED))


def overdue_since(now: datetime) -> datetime | None:
    """Since when the oldest of them is over; None where there is none."""
    first = first_waiting_hour(floor_hour(now - SETTLED))
    return None if first is None else first + timedelta(hours=1)
