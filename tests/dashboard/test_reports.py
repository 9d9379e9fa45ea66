"""Pages of reports: who sees them, what they say, progress, files, hostile names."""

import re
from decimal import Decimal
from html import unescape

import pytest

from fleetwatch.accounts.models import Team
from fleetwatch.jobs.models import Job
from fleetwatch.reports import monthly
from fleetwatch.reports.models import MonthRun, Report, StatementApproval
from fleetwatch.reports.printed_content import above_commitments
from tests.costs.factories import HOUR_MS, a_gpu, a_job, a_rate
from tests.dashboard import factories
from tests.finance.test_report_lines import a_commitment
from tests.markup import tight
from tests.reports.factories import (
    HOUR,
    OCTOBER,
    a_fleet,
    book_everything,
    computed,
    counted,
    newest,
    work,
)
from tests.reports.test_budgeted import a_budget

pytestmark = pytest.mark.django_db


def text(answer):
    assert answer.status_code == 200
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode())))


def text_of(answer):
    return unescape(answer.content.decode())


def test_what_is_only_utilisation_or_waits_stands_apart_from_its_state_on_both_reports(viewer):
    big, _ = a_fleet()
    ocr = a_job(key="slurm/della/9", user="ann")
    counted(big, job=ocr, start=OCTOBER + 5 * HOUR, efficiency_source="none")
    counted(big, "stalled", job=ocr, start=OCTOBER + 6 * HOUR, tier="potential")
    computed()

    for report in (newest("nlp"), newest()):
        page = viewer.get(f"/reports/{report.pk}")
        assert "Busy, unverified 1.00 h" in text(page)
        assert '<rect class="unverified"' in text_of(page)
        assert "Waiting 1.00 h" in text(page)
        assert "Stalled" not in text(page)
    assert "unverified" not in text(viewer.get(f"/reports/{newest('vision').pk}"))
    assert newest("nlp").content["total"]["states"]["useful"] == 3 * HOUR_MS
    assert "busy_unverified_ms" not in newest("vision").content["total"]


def test_a_report_is_kept_by_nobody_but_its_reader(viewer):
    a_fleet()
    computed()
    of_nlp = newest("nlp").pk

    for ending in ("", "/print", "/csv"):
        kept = viewer.get(f"/reports/{of_nlp}{ending}")["Cache-Control"]
        assert set(kept.split(", ")) == {"private", "no-cache"}, ending


def test_lines_of_jobs_that_name_nobody_stand_together_and_tables_sum_to_the_total(viewer):
    big, _ = a_fleet()
    counted(big, job=a_job(key="docker/x/5", user=""), start=OCTOBER + 5 * HOUR)
    computed()

    statement = text(viewer.get(f"/reports/{newest('nlp').pk}"))
    fleet = text(viewer.get(f"/reports/{newest().pk}"))

    # train $8 and tune $1 as before, $4 of nobody
    assert "Jobs that name no user 1 of these lines, below Useful 100 % 1.00 $4.00" in statement
    assert "docker/x/5 docker/x/5 H100" in statement
    assert re.search(r"Total [^$]*4\.00 \$13\.00 \$4\.00 \$0\.00 \$0\.00", statement)
    assert re.search(r"Total [^$]*8\.00 \$23\.00 \$4\.00 \$0\.00", fleet)


def test_before_the_first_hour_the_list_says_so(viewer):
    assert "No month yet" in text(viewer.get("/reports"))


def test_the_list_has_the_months_of_the_ledger_and_an_admin_computes_one(admin):
    a_fleet()

    before = text(admin.get("/reports"))
    answer = admin.post("/reports/compute", {"month": "2026-10"}, follow=True)
    waiting = answer.content.decode()
    work(factories.NOW)
    after = text(admin.get("/reports"))

    assert [name in before for name in ("November", "October", "September", "August")] == [
        True,
        True,
        True,
        False,
    ]
    assert "not computed yet" in before
    assert 'hx-trigger="every 3s"' in waiting
    assert "waiting for a worker" in text(answer)
    assert "version 1" in after
    assert "$19.00" in after
    assert MonthRun.objects.get().asked_by == "ann"


