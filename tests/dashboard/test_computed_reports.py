"""Pages of a month that was computed: what they say, files, paper, former versions."""

import re
from collections.abc import Iterator
from decimal import Decimal
from html import unescape

import pytest
from django.template.loader import render_to_string
from django.test import Client

from fleetwatch.accounts.models import Team
from fleetwatch.diagnosis.causes import BY_CODE, of_kind
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports.advised import advised
from fleetwatch.reports.models import MonthRun, Report, StatementRecipient
from tests.diagnosis import told
from tests.notify.factories import email_channel
from tests.reports.factories import HOUR, NOW, OCTOBER, a_fleet, computed, newest
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def _computed_month(django_db_setup, django_db_blocker) -> Iterator[None]:
    with shared_rows(django_db_blocker):
        a_fleet()
        computed()
        yield


@pytest.fixture(autouse=True)
def _computed(_computed_month, db) -> None:
    """October."""


def text(answer):
    assert answer.status_code == 200
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode())))


def test_a_stranger_goes_to_the_log_in():
    pk = newest().pk

    for address in (
        "",
        "/months",
        f"/{pk}",
        f"/{pk}/print",
        f"/{pk}/csv",
        f"/{pk}/xlsx",
        f"/{pk}/focus",
    ):
        assert Client().get(f"/reports{address}").status_code == 302
    assert Client().post("/reports/compute", {"month": "2026-10"}).status_code == 302
    assert MonthRun.objects.count() == 1


def test_a_statement_shows_lines_waste_and_why_it_differs(viewer):
    page = text(viewer.get(f"/reports/{newest('nlp').pk}"))

    for part in (
        "NLP",
        "1–31 Oct 2026",
        "$9.00",
        "+ $1.00 against 1–30 Sep 2026",
        "train ann · slurm/della/1",
        "Volume",
        "$4.00",
        "−$3.00",
    ):
        assert part in page


def test_the_fleets_report_links_its_statements_and_shows_own_lines_and_savings(viewer):
    answer = viewer.get(f"/reports/{newest().pk}")

    assert f'href="/reports/{newest("nlp").pk}"' in answer.content.decode()
    for part in (
        "Jobs without a team",
        "Free, unallocated",
        "H100 $4.00",
        "L4 $1.00",
        "Savings list",
        "October 2026 cost $19.00 ;",
        "$19.00",
    ):
        assert part in text(answer)


def test_the_opening_sentence_says_the_figures_that_the_report_prints():
    """Certain and probable, each to its cent, are a cent more than what is wasted to its cent."""
    shown = {"cost_usd": Decimal("65624.17"), "wasted_usd": Decimal("13224.32")}
    total = {"cost_usd": Decimal("65624.166"), "wasted_usd": Decimal("13224.314"), "printed": shown}

    page = render_to_string("dashboard/_report_opening.html", {"content": {"total": total}})

    assert "13,224.32" in page
    assert "65,624.17" in page
    assert ">$13,224.31<" not in page


def test_the_savings_list_says_why_and_what_to_do_first(viewer):
    cause = BY_CODE["idle_held"]
    job = Job.objects.get(key="slurm/della/1")
    told.cause("idle_held", of=job, on=GPU.objects.first(), start=OCTOBER + HOUR)

    for address in (f"/reports/{newest().pk}", f"/reports/{newest().pk}/print"):
        page = text(viewer.get(address))
        assert f"{cause.title} {of_kind('idle_held', job.kind).fixes[0].text}" in page


@pytest.mark.parametrize(
    ("cause", "status", "tag"),
    [
        ("idle_held", "dismissed", "dismissed"),
        ("idle_held", "accepted", "accepted"),
        ("idle_held", "open", ""),
        ("hung", "dismissed", ""),  # of another cause
    ],
)
def test_the_savings_list_says_how_the_finding_stands_that_somebody_decided_about(
    viewer, cause, status, tag
):
    """A version stays as it was computed: of a finding that was dismissed since the list says so."""
    job = Job.objects.get(key="slurm/della/1")
    told.cause("idle_held", of=job, on=GPU.objects.first(), start=OCTOBER + HOUR)
    told.finding(job, cause, status=status)

    page = text(viewer.get(f"/reports/{newest().pk}"))

    first_step = advised([job.key], Interval(OCTOBER, NOW))[job.key].first_step
    assert first_step
    assert f"{BY_CODE['idle_held'].title}{f' {tag}' if tag else ''} {first_step}" in page


def test_the_savings_list_says_what_it_leaves_out_as_agreed(viewer):
    report = newest()
    left_out = "Left out: 1 job agreed as not waste, $248"
    assert "Left out:" not in text(viewer.get(f"/reports/{report.pk}"))

    report.content["savings_agreed"] = {"jobs": 1, "wasted_usd": "248.000000"}
    report.save(update_fields=["content"])

    for address in (f"/reports/{report.pk}", f"/reports/{report.pk}/print"):
        assert left_out in text(viewer.get(address))


def test_each_report_has_one_menu_of_its_files_and_names_to_whom_it_goes(viewer):
    team = Team.objects.get(slug="nlp")
    mail = email_channel(25, name="Finance mail")
    for address in ("", "cfo@example.org", "zoe@example.org"):
        StatementRecipient.objects.create(
            team=team, channel=mail, address=address, added_at=NOW, added_by="fin"
        )

    page = viewer.get("/reports").content.decode()

    assert page.count("<summary") == page.count("/focus-days")
    assert f'href="/reports/{newest("nlp").pk}/xlsx"' in page
    assert "Finance mail, cfo@example.org and 1 more" in text(viewer.get("/reports"))


def test_an_old_version_can_still_be_read(viewer):
    Job.objects.filter(key="slurm/della/1").update(user="zoe")
    computed()
    first = Report.objects.get(subject="nlp", version=1)

    page = text(viewer.get(f"/reports/{first.pk}"))

    assert "train ann" in page
    assert "v2" in page


def test_files_come_as_attachments(viewer):
    answers = [
        viewer.get(f"/reports/{newest('nlp').pk}/{name}") for name in ("csv", "xlsx", "focus")
    ]

    for answer in answers:
        assert answer.status_code == 200
        assert answer["Content-Disposition"].startswith(
            'attachment; filename="fleetwatch-2026-10-nlp-v1.'
        )
        assert len(answer.content) > 300


def test_the_paper_has_every_line_and_no_navigation(viewer):
    page = viewer.get(f"/reports/{newest('nlp').pk}/print")

    assert "train" in text(page)
    assert 'class="rail"' not in page.content.decode()
    assert "print.css" in page.content.decode()
