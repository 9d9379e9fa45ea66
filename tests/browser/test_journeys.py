"""What people come for, from the first page to the last: the newcomer's first node, the platform
engineer's morning, the ML engineer's way from a message to the measured fix, an admin's token
rotation and the end of an account. The FinOps lead's month end is test_month_end.py.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import F
from playwright.sync_api import Browser, Page, expect

from agent.sending.sender import Outcome, Sender, Verdict
from fleetwatch.accounts.services import create_api_token, hint
from fleetwatch.alerts.messaging import announcing
from fleetwatch.diagnosis.findings import fixing
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.ingest.tokens import create_agent_token
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import services as ledger
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.notify import delivering
from tests import stored_runs
from tests.alerts.factories import a_rule, an_incident
from tests.alerts.people import is_named
from tests.browser.sites import Watched, let_in
from tests.dashboard import factories
from tests.diagnosis import told
from tests.ingest.factories import pack, payload
from tests.notify.factories import slack_channel

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
INSTALLS = r"FLEETWATCH_TOKEN=(\S+);"  # the token of an install command
Tab = Callable[[str], Page]


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def site(settings, static_root, live_server, db) -> str:
    """The address of an empty hub, with an admin."""
    settings.PUBLIC_URL = live_server.url
    factories.user(username="ann")
    return live_server.url


@pytest.fixture
def tab(browser: Browser, site: str) -> Iterator[Tab]:
    """Opens the home page of a user who is logged in; none may have a complaint at the end."""
    opened: list[Watched] = []

    def tab_of(username: str) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        let_in(context, site, username)
        watched = Watched(context.new_page())
        opened.append(watched)
        watched.page.goto(f"{site}/")
        return watched.page

    yield tab_of
    for watched in opened:
        watched.page.context.close()
    assert [complaint for watched in opened for complaint in watched.complaints] == []


def send(site: str, token: str, node: str) -> Outcome:
    """The answer to five minutes of a free GPU's windows that end now, as the agent hears it."""
    start_ms = to_ms(now()) // 10_000 * 10_000 - 300_000
    batch = payload(node=node, start_ms=start_ms, count=30, boot_start_ms=start_ms - HOUR_MS)
    nothing = ("util_mean", "util_max", "memory_used_bytes", "process_count")
    batch["windows"] |= {column: [0] * 30 for column in nothing}
    return Sender(site, token).send(pack(batch))


def test_a_newcomer_gets_the_first_node_in(tab: Tab, site: str):
    told.rate("2.00", valid_from=now() - DAY)
    page = tab("ann")
    assert page.url == f"{site}/welcome"

    page.get_by_role("button", name="Show the install command").click()
    [enrolment] = re.findall(INSTALLS, page.inner_text("#install"))
    token = Sender(site, enrolment).enroll("gpu-07")
    assert token is not None
    expect(page.locator("#waiting")).to_contain_text("enrolled: gpu-07")
    assert send(site, token, "gpu-07").verdict is Verdict.ACCEPTED
    expect(page.locator("#waiting")).to_contain_text("gpu-07 ✓ 1 GPU")

    ledger.post(now(), 10)
    page.get_by_role("link", name="Open the overview").click()
    spending = page.locator(".kpi", has_text="Spending now")
    expect(spending).to_contain_text("$2.00 /h")
    expect(spending).to_contain_text("1 GPU, 0 allocated")