@pytest.mark.parametrize("place", ["", "/print"])
def test_a_statement_shows_what_of_its_budget_is_used_on_the_page_and_on_paper(viewer, place):
    a_fleet()
    a_budget(12)
    computed()

    page = text(viewer.get(f"/reports/{newest('nlp').pk}{place}"))

    assert "$12.00 $9.00 75 %" in page
    assert "of the team, for the whole month within" in page
    assert "for the whole month" not in text(viewer.get(f"/reports/{newest('vision').pk}{place}"))


def test_progress_is_seen_while_it_is_computed(viewer):
    a_fleet()
    monthly.ask("2026-10", now=factories.NOW)
    monthly.plan_waiting(factories.NOW)
    monthly.compute_part(monthly.hand_out(factories.NOW)[0], factories.NOW)

    assert "1 of 4 reports computed" in text(viewer.get("/reports/months"))


def test_a_viewer_reads_and_computes_nothing(viewer):
    a_fleet()

    assert "Compute now" not in text(viewer.get("/reports"))
    assert viewer.post("/reports/compute", {"month": "2026-10"}).status_code == 403
    assert MonthRun.objects.count() == 0


@pytest.mark.parametrize("name", ["2026-12", "october", "", "2026-10' OR 1=1"])
def test_what_is_no_month_is_refused_with_a_sentence(admin, name):
    answer = admin.post("/reports/compute", {"month": name}, follow=True)

    assert "can't be computed" in text(answer)
    assert MonthRun.objects.count() == 0


def test_compute_takes_a_form_only(admin):
    assert admin.get("/reports/compute").status_code == 405


def test_an_admin_chooses_that_free_capacity_is_spread_and_statements_show_it_with_their_energy(
    admin,
):
    a_fleet()
    refused = admin.post("/settings/free-capacity", {"way": "<b>"})
    assert refused.status_code == 422
    assert "free capacity is told own, proportional, even" in text_of(refused)

    admin.post("/settings/free-capacity", {"way": "even"})
    computed()
    statement, fleet = (text(admin.get(f"/reports/{newest(slug).pk}")) for slug in ("nlp", ""))

    # $4 over nlp, vision and jobs without a team: 1.33 each, the odd cent's part to the first
    assert "spread evenly over the teams" in statement
    assert "$9.00 $1.33 $10.33" in statement
    assert "Energy was not measured here" in statement
    assert "$4.00 $1.33 $5.33" in fleet
    assert '<option value="even" selected>' in tight(text_of(admin.get("/settings/months")))


@pytest.mark.parametrize(
    "address",
    ["/reports/999999", "/reports/1/exe", "/reports/999999/csv", "/reports/99999999999999999999"],
)
def test_what_is_not_there_is_404(viewer, address):
    assert viewer.get(address).status_code == 404


def test_names_are_shown_as_text(viewer):
    a_fleet()
    Team.objects.filter(slug="nlp").update(name="<script>alert(1)</script>")
    Job.objects.filter(key="slurm/della/1").update(
        name="<img src=x onerror=alert(1)>", user='"><marquee>'
    )
    computed()

    for address in (
        f"/reports/{newest('nlp').pk}",
        f"/reports/{newest().pk}",
        f"/reports/{newest('nlp').pk}/print",
    ):
        page = viewer.get(address).content.decode()
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "<marquee>" not in page


def test_hours_that_no_commitment_is_compared_with_are_said_beside_those_above(viewer):
    """Of a model with 8 h: 2 of them were there of the commitment, 5 above it."""
    a_fleet()
    computed()
    report = newest()
    line = {"used_ms": 2 * HOUR_MS, "unheld_ms": 0, "gpu_model": "H100"}
    content = {
        "commitments": [line],
        "above_commitments": [
            {"gpu_model": "H100", "gpu_ms": 5 * HOUR_MS, "cost_usd": Decimal(20)}
        ],
        "gpu_models": [{"gpu_model": "H100", "gpu_ms": 8 * HOUR_MS}],
    }

    [above] = above_commitments(content)

    assert report.content["gpu_models"]  # which every report of the fleet has
    assert above["apart_ms"] == HOUR_MS


