"""The FinOps lead's month end: a new rate with its effect in dollars, the month closed, a statement
approved and sent, and the workbook that says the same to the cent.
"""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from fleetwatch.notify.models import Delivery
from tests.browser.hubs import ENDED, MONTH, Tab
from tests.reports.factories import work
from tests.reports.test_download import sheets

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_month_ends_from_the_new_rate_to_the_cfos_workbook(tab: Tab, books: str):
    page = tab("fay")

    change_the_rate(page, books)
    close_the_month(page, books)
    approve_and_send(page, books)
    workbook = sheets(download(page))

    facts = {row[0]: row[1] for row in workbook["Cover"] if len(row) > 1}
    assert facts["Cost"] == 6
    head, *lines = workbook["Lines"]
    cost_at = head.index("Cost, US dollars") - 2  # project and cost centre are empty, and no cells
    assert sum(line[cost_at] for line in lines) == Decimal(6)


def change_the_rate(page: Page, site: str) -> None:
    page.goto(f"{site}/pricing")
    page.get_by_text("Add or change a rate").click()
    page.fill("#rate-usd", "3")
    page.get_by_role("button", name="Show the effect").first.click()
    effect = page.locator("#effect tr", has_text="VISION").locator("td")
    expect(effect).to_have_text(["VISION", "$4.00", "$6.00", "$2.00"])

    page.get_by_role("button", name="Set the rate").click()
    expect(page.locator("#rates")).to_contain_text("$3.00")
    expect(page.locator("#effect")).to_have_count(0)


def close_the_month(page: Page, site: str) -> None:
    page.goto(f"{site}/settings/months")
    expect(page.locator("#months")).to_contain_text("A closed month can’t be reopened.")
    page.get_by_role("button", name=f"Close {ENDED:%B %Y} for good").click()
    expect(page.locator("#months td.name").first).to_have_text(f"{ENDED:%B %Y}")


def approve_and_send(page: Page, site: str) -> None:
    page.goto(f"{site}/teams/nlp/{MONTH}")
    page.get_by_role("button", name=f"Compute {ENDED:%B %Y} now").click()
    page.wait_for_url("**/reports")
    work(datetime.now(UTC))

    page.goto(f"{site}/teams/nlp/{MONTH}")
    expect(page.locator(".kpi dd").first).to_have_text("$6.00")
    page.get_by_role("button", name="Approve version 1, $6.00").click()
    expect(page.locator("#decide")).to_contain_text("approved by fay")
    page.get_by_text("Add a recipient").click()
    page.fill("#recipient-address", "cfo@example.org")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("button", name=f"Send {ENDED:%B %Y} now").click()
    expect(page.get_by_text("On its way to 1 recipient.")).to_be_visible()

    delivery = Delivery.objects.get()
    assert delivery.address == "cfo@example.org"
    assert delivery.message["title"] == f"GPU statement of NLP, {ENDED:%B %Y}: $6.00"
    assert ["Approved", "by fay"] in delivery.message["fields"]


def download(page: Page) -> bytes:
    page.locator("summary", has_text="Download").first.click()
    with page.expect_download() as file:
        page.get_by_role("link", name="Excel").first.click()
    return Path(file.value.path()).read_bytes()