def test_the_platform_engineer_sees_the_morning_through(tab: Tab, site: str):
    told.rate("2.00", valid_from=now() - 100 * DAY)
    held = factories.job("slurm/della/7", name="sweep")
    idle = factories.gpu(factories.node("gpu-01", now=now()), now=now())
    idles = {"hours_ago": 0.5, "hours": 0.5, "states": {"idle": HOUR_MS // 2}}
    stored_runs.store(factories.run(idle, held_by=held, now=now(), **idles))
    factories.gpu(factories.node("gpu-02", now=now() - HOUR), now=now() - HOUR)
    an_incident(a_rule(threshold=1), "slurm/della/7", opened_at=now() - HOUR)
    page = tab("ann")

    expect(page.locator("#now")).to_contain_text("1 GPU idle right now, $2.00/h.")
    page.get_by_role("link", name="Show it").click()
    page.get_by_role("link", name="sweep").click()
    expect(page.locator("h1")).to_have_text("sweep running")

    page.goto(f"{site}/")
    page.locator("main").get_by_role("link", name=re.compile("Silent agents")).click()
    page.locator("main").get_by_role("link", name="gpu-02").click()
    expect(page.locator("main")).to_contain_text("silent, 1 h")

    page.goto(f"{site}/")
    page.locator("main").get_by_role("link", name=re.compile("Firing incidents")).click()
    page.locator("[data-row] a").first.click()
    page.get_by_role("button", name="Acknowledge").click()
    page.goto(f"{site}/")
    expect(page.locator(".health")).to_contain_text(re.compile(r"Firing incidents\s+none"))


@pytest.fixture
def starved(site: str, slack) -> Finding:
    """Vera's job starved for data on four days, two hours of five each; Slack is told of it."""
    user = factories.user(role="engineer", username="vera")
    is_named(user, "unix", "vera")
    told.rate("2.00", valid_from=now() - 100 * DAY)
    runs = [a_run(days_ago, "data_starved", hours=5, wasted=2) for days_ago in (4, 3, 2, 1)]
    seen = {"first_ms": to_ms(now() - 4 * DAY), "last_ms": to_ms(now() - HOUR)}
    finding = told.finding(runs[-1], "data_starved", **seen)
    waits = {"minutes": 30, "evaluated_ms": None, "created_at": now() - DAY}
    a_rule(condition="finding_saving", threshold=1, **waits)
    slack_channel(slack.url)
    return finding


def a_run(days_ago: int, cause: str, *, hours: int, wasted: int) -> Job:
    """A run of "train" on one GPU, within a day of UTC: its cause, hours held, and of these
    stalled.
    """
    start = (now() - days_ago * DAY).replace(hour=2, minute=0, second=0, microsecond=0)
    spans = {"start_ms": to_ms(start), "end_ms": to_ms(start + hours * HOUR)}
    run = told.job(f"slurm/della/{cause}-{days_ago}", user="vera", **spans)
    told.cause(cause, of=run, start=start, hours=wasted, waste="stalled_probable_ms")
    rest = {"hours": hours - wasted, "waste": "", "low": 0, "high": 0}
    told.cause(cause, of=run, start=start + HOUR, **rest)
    return run


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
    tab: Tab, site: str, starved: Finding, slack
):
    announcing.run(now())
    delivering.deliver_due(now(), 10)
    [message] = slack.script.requests
    *_, opens = message["blocks"][-1]["elements"]
    page = tab("vera")

    page.goto(opens["url"])
    page.locator(f"main a[href^='/findings/{starved.pk}']").first.click()
    expect(page.locator("h1")).to_contain_text("Waits for its input")
    expect(page.locator("main")).to_contain_text("num_workers")
    page.get_by_role("button", name="Fixed").first.click()
    expect(page.locator("main")).to_contain_text("the next runs will show the effect")

    days_go_by(4)
    for days_ago in (3, 2, 1):
        a_run(days_ago, "healthy", hours=3, wasted=0)
    fixing.measure(now())
    page.goto(f"{site}/findings/{starved.pk}")
    brought = page.locator("section", has_text="Effect of the fix")
    expect(brought).to_contain_text("60 % → 100 %")
    # three runs, each two hours at $2 shorter
    expect(brought).to_contain_text("$12.00")


def test_an_admin_rotates_a_token_and_ends_the_account_of_who_leaves(tab: Tab, site: str):
    before = create_agent_token("gpu-01", now())
    assert send(site, before, "gpu-01").verdict is Verdict.ACCEPTED
    bo = factories.user(role="operator", username="bo")
    key = create_api_token(bo, scope="read", now=now())
    admins = tab("ann")
    bos = tab("bo")

    admins.goto(f"{site}/settings/agents")
    after = rotated(admins, "gpu-01", before)
    assert send(site, before, "gpu-01").status == 401
    assert send(site, after, "gpu-01").status != 401

    admins.goto(f"{site}/settings/people")
    admins.get_by_role("link", name="bo", exact=True).click()
    admins.get_by_text("Deactivate this account").click()
    admins.get_by_role("button", name="Deactivate").click()
    expect(admins.get_by_role("button", name="Reactivate")).to_be_visible()
    bos.goto(f"{site}/overview")
    assert "/accounts/login/" in bos.url
    answer = bos.request.get(f"{site}/api/v1/me", headers={"Authorization": f"Bearer {key}"})
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
