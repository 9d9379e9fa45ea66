"""What people come for, from the first page to the last: the newcomer's first node, the platform
engineer's morning, the ML engineer's way from a message to the measured fix, an admin's token
rotation and the end of an account. The FinOps lead's month end is test_month_end.py.
"""

import re

import pytest
from django.db.models import F
from playwright.sync_api import Page, expect

from agent.sending.sender import Outcome, Sender, Verdict
from fleetwatch.accounts.services import create_api_token, hint
from fleetwatch.demo import services as demo
from fleetwatch.diagnosis.findings import fixing
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.ingest.tokens import create_agent_token
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import services as ledger
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.browser.hubs import DAY, Tab, a_run, now, slack_link
from tests.dashboard import factories
from tests.diagnosis import told
from tests.ingest.factories import pack, payload

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

INSTALLS = r"FLEETWATCH_TOKEN=(\S+);"  # the token of an install command


def send(site: str, token: str, node: str) -> Outcome:
    """The answer to five minutes of a free GPU's windows that end now, as the agent hears it."""
    start_ms = to_ms(now()) // 10_000 * 10_000 - 300_000
    batch = payload(node=node, start_ms=start_ms, count=30, boot_start_ms=start_ms - HOUR_MS)
    nothing = ("util_mean", "util_max", "memory_used_bytes", "process_count")
    batch["windows"] |= {column: [0] * 30 for column in nothing}
    return Sender(site, token).send(pack(batch))


def test_a_newcomer_gets_the_first_node_in(tab: Tab, empty_hub: str):
    told.rate("2.00", valid_from=now() - DAY)
    page = tab("ann")
    assert page.url == f"{empty_hub}/welcome"

    page.get_by_role("button", name="Show the install command").click()
    [enrolment] = re.findall(INSTALLS, page.inner_text("#install"))
    token = Sender(empty_hub, enrolment).enroll("gpu-07")
    assert token is not None
    expect(page.locator("#waiting")).to_contain_text("enrolled: gpu-07")
    assert send(empty_hub, token, "gpu-07").verdict is Verdict.ACCEPTED
    expect(page.locator("#waiting")).to_contain_text("gpu-07 ✓ 1 GPU")

    ledger.post(now(), 10)
    page.get_by_role("link", name="Open the overview").click()
    spending = page.locator(".kpi", has_text="Spending now")
    expect(spending).to_contain_text("$2.00 /h")
    expect(spending).to_contain_text("1 GPU, 0 allocated")


def test_a_newcomer_without_a_host_loads_the_demo_and_sees_its_figures(tab: Tab, empty_hub: str):
    page = tab("ann")
    assert page.url == f"{empty_hub}/welcome"

    page.get_by_role("button", name="Load the demo").click()
    expect(page.locator("main")).to_contain_text("The demo is on its way")
    expect(page.locator("#is-demo")).to_contain_text("Its nodes, jobs, people and dollars are")
    expect(page.locator("#demo-loading")).to_contain_text("0 of 3 days are in the figures")
    expect(page.locator("#waiting")).to_contain_text("Waiting for the first")

    [node, *_] = draw_a_day_of_the_demo()
    expect(page.locator("#waiting")).to_contain_text(f"{node} ✓ 8 GPUs")
    page.get_by_role("link", name="Open the overview").click()
    expect(page.locator("#demo-loading")).to_contain_text("0 of 3 days are in the figures")

    ledger.post(now(), 1000)
    page.reload()
    expect(page.locator("#demo-loading")).to_contain_text("1 of 3 days are in the figures")
    spending = page.locator(".kpi", has_text="Spending now")
    expect(spending).to_contain_text(re.compile(r"\$\d+\.\d\d /h\s+8 GPUs, \d"))


def draw_a_day_of_the_demo() -> list[str]:
    """What the task draws first, of a fleet of one node: the nodes' names."""
    # the six hours that go on, those before in two parts, and three times six more
    chapters = demo.missing_chapters(gpus=8, days=2, until=now())[:6]
    assert all(windows for _, windows in demo.store(chapters, clock=now))
    return [chapter.member.name for chapter in chapters]