def test_beside_the_focus_files_stands_what_their_costs_are(viewer):
    a_fleet()
    computed()

    answer = viewer.get(f"/reports/{newest().pk}")
    glossary = text(viewer.get("/docs/glossary"))

    files = text(answer)
    assert "In FOCUS files your organisation is named as provider and invoice issuer" in files
    assert "BilledCost is the ledger at your rates" in files
    assert "not the provider’s invoice" in files
    assert 'href="/docs/glossary#focus"' in answer.content.decode()
    assert "BilledCost of a team is its cost and corrections at the rates" in glossary
    assert "BilledCost is so never the provider's invoice" in glossary
    assert "a contract's Source is a note in free text" in glossary


def test_the_fleets_report_leads_to_last_weeks_digest(viewer):
    a_fleet()
    computed()
    week = {"content": {"message": {"title": "GPU week"}}, "start": OCTOBER, "version": 1}
    digest = Report.objects.create(
        kind="weekly_digest",
        subject="",
        end=OCTOBER + 7 * 24 * HOUR,
        computed_at=OCTOBER + 8 * 24 * HOUR,
        **week,
    )

    page = viewer.get(f"/reports/{newest().pk}").content.decode()

    assert f'href="/reports/{digest.pk}">last week’s digest</a>' in tight(page)


def test_the_fleets_report_leads_from_the_rates_to_what_is_paid_by_contract(viewer):
    big, _ = a_fleet()
    a_commitment(big.model)
    computed()

    page = text(viewer.get(f"/reports/{newest().pk}"))

    # $19 and 6 h that were not there at $4.50; 4 h that were at $4.50 instead of $4
    at_the_rates = "At the rates and what was committed and not delivered, at its contract price"
    assert f"{at_the_rates} $46.00" in page
    assert "GPU-hours that were there: $18.00 by contract instead of $16.00 at the rates" in page
    assert "Due by contract commitments at their contract price, all else at the rates $48.00" in (
        page
    )


def test_where_an_invoice_is_booked_the_month_is_told_with_it_and_without(viewer):
    big, _ = a_fleet()
    a_commitment(big.model)
    book_everything()
    computed()

    page = text(viewer.get(f"/reports/{newest().pk}"))

    at_the_rates = "At the rates and what was committed and not delivered, at its contract price"
    assert f"{at_the_rates} $46.00" in page
    assert "all else at the rates $48.00" in page
    # the invoice is $18: the H100's contract price is in its line
    assert "taken back: the invoice’s line of H100 has it −$2.00" in page
    assert "With what was booked of invoices $18.00" in page
    assert "The provider billed $18.00 : invoice beside the ledger" in page


def test_a_month_recorded_in_part_is_a_partial_one_beside_its_budget(viewer):
    gpu = a_gpu()
    a_rate("4", gpu=gpu)
    counted(gpu, job=a_job(), start=OCTOBER + 20 * 24 * HOUR)
    a_budget(100, team="")
    computed()

    page = text(viewer.get(f"/reports/{newest().pk}"))

    assert "days missing unknown: 1–20 Oct not recorded" in page
    assert "within" not in page


def test_on_paper_hours_times_rate_stand_by_gpu_model_and_who_approved_above(viewer):
    a_fleet()
    computed()
    address = f"/reports/{newest('nlp').pk}/print"

    before = text(viewer.get(address))
    StatementApproval.objects.create(
        report=newest("nlp"), approved_at=OCTOBER + 40 * 24 * HOUR, approved_by="amara"
    )
    after = text(viewer.get(address))

    assert before.count("2.0000 h × $4.00") == 1
    assert "Not approved." in before
    assert "Checked by Approved by Date" in before  # where to sign
    assert "Approved by amara, 2026-11-10" in after
    assert "Not approved" not in after
