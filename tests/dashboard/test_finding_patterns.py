"""The inbox by pattern: what is one line, what it costs a month, and what is done to all of it."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.test import Client

from fleetwatch.accounts.models import AuditEntry, User
from fleetwatch.diagnosis.findings import inbox, patterns
from fleetwatch.diagnosis.models import Finding, Fix
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from fleetwatch.notify.models import Delivery
from tests.costs.factories import an_entry
from tests.dashboard.shown_findings import a_week_of_runs
from tests.diagnosis.told import DAY, NOW, capacity, cause, finding, gpu, job, place, rate
from tests.markup import in_text, tight
from tests.notify.factories import slack_channel

PART = {"HX-Request": "true"}
pytestmark = pytest.mark.django_db
WEEK = Interval(NOW - 7 * DAY, NOW)
HOUR = timedelta(hours=1)


@pytest.fixture
def week(db) -> list[Finding]:
    return a_week_of_runs()


def of_week() -> patterns.Patterns:
    every = inbox.inbox(WEEK, now=NOW)
    return patterns.patterns(every.of_jobs, WEEK, now=NOW)


def test_a_month_is_one_rate_in_the_inbox_of_any_period_and_on_the_findings_page(admin, week):
    """$6 in the four days that there are: $45 in 30, also where a day of them is looked at."""
    an_entry(gpu(), "useful", HOUR_MS, start=NOW - 4 * DAY)
    every = inbox.inbox(WEEK, now=NOW)
    periods = (Interval(NOW - days * DAY, NOW) for days in (1, 7, 30))

    shown = [patterns.patterns(every.of_jobs, interval, now=NOW)[:][0] for interval in periods]

    assert [each.per_month.high_usd for each in shown] == [45, 45, 45]
    for period in ("from=now-24h&to=now", "from=now-7d&to=now"):
        assert "$23–45" in tight(admin.get(f"/findings?{period}").content.decode())
        page = tight(admin.get(f"/findings/{week[0].pk}?{period}").content.decode())
        ahead = page.partition("in the next 30 days:")[2].partition("</b>")[0]
        assert ahead.endswith("$23–45</span>")


def test_a_month_of_what_is_fixed_is_told_as_what_it_was(admin, week):
    Finding.objects.update(status="fixed", decided_at=NOW)

    page = in_text(tight(admin.get(f"/findings/{week[0].pk}").content.decode()))

    assert "At that rate it was" in page
    assert "in the next 30 days" not in page
    assert "What was to change" in page


@pytest.fixture
def session() -> Finding:
    """Of a pause of two hours, ending sessions after one saves 55 minutes (the server looks every
    five): of the $2 that were wasted in the period $2 x 55 / 120.
    """
    rate()
    of = job("slurm/della/1", kind="interactive", end_ms=to_ms(NOW))
    cause(of=of, start=NOW - timedelta(hours=2))
    return finding(
        of,
        first_ms=to_ms(NOW) - 2 * HOUR_MS,
        last_ms=to_ms(NOW) - HOUR_MS,
        step_saved_ms=55 * 60_000,
        step_of_ms=2 * HOUR_MS,
    )


@pytest.mark.parametrize(
    "address",
    [
        "/findings",
        "/findings?view=compact",
        "/findings?group_by=finding",
        "/search?q=train",
        "/search/quick?q=train",
        "/?parts=1",
    ],
)
def test_every_page_tells_what_the_printed_step_saves_where_that_was_measured(
    admin, session, address
):
    page = tight(admin.get(address).content.decode())

    assert ">$0.92</span>" in page
    assert "$1.00–2.00" not in page


def test_what_could_have_been_saved_of_what_is_over_is_told_so_in_the_palette(admin, session):
    page = in_text(tight(admin.get("/search/quick?q=train").content.decode()))

    assert "$0.92 could have been saved All" in page


@pytest.mark.parametrize("address", ["/findings/{}", "/jobs/slurm/della/1"])
def test_the_pages_of_a_finding_and_its_job_say_what_more_than_the_step_could_save(
    admin, session, address
):
    page = in_text(tight(admin.get(address.format(session.pk)).content.decode()))

    assert "$0.92" in page
    assert re.search(r"alone; \$1\.00–2\.00 .{0,30}had it been ended when it began to idle", page)


def test_a_cause_that_came_back_after_its_fix_is_said_so_in_one_word_and_not_in_green(
    admin, session
):
    Finding.objects.filter(pk=session.pk).update(status="fixed", decided_at=NOW)
    Fix.objects.create(
        user="ann", job_name="train", gpus=1, cause="idle_held", finding=session, at=NOW - DAY,
        was_noticed=False, outcome="regressed", runs_before=3, runs_after=3,
        saved_low_ms=0, saved_high_ms=0,
    )  # fmt: skip
    for number in (1, 2, 3):
        start_ms = to_ms(NOW) - number * HOUR_MS
        run = job(f"slurm/della/9{number}", name="train", user="ann", start_ms=start_ms)
        if number != 3:
            finding(run, first_ms=start_ms, last_ms=start_ms + HOUR_MS)
    job("slurm/della/90", name="train", user="bob", start_ms=to_ms(NOW) - HOUR_MS)

    page = tight(admin.get(f"/findings/{session.pk}").content.decode())
    of_job = in_text(tight(admin.get(f"/jobs/{session.its_job.key}").content.decode()))

    assert '<span class="tag bad-c">Fixed, came back in 2 of 3 runs since</span>' in page
    assert "fixed 19 Nov 2026, came back in 2 of 3 runs since" in of_job
    assert "<dt>Outcome</dt><dd>Came back</dd>" in page


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        ("waiting", "could have been saved of $2.00 wasted · one run"),
        ("regressed", "could have been saved of $2.00 wasted · one run; it came back"),
        (
            "improved",
            "could have been saved of $2.00 wasted · one run; its fix saved $2.00–4.00 so far",
        ),
    ],
)
def test_what_is_fixed_could_have_been_saved(admin, session, outcome, says):
    Finding.objects.filter(pk=session.pk).update(status="fixed", decided_at=NOW)
    Fix.objects.create(
        user="ann", job_name="train", gpus=1, cause="idle_held", finding=session, at=NOW - DAY,
        was_noticed=False, outcome=outcome, runs_before=3, runs_after=3,
        saved_low_ms=0 if outcome == "waiting" else HOUR_MS,
        saved_high_ms=0 if outcome == "waiting" else 2 * HOUR_MS,
    )  # fmt: skip

    page = tight(admin.get("/findings?status=fixed&from=now-7d&to=now").content.decode())

    row = re.sub("<[^>]*>", " ", page[page.index("1 pattern of waste") :])
    assert says in " ".join(row.split())


def test_runs_of_one_owner_name_and_cause_are_one_pattern(week):
    found = of_week()

    first, second = found[:]
    assert [(each.runs, each.when, each.line.job.user) for each in (first, second)] == [
        (3, "now", "ann"),
        (1, "once", "bob"),
    ]
    assert first.caused.wasted_usd == Decimal(6)
    assert (first.caused.saving.low_usd, first.caused.saving.high_usd) == (3, 6)
    # $3 to $6 in two weeks are 30/14 of it in 30 days; what is over is told for no month
    assert round(first.per_month.high_usd, 6) == Decimal("12.857143")
    assert second.per_month is None
    assert found.counts() == {"now": 1, "habit": 0, "once": 1}
    assert found.holding(week[1].pk) == 0
    assert sorted(found.finding_ids(0)) == [each.pk for each in week[:3]]


@pytest.mark.parametrize(("minutes", "when"), [(29, "now"), (30, "now"), (31, "habit")])
def test_it_burns_now_where_it_was_seen_in_the_last_half_hour(week, minutes, when):
    Finding.objects.filter(pk=week[2].pk).update(last_ms=to_ms(NOW) - minutes * 60_000)

    assert of_week()[:1][0].when == when


def test_what_is_over_is_a_habit_from_its_second_run_on(week):
    Job.objects.update(end_ms=to_ms(NOW))

    assert [each.when for each in of_week()[:]] == ["habit", "once"]


def test_one_run_of_a_period_recurs_where_others_came_in_the_two_weeks_of_its_rate(admin, week):
    """Ann's three runs, all over; the last day has one of them, and so has bob's."""
    Job.objects.update(end_ms=to_ms(NOW) - 31 * 60_000)
    day = Interval(NOW - DAY, NOW)

    every = inbox.inbox(day, now=NOW).of_jobs
    page = tight(admin.get("/findings?from=now-24h&to=now").content.decode())

    shown = patterns.patterns(every, day, now=NOW)[:]
    assert [(each.runs, each.when, each.recent_runs) for each in shown] == [(1, "habit", 3)]
    assert "a month if it repeats: 3 runs in 14 days" in page


@pytest.mark.parametrize(
    ("status", "rest", "said"),
    [
        ("accepted", "accepted", "a month if it repeats"),
        ("accepted", "open", ""),
        ("fixed", "fixed", "was ≈<span"),
        ("dismissed", "dismissed", ""),
    ],
)
def test_a_month_is_told_once_and_not_of_what_is_no_waste(admin, week, status, rest, said):
    """Of ann's runs the first stands as `status`, the others as `rest`."""
    Finding.objects.filter(pk__in=[each.pk for each in week]).update(status=rest)
    Finding.objects.filter(pk=week[0].pk).update(status=status)

    page = tight(admin.get(f"/findings?status={status}").content.decode())

    assert ("a month" in page) == bool(said)
    assert said in page


