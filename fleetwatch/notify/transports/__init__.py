"""The ways to reach people: one file per kind, all of them in one tuple."""

from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.transports.alertmanager import ALERTMANAGER
from fleetwatch.notify.transports.base import Transport
from fleetwatch.notify.transports.delivery_log import DELIVERY_LOG
from fleetwatch.notify.transports.email import EMAIL
from fleetwatch.notify.transports.microsoft_teams import TEAMS
from fleetwatch.notify.transports.pagerduty import PAGERDUTY
from fleetwatch.notify.transports.slack import SLACK
from fleetwatch.notify.transports.slack_app import SLACK_APP
from fleetwatch.notify.transports.webhook import WEBHOOK

TRANSPORTS: tuple[Transport, ...] = (
    SLACK_APP,
    SLACK,
    TEAMS,
    EMAIL,
    PAGERDUTY,
    ALERTMANAGER,
    WEBHOOK,
    DELIVERY_LOG,
)


def transport(kind: str) -> Transport:
    """The transport of this kind. Raises RefusedFieldError when there is none."""
    for each in TRANSPORTS:
        if each.kind == kind:
            return each
    raise RefusedFieldError(
        f"{kind!r} is no kind of channel; known: {', '.join(each.kind for each in TRANSPORTS)}"
    )
