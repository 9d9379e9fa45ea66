"""Reports in the read API: the list, and one with what it says."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema

from fleetwatch.api import schemas
from fleetwatch.api.answer_types import Answer, Joined
from fleetwatch.api.request_period import asked, required
from fleetwatch.api.vocabulary import ReportKind
from fleetwatch.reports.models import Report
from fleetwatch.reports.monthly import FLEET, STATEMENT

LARGEST_ID = 2**63 - 1

router = Router(tags=["reports"])


class ReportRow(Schema):
    """One version of a report.

    `subject` is the team's slug of a statement, "(none)" and "(unmapped)" for jobs without a team.
    """

    id: int
    kind: ReportKind
    subject: str
    start: datetime
    end: datetime
    version: int
    computed_at: datetime
    cost_usd: float | None
    content: Any = None


class ReportPage(schemas.Listed[ReportRow]):
    """Computed reports that overlap the period, the newest first.

    What statements and fleet reports say is at /reports/{id}.
    """


class ReportDetail(ReportRow):
    """Amounts in `content` are decimal strings: exact.

    `inputs` is the digest of what it was first computed from.
    """

    inputs: str


@router.get("/reports", operation_id="listReports", response=ReportPage)
def reports(
    request: HttpRequest,
    period: schemas.PeriodAsked,
    paging: schemas.Paging,
    kind: ReportKind | None = None,
    subject: schemas.Name = None,
) -> Answer:
    """Computed reports of periods that overlap the one asked for, every version."""
    wanted = asked(request)
    overlapping = Report.objects.filter(
        start__lt=wanted.interval.end, end__gt=wanted.interval.start
    )
    asked_for = {"kind": kind, "subject": subject}
    named = {name: value for name, value in asked_for.items() if value is not None}
    reports = overlapping.filter(**named).order_by("-end", "-pk").defer("content")
    return wanted.listed(reports, paging.limit, _small)


@router.get("/reports/{int:report_id}", operation_id="getReport", response=ReportDetail)
def report(request: HttpRequest, report_id: int) -> Report:
    """One report and what it says."""
    report = Report.objects.filter(pk=report_id).first() if report_id <= LARGEST_ID else None
    return required(report, "report", field="report_id")


def _small(report: Report) -> Joined:
    """What it says, where that is a page of text and no month of jobs."""
    return Joined({"content": None} if report.kind in (FLEET, STATEMENT) else {}, report)