def test_a_spark_has_a_bar_for_each_day_and_the_largest_is_whole(week):
    [days, _] = patterns.sparks(of_week(), slice(0, 25))

    # from the 13th to the 20th: on the 18th, 19th and 20th an hour each
    assert days == [0, 0, 0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("view", ["", "?view=compact"])
def test_what_is_potential_alone_is_not_called_wasted_now(admin, view):
    rate()
    serving = job("slurm/della/9", kind="service", end_ms=None)
    cause(
        "bursty_service",
        of=serving,
        on=gpu(9),
        start=NOW - timedelta(hours=1),
        waste="stalled_potential_ms",
    )
    last_ms = to_ms(NOW)
    finding(serving, "bursty_service", first_ms=last_ms - HOUR_MS, last_ms=last_ms)

    page = tight(admin.get(f"/findings{view}").content.decode())

    assert "potential waste, now" in page
    assert "wasting now" not in page


def test_what_wasted_earlier_and_only_might_have_been_used_in_its_last_hour_is_potential_now(admin):
    """An hour of certain waste three hours ago, since then underused."""
    rate()
    goes_on = job("slurm/della/9", end_ms=None)
    cause("small_batch", of=goes_on, start=NOW - timedelta(hours=3))
    cause("small_batch", of=goes_on, start=NOW - timedelta(hours=1), waste="underused_ms")
    finding(goes_on, "small_batch", first_ms=to_ms(NOW) - 3 * HOUR_MS, last_ms=to_ms(NOW))

    page = tight(admin.get("/findings?when=now").content.decode())

    assert "potential waste, now" in page
    assert "wasting now</span>" not in page


def test_of_a_single_run_no_month_is_told_while_it_goes_on_either(admin, week):
    Job.objects.filter(user="bob").update(end_ms=None)

    assert [(each.runs, each.per_month is None) for each in of_week()[:]] == [(3, False), (1, True)]
    page = tight(admin.get("/findings").content.decode())
    assert page.count("a month if it repeats") == 1
    assert "could be saved of $2.00 wasted · one run" in in_text(page)
    assert "could be saved of $6.00 wasted · 3 runs" in in_text(page)


def test_the_inbox_shows_patterns_and_leads_to_their_runs(admin, week):
    page = tight(admin.get("/findings").content.decode())

    assert "2 patterns of waste in jobs" in page
    assert "wasting now" in page
    assert "$6.43–13" in page
    assert "a month if it repeats" in page
    assert "group_by=finding&amp;cause=idle_held&amp;user=ann&amp;job_name=train" in page
    runs = admin.get("/findings?group_by=finding&cause=idle_held&user=ann&job_name=train")
    assert "3 findings of jobs" in tight(runs.content.decode())
    once = tight(admin.get("/findings?when=once").content.decode())
    assert "1 pattern of waste in jobs" in once
    assert f"/findings/{week[3].pk}" in once


def test_what_stands_under_a_long_compact_inbox_keeps_a_distance_from_its_last_row(admin, week):
    for number in range(10):
        run = job(f"slurm/della/2{number}", user=f"user-{number}", end_ms=to_ms(NOW))
        cause(of=run, on=gpu(20 + number))
        finding(run, last_ms=to_ms(NOW))

    page = tight(admin.get("/findings?view=compact").content.decode())

    assert '<p class="sub under-kpis">12 in all' in page


@pytest.mark.parametrize(("group_by", "rows"), [("pattern", 2), ("finding", 4)])
def test_a_compact_inbox_has_a_line_for_each_and_is_decided_all_the_same(
    admin, week, group_by, rows
):
    Job.objects.filter(user="bob").update(name="<b>")

    page = tight(admin.get(f"/findings?view=compact&group_by={group_by}").content.decode())

    assert page.count("<tr data-row>") == rows
    assert page.count('title="How sure the diagnosis is, by the sensors there were">high<') == rows
    assert page.count("a month</span>") == (group_by == "pattern")
    assert ">one run<" in page
    assert page.count('form="bulk"') >= rows
    assert "could be saved</span>" not in page  # what to do stands in the other form alone
    assert "&lt;b&gt;" in page
    assert re.search(r'href="[?][^"]*">with what to do', page)


def test_one_decision_is_about_every_run_of_what_is_ticked(admin, week):
    answer = admin.post(
        "/findings/act",
        {"action": "accept", "group_by": "pattern", "id": [week[0].pk], "back": "/findings"},
        follow=True,
    )

    assert "3 findings accepted." in answer.content.decode()
    assert list(Finding.objects.order_by("pk").values_list("status", flat=True)) == [
        *["accepted"] * 3,
        "open",
    ]
    assert AuditEntry.objects.filter(action="finding.accept").count() == 3


@pytest.mark.parametrize(
    ("status", "offered"),
    [
        ("open", ["accept", "snooze", "fixed", "tell", "assign"]),
        ("accepted", ["snooze", "fixed", "tell", "reopen", "assign"]),
        ("dismissed", ["reopen"]),
    ],
)
def test_only_what_applies_is_offered_for_what_is_ticked(admin, week, status, offered):
    Finding.objects.update(status=status)

    page = tight(admin.get(f"/findings?status={status}").content.decode())

    form = page[page.index('id="bulk"') :].partition("</form>")[0]
    assert re.findall(r'name="action" value="(\w+)"', form) == offered


def test_several_are_opened_again_at_once(admin, week):
    Finding.objects.update(status="dismissed")

    sent = {"action": "reopen", "group_by": "pattern", "id": [week[0].pk]}
    admin.post("/findings/act?status=dismissed", sent)

    stands = dict(Finding.objects.values_list("pk", "status"))
    assert [stands[each.pk] for each in week] == ["open", "open", "open", "dismissed"]


def test_others_findings_are_not_decided_at_once_either(viewer, week):
    answer = viewer.post(
        "/findings/act",
        {"action": "accept", "group_by": "pattern", "id": [week[0].pk]},
        follow=True,
    )

    assert "3 not done: it is for whose job it is" in answer.content.decode()
    assert set(Finding.objects.values_list("status", flat=True)) == {"open"}
    assert viewer.post("/findings/act", {"action": "explode", "id": [1]}).status_code == 404


@pytest.mark.parametrize("pk", ["99999999999999999999", "-1", "1e5", "abc", ""])
@pytest.mark.parametrize("action", ["accept", "fixed", "snooze"])
def test_ids_that_are_none_decide_nothing_and_lead_to_no_other_site(admin, week, pk, action):
    sent = {"action": action, "group_by": "pattern", "id": [pk], "back": "//evil.example/"}

    answer = admin.post("/findings/act", sent, follow=True)

    assert answer.redirect_chain == [("/findings", 302)]
    assert set(Finding.objects.values_list("status", flat=True)) == {"open"}


def test_a_decision_sent_again_is_one_decision(admin, week):
    sent = {"action": "accept", "group_by": "pattern", "id": [week[0].pk]}
    admin.post("/findings/act", sent)

    again = admin.post("/findings/act", sent, follow=True)

    assert "Nothing ticked is still in this list." in again.content.decode()
    assert AuditEntry.objects.filter(action="finding.accept").count() == 3


def test_the_owner_is_told_once_a_day_where_alerts_go(admin, week):
    sent = {"action": "tell", "group_by": "pattern", "id": [week[0].pk]}
    nobody = admin.post("/findings/act", sent, follow=True).content.decode()
    assert "there is no channel yet" in nobody
    slack_channel("https://slack.example/hook")

    first = admin.post("/findings/act", sent, follow=True).content.decode()
    again = admin.post("/findings/act", sent, follow=True).content.decode()

    assert "train: sent to ops." in first
    assert "(was told today already)" in again
    [delivery] = Delivery.objects.all()
    assert "train in 3 runs" in delivery.message["title"]
    assert "$3.00–6.00" in str(delivery.message["fields"])


def test_a_finding_from_the_list_leads_to_the_one_before_and_after(admin, week):
    order = [line.finding.pk for line in inbox.inbox(WEEK, now=NOW).of_jobs[:]]

    page = admin.get(f"/findings/{order[1]}/around?range=7d", headers=PART).content.decode()

    assert "2 of 4 open findings" in tight(page)
    assert f'href="/findings/{order[0]}?range=7d" data-key="k"' in tight(page)
    assert f'href="/findings/{order[2]}?range=7d" data-key="j"' in tight(page)
    from_a_job = tight(admin.get(f"/findings/{order[1]}/around", headers=PART).content.decode())
    assert "2 of 4 open findings" in from_a_job
    assert f'href="/findings/{order[2]}?" data-key="j"' in from_a_job


def test_what_is_around_a_finding_is_a_part_that_leads_to_its_page_by_itself(admin, week):
    alone = admin.get(f"/findings/{week[0].pk}/around?range=7d")

    assert alone.url == f"/findings/{week[0].pk}?range=7d"


def test_its_page_fetches_what_is_around_it_afterwards_and_leads_to_the_list_until_then(
    admin, week
):
    page = tight(admin.get(f"/findings/{week[0].pk}?range=7d").content.decode())

    assert f'hx-get="/findings/{week[0].pk}/around?range=7d"' in page
    assert '<a href="/findings?range=7d">All findings</a>' in page


def test_a_machines_finding_leads_to_those_before_and_after_it_as_well(admin, week):
    capacity("gpu_fault", start=NOW - DAY)
    of_machine = place("gpu_fault", node=gpu().node)
    order = [line.finding.pk for line in inbox.inbox(WEEK, now=NOW).of_jobs[:]]

    own = tight(admin.get(f"/findings/{of_machine.pk}/around", headers=PART).content.decode())
    first_of_jobs = tight(admin.get(f"/findings/{order[0]}/around", headers=PART).content.decode())

    assert "1 of 5 open findings" in own
    assert f'href="/findings/{order[0]}?" data-key="j"' in own
    assert f'href="/findings/{of_machine.pk}?" data-key="k"' in first_of_jobs


def test_one_that_the_inbox_does_not_have_leads_to_its_first(admin, week):
    old = finding(job("slurm/della/8", name="old"), first_ms=1, last_ms=2)
    order = [line.finding.pk for line in inbox.inbox(WEEK, now=NOW).of_jobs[:]]

    page = tight(admin.get(f"/findings/{old.pk}/around", headers=PART).content.decode())

    assert f'href="/findings/{order[0]}?" data-key="j"' in page
    assert "open findings<" not in page


@pytest.mark.usefixtures("_frozen")
def test_who_decides_about_some_rows_alone_is_asked_about_these(week):
    ann = User.objects.create(username="ann-1", role=User.Role.FINANCE)
    Finding.objects.filter(pk=week[0].pk).update(assignee=ann)
    client = Client()
    client.force_login(ann)

    page = tight(client.get("/findings?group_by=finding&from=now-7d&to=now").content.decode())

    assert "Select the one you decide about" in page
    assert page.count('name="id"') == 1


def test_one_that_was_decided_is_not_counted_among_those_that_are_open_and_still_leads_on(
    admin, week
):
    order = [line.finding.pk for line in inbox.inbox(WEEK, now=NOW).of_jobs[:]]
    admin.post(f"/findings/{order[1]}/accept")

    third = tight(admin.get(f"/findings/{order[2]}/around?range=7d", headers=PART).content.decode())
    accepted = tight(
        admin.get(f"/findings/{order[1]}/around?range=7d", headers=PART).content.decode()
    )

    assert "2 of 3 open findings" in third
    assert f'href="/findings/{order[0]}?range=7d" data-key="k"' in third
    assert "open findings<" not in accepted
    assert f'href="/findings/{order[2]}?range=7d" data-key="j"' in accepted


def test_a_row_says_what_its_saving_is_of_then_its_month(admin, week):
    page = in_text(tight(admin.get("/findings").content.decode()))

    saving, _, rest = page.partition("could be saved of $6.00 wasted · 3 runs")
    assert saving.rstrip().endswith("$3.00–6.00")
    assert rest.strip().startswith("≈ $6.43–13 a month if it repeats: 3 runs in 14 days")


@pytest.mark.parametrize(
    ("waste", "words"),
    [
        (("idle_certain_ms",), "wasted"),
        (("stalled_potential_ms",), "potential, no waste"),
        (("underused_ms", "idle_certain_ms"), "wasted and potential"),
    ],
)
def test_a_row_and_its_finding_call_what_is_potential_alike(admin, waste, words):
    rate()
    serving = job("slurm/della/9", kind="service")
    for number, name in enumerate(waste, start=1):
        cause("bursty_service", of=serving, start=NOW - number * 2 * HOUR, waste=name)
    of_it = finding(serving, "bursty_service")

    row = in_text(tight(admin.get("/findings").content.decode()))
    own = in_text(tight(admin.get(f"/findings/{of_it.pk}?from=now-7d&to=now").content.decode()))

    dollars = f"${2 * len(waste)}.00"
    assert f"of {dollars} {words} · one run" in row
    assert f"{words}, last 7 days" in row
    assert f"{words.capitalize()} {dollars}" in own


@pytest.mark.parametrize(
    ("outcome", "says"),
    [("", "none yet"), ("waiting", "none yet"), ("unproven", "$0.00"), ("improved", "none yet")],
)
def test_nothing_is_realised_yet_until_a_fix_was_measured(admin, session, outcome, says):
    """Of one that improved without hours what was saved is not known."""
    if outcome:
        Fix.objects.create(
            user="ann", job_name="train", gpus=1, cause="idle_held", finding=session, at=NOW - DAY,
            was_noticed=False, outcome=outcome, runs_before=3, runs_after=3,
            saved_low_ms=0, saved_high_ms=0,
        )  # fmt: skip

    page = in_text(tight(admin.get("/findings").content.decode()))

    tile = page.partition("Realised")[2].partition("never added")[0]
    assert tile.strip().startswith(says)
    assert ("GPU-hours" in tile) == (says != "none yet")