def test_the_platform_engineer_sees_the_morning_through(tab: Tab, empty_hub: str, morning):
    page = tab("ann")

    expect(page.locator("#now")).to_contain_text("1 GPU idle right now, $2.00/h.")
    page.get_by_role("link", name="Show it").click()
    page.get_by_role("link", name="sweep").click()
    expect(page.locator("h1")).to_have_text("sweep running")

    page.goto(f"{empty_hub}/")
    page.locator("main").get_by_role("link", name=re.compile("Silent agents")).click()
    page.locator("main").get_by_role("link", name="gpu-02").click()
    expect(page.locator("main")).to_contain_text("silent, 1 h")

    page.goto(f"{empty_hub}/")
    page.locator("main").get_by_role("link", name=re.compile("Firing incidents")).click()
    page.locator("[data-row] a").first.click()
    page.get_by_role("button", name="Acknowledge").click()
    page.goto(f"{empty_hub}/")
    expect(page.locator(".health")).to_contain_text(re.compile(r"Firing incidents\s+none"))


def days_go_by(days: int) -> None:
    """All that happened is so much longer ago."""
    passed_ms = days * 24 * HOUR_MS
    CauseEntry.objects.update(start=F("start") - days * DAY)
    moved = {"start_ms": F("start_ms") - passed_ms, "end_ms": F("end_ms") - passed_ms}
    Job.objects.update(**moved)
    Finding.objects.update(
        first_ms=F("first_ms") - passed_ms,
        last_ms=F("last_ms") - passed_ms,
        decided_at=F("decided_at") - days * DAY,
    )


def test_the_ml_engineer_goes_from_slack_to_the_cause_the_fix_and_what_it_brought(
    tab: Tab, empty_hub: str, starved: Finding, slack
):
    page = tab("vera")

    page.goto(slack_link(slack))
    page.locator(f"main a[href^='/findings/{starved.pk}']").first.click()
    expect(page.locator("h1")).to_contain_text("Waits for its input")
    expect(page.locator("main")).to_contain_text("num_workers")
    page.get_by_role("button", name="Fixed").first.click()
    expect(page.locator("main")).to_contain_text("the next runs will show the effect")

    days_go_by(4)
    for days_ago in (3, 2, 1):
        a_run(days_ago, "healthy", hours=3, wasted=0)
    fixing.measure(now())
    page.goto(f"{empty_hub}/findings/{starved.pk}")
    brought = page.locator("section", has_text="Effect of the fix")
    expect(brought).to_contain_text("60 % → 100 %")
    # three runs, each two hours at $2 shorter
    expect(brought).to_contain_text("$12.00")


def test_an_admin_rotates_a_token_and_ends_the_account_of_who_leaves(tab: Tab, empty_hub: str):
    before = create_agent_token("gpu-01", now())
    assert send(empty_hub, before, "gpu-01").verdict is Verdict.ACCEPTED
    bo = factories.user(role="operator", username="bo")
    key = create_api_token(bo, scope="read", now=now())
    admins = tab("ann")
    bos = tab("bo")

    admins.goto(f"{empty_hub}/settings/agents")
    after = rotated(admins, "gpu-01", before)
    assert send(empty_hub, before, "gpu-01").status == 401
    assert send(empty_hub, after, "gpu-01").status != 401

    admins.goto(f"{empty_hub}/settings/people")
    admins.get_by_role("link", name="bo", exact=True).click()
    admins.get_by_text("Deactivate this account").click()
    admins.get_by_role("button", name="Deactivate").click()
    expect(admins.get_by_role("button", name="Reactivate")).to_be_visible()
    bos.goto(f"{empty_hub}/overview")
    assert "/accounts/login/" in bos.url
    answer = bos.request.get(f"{empty_hub}/api/v1/me", headers={"Authorization": f"Bearer {key}"})
    assert answer.status == 401


def rotated(page: Page, node: str, before: str) -> str:
    """The node's new token; that of before is taken back once the new one is there."""
    page.get_by_text("Create a token for one node").click()
    page.fill("#agent-token-node", node)
    page.get_by_role("button", name="Create token").click()
    [token] = re.findall(INSTALLS, page.inner_text("#secret"))
    old = page.locator("tr", has_text=hint(before)).filter(has_text=node)
    old.get_by_text("Revoke", exact=True).click()
    old.get_by_role("button", name="Revoke for good").click()
    expect(page.locator("main")).to_contain_text("revoked")
    return token
