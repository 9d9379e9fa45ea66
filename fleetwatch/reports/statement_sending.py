"""Statements on their way: to whom a team's goes when a month is over, by itself and on request;
and who approved which version.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from urllib.parse import quote

from django.conf import settings
from django.db import IntegrityError, transaction

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import Team
from fleetwatch.accounts.selectors import zone
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.refusal import RefusedFieldError, check_text
from fleetwatch.notify.message import Message
from fleetwatch.notify.models import Channel
from fleetwatch.notify.services import Recipient, enqueue
from fleetwatch.notify.transports import transport
from fleetwatch.reports import months
from fleetwatch.reports.models import MonthRun, Report, StatementApproval, StatementRecipient
from fleetwatch.reports.monthly import STATEMENT
from fleetwatch.reports.selectors import is_to_date

LONGEST_ADDRESS = 254
LONGEST_NOTE = 300
MAX_RECIPIENTS = 20  # of a team: more is a mailing list's work
EMAIL = "email"
# what was late for longer is read on its page; deliveries are not kept for ever, nor their keys
SENT_WITHIN = timedelta(days=10)


@transaction.atomic
def add_recipient(
    team: Team, channel: Channel, address: str, *, now: datetime, by: str
) -> StatementRecipient:
    """From now on the team's statements go there too. Raises RefusedFieldError."""
    check_text(address, longest=LONGEST_ADDRESS, field="address")
    if address and not transport(channel.kind).person_by:
        raise RefusedFieldError(f"{channel.name} reaches its own place alone.", field="address")
    if address and channel.kind == EMAIL and address.count("@") != 1:
        raise RefusedFieldError("An e-mail address, please.", field="address")
    if StatementRecipient.objects.filter(team=team).count() >= MAX_RECIPIENTS:
        raise RefusedFieldError(f"{MAX_RECIPIENTS} at most: use a mailing list.", field="channel")
    try:
        with transaction.atomic():
            made = StatementRecipient.objects.create(
                team=team, channel=channel, address=address, added_at=now, added_by=by
            )
    except IntegrityError:
        raise RefusedFieldError("It goes there already.", field="channel") from None
    record("report.recipient", team.slug, channel=channel.name, address=address, added=True)
    return made


@transaction.atomic
def drop_recipient(recipient: StatementRecipient) -> None:
    """From now on nothing goes there."""
    record(
        "report.recipient",
        recipient.team.slug,
        channel=recipient.channel.name,
        address=recipient.address,
        added=False,
    )
    recipient.delete()


@transaction.atomic
def send_now(report: Report, team: Team, *, now: datetime) -> int:
    """How many deliveries were queued: the statement to everybody on the team's list, again also
    where it went before, but once a minute. Raises RefusedFieldError where nobody is on it, and
    within the minute.
    """
    rows = StatementRecipient.objects.filter(team=team).select_related("channel")
    recipients = _recipients(rows)
    if not recipients:
        raise RefusedFieldError("Add a recipient first.", field="channel")
    queued = enqueue(
        recipients,
        message(report, team),
        key=f"statement/{report.pk}/{now:%Y-%m-%dT%H:%M}",
        now=now,
    )
    if not queued:
        raise RefusedFieldError("It was sent within this minute: wait for the next.")
    record("report.send", f"{team.slug} {report.content['month']}", queued=queued)
    return queued


def send_due(now: datetime) -> dict[str, int]:
    """How many deliveries were queued of the month that was over last: each team's statement once
    to each on its list, as soon as all of the month's reports are computed. Who is added later
    begins with the next month.
    """
    name = months.last_full(now, zone())
    month = months.month(name, now=now, zone=zone()).interval
    is_done = MonthRun.objects.filter(month=name, end=month.end, state=MonthRun.State.DONE).exists()
    if not is_done or now > month.end + SENT_WITHIN:
        return {"queued": 0}
    rows = StatementRecipient.objects.select_related("channel", "team").order_by("team_id", "pk")
    by_team: dict[Team, list[StatementRecipient]] = {}
    for row in rows:
        by_team.setdefault(row.team, []).append(row)
    return {"queued": sum(_send_first(team, rows, month, now) for team, rows in by_team.items())}


def _send_first(team: Team, rows: list[StatementRecipient], month: Interval, now: datetime) -> int:
    versions = list(
        Report.objects.filter(
            kind=STATEMENT, subject=team.slug, start=month.start, end=month.end
        ).order_by("version")
    )
    if not versions:
        return 0
    due = [row for row in rows if row.added_at <= versions[0].computed_at]
    key = f"statement/{team.slug}/{versions[0].content['month']}"
    return enqueue(_recipients(due), message(versions[-1], team), key=key, now=now)


def _recipients(rows: Iterable[StatementRecipient]) -> list[Recipient]:
    return [Recipient(row.channel, row.address) for row in rows]


def message(report: Report, team: Team) -> Message:
    """What is said of the statement; where it is read is behind it."""
    name = team.label
    name_of_month = report.content["month"]
    month = months.in_words(name_of_month)
    cost = _usd(report.content["total"]["cost_usd"])
    return Message(
        title=f"GPU statement of {name}, {month}: {cost}",
        summary=f"{name} used GPUs for {cost} in {month}.",
        fields=tuple(_facts(report)),
        url=f"{settings.PUBLIC_URL}{address(team.slug, name_of_month)}",
    )


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    """What the message says of it, each with its label."""
    total = report.content["total"]
    before = report.content["comparison"]
    yield "Cost", _usd(total["cost_usd"])
    yield "Wasted", _usd(total["wasted_usd"])
    if before:
        yield "Against the month before", _signed(before["difference_usd"])
    approval = StatementApproval.objects.filter(report=report).first()
    yield "Approved", f"by {approval.approved_by}" if approval else "not yet"


def address(slug: str, month: str) -> str:
    """The path of the team's month."""
    return f"/teams/{quote(slug)}/{month}"


def _usd(amount: str) -> str:
    return f"${Decimal(amount):,.2f}"


def _signed(amount: str) -> str:
    return f"{'−' if Decimal(amount) < 0 else '+'}${abs(Decimal(amount)):,.2f}"


@transaction.atomic
def approve(report: Report, *, now: datetime, by: str, note: str = "") -> StatementApproval:
    """That this version is right, in somebody's name. Raises RefusedFieldError for one that is
    approved, that is no longer the newest, or whose month is not over.
    """
    if is_to_date(report):
        raise RefusedFieldError("The month is not over: its last version is approved.")
    check_text(note, longest=LONGEST_NOTE, field="note")
    newer = Report.objects.filter(
        kind=report.kind, subject=report.subject, start=report.start, version__gt=report.version
    )
    if newer.exists():
        raise RefusedFieldError("There is a newer version: approve that one.")
    approval, is_new = StatementApproval.objects.get_or_create(
        report=report, defaults={"approved_at": now, "approved_by": by, "note": note}
    )
    if not is_new:
        raise RefusedFieldError(f"{approval.approved_by} has approved it already.")
    name = f"{report.subject} {report.content['month']}"
    record("report.approve", name, version=report.version, cost_usd=str(report.cost_usd))
    return approval
