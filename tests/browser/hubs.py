"""Hubs that a journey begins on, and the tabs of who makes it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page

from fleetwatch.alerts.messaging import announcing
from fleetwatch.diagnosis.models import Finding
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.notify import delivering
from tests import stored_runs
from tests.alerts.factories import a_rule, an_incident
from tests.alerts.people import is_named
from tests.browser.sites import Watched, let_in
from tests.costs import factories as costs
from tests.dashboard import factories
from tests.diagnosis import told as rows
from tests.notify.factories import email_channel, slack_channel
from tests.reports.factories import counted

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
Tab = Callable[[str], Page]
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
LAST = (TODAY.replace(day=1) - timedelta(days=1)).replace(day=1)
ENDED = (LAST - timedelta(days=1)).replace(day=1)  # so long ago that it may be closed on any day
MONTH = f"{ENDED:%Y-%m}"


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def empty_hub(settings, static_root, live_server, db) -> str:
    """The address of an empty hub, with an admin."""
    settings.PUBLIC_URL = live_server.url
    factories.user(username="ann")
    return live_server.url


@pytest.fixture
def tab(browser: Browser, empty_hub: str) -> Iterator[Tab]:
    """Opens the home page of a user who is logged in; none may have a complaint at the end."""
    opened: list[Watched] = []

    def tab_of(username: str) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        let_in(context, empty_hub, username)
        watched = Watched(context.new_page())
        opened.append(watched)
        watched.page.goto(f"{empty_hub}/")
        return watched.page

    yield tab_of
    for watched in opened:
        watched.page.context.close()
    complaints = [complaint for watched in opened for complaint in watched.complaints]
    assert not complaints, "\n".join(complaints)


@pytest.fixture
def morning(empty_hub: str) -> None:
    """One GPU idle in the hands of a job, of which an incident fires, and a silent node."""
    rows.rate("2.00", valid_from=now() - 100 * DAY)
    held = factories.job("slurm/della/7", name="sweep")
    idle = factories.gpu(factories.node("gpu-01", now=now()), now=now())
    idles = {"hours_ago": 0.5, "hours": 0.5, "states": {"idle": HOUR_MS // 2}}
    stored_runs.store(factories.run(idle, held_by=held, now=now(), **idles))
    factories.gpu(factories.node("gpu-02", now=now() - HOUR), now=now() - HOUR)
    an_incident(a_rule(threshold=1), "slurm/della/7", opened_at=now() - HOUR)


@pytest.fixture
def books(empty_hub: str) -> str:
    """Fay of finance's: NLP held 3 GPU-hours in the month that ended, Vision 2 two days ago, at $2
    each.
    """
    factories.user(role="finance", username="fay")
    email_channel(25)
    gpu = costs.a_gpu()
    costs.a_rate("2", gpu=gpu)
    train, serve = costs.a_job(team="nlp", name="train"), costs.a_job(team="vision")
    for hour in range(3):
        counted(gpu, job=train, start=ENDED + hour * HOUR)
    for hour in range(2):
        counted(gpu, job=serve, start=TODAY - timedelta(days=2) + hour * HOUR)
    return empty_hub


@pytest.fixture
def starved(empty_hub: str, slack) -> Finding:
    """Vera's job starved for data on four days, two hours of five each; Slack is told of it."""
    user = factories.user(role="engineer", username="vera")
    is_named(user, "unix", "vera")
    rows.rate("2.00", valid_from=now() - 100 * DAY)
    runs = [a_run(days_ago, "data_starved", hours=5, wasted=2) for days_ago in (4, 3, 2, 1)]
    seen = {"first_ms": to_ms(now() - 4 * DAY), "last_ms": to_ms(now() - HOUR)}
    finding = rows.finding(runs[-1], "data_starved", **seen)
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
    run = rows.job(f"slurm/della/{cause}-{days_ago}", user="vera", **spans)
    rows.cause(cause, of=run, start=start, hours=wasted, waste="stalled_probable_ms")
    rest = {"hours": hours - wasted, "waste": "", "low": 0, "high": 0}
    rows.cause(cause, of=run, start=start + HOUR, **rest)
    return run


def slack_link(slack) -> str:
    """What the one message that Slack is sent now opens."""
    announcing.run(now())
    delivering.deliver_due(now(), 10)
    [message] = slack.script.requests
    *_, opens = message["blocks"][-1]["elements"]
    return opens["url"]
