"""Digests of teams and people: each of its own time alone, to its own people, when it is Monday
there. Every GPU costs $10 an hour.
"""

from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from html import unescape

import pytest

from fleetwatch.accounts.models import OthersShown, Team, User
from fleetwatch.accounts.services import create_api_token
from fleetwatch.alerts.messaging.unsubscribing import read_token
from fleetwatch.diagnosis.models import Finding, Fix
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.fences import PartlyDoneError
from fleetwatch.lib.intervals import to_ms
from fleetwatch.notify.models import Delivery
from fleetwatch.reports import digest, services
from fleetwatch.reports.models import Report
from tests.accounts.others import shown
from tests.alerts.factories import a_rule, an_incident
from tests.alerts.people import app, mail, person, prefers, route, team, webhook
from tests.costs.factories import a_gpu, a_job, a_rate, an_entry, set_budget
from tests.dashboard import factories
from tests.diagnosis import told
from tests.shared_rows import shared_rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]

HOUR_MS = 3_600_000
HOUR = timedelta(hours=1)
WEEK_47 = datetime(2026, 11, 16, tzinfo=UTC)  # a Monday
WEEK_46 = WEEK_47 - timedelta(days=7)
MONDAY_NINE = datetime(2026, 11, 23, 9, tzinfo=UTC)


@pytest.fixture(scope="module")
def _worked(django_db_setup, django_db_blocker) -> Iterator[GPU]:
    """ann of nlp: $20, of them $10 wasted, after $10. bob of nlp: $20, after nothing. eve of
    vision: $10, after $10. What nobody holds: $10.
    """
    with shared_rows(django_db_blocker):
        yield _two_weeks()


def _two_weeks() -> GPU:
    gpu = a_gpu()
    a_rate("10", gpu=gpu)
    anns = a_job(key="slurm/della/1", user="ann", team="nlp", name="sweep-7")
    bobs = a_job(key="slurm/della/2", user="bob", team="nlp", name="train")
    eves = a_job(key="slurm/della/3", user="eve", team="vision", name="serve")
    for start, job in (
        (WEEK_46, anns),
        (WEEK_46 + HOUR, eves),
        (WEEK_47, anns),
        (WEEK_47 + 2 * HOUR, bobs),
        (WEEK_47 + 3 * HOUR, bobs),
        (WEEK_47 + 4 * HOUR, eves),
    ):
        an_entry(gpu, job=job, start=start)
    an_entry(gpu, "idle", job=anns, start=WEEK_47 + HOUR, tier="certain")
    an_entry(gpu, "orphaned", start=WEEK_47 + 5 * HOUR)
    return gpu


@pytest.fixture(autouse=True)
def gpu(_worked, db, time_machine) -> GPU:
    """Its week is over."""
    time_machine.move_to(MONDAY_NINE, tick=False)
    return deepcopy(_worked)


def compute(now: datetime = MONDAY_NINE, **changes) -> dict[str, int]:
    return services.compute_weekly_digests(now, **changes)


def of(kind: str, subject: str | User = "") -> Report:
    name = str(subject.pk) if isinstance(subject, User) else subject
    return Report.objects.get(kind=kind, subject=name)


def fields(report: Report) -> dict[str, str]:
    return dict(report.content["message"]["fields"])


def test_a_person_is_told_of_his_own_jobs_alone():
    app()
    ann = person("ann")

    compute()

    message = of(digest.PERSON, ann).content["message"]
    assert message["title"] == "Your GPU week, 16 to 22 Nov 2026: $10.00 wasted of $20.00"
    assert message["fields"] == [
        ["Spend", "$20.00 (+100 %)"],
        ["Wasted", "$10.00, 1.0 GPU-h"],
        ["Useful share of cost", "50 % (-50.0 points)"],
        ["Telemetry coverage", "100 %"],
    ]
    [delivery] = Delivery.objects.all()
    assert (delivery.address, delivery.message["title"]) == ("U0ANN", message["title"])
    link = delivery.message["unsubscribe_url"]
    assert read_token(link.rpartition("/")[2]) == (ann, "digest")
    assert message["unsubscribe_url"] == ""  # its page is not read by the person alone


def test_a_team_is_told_of_its_time_in_its_channel():
    hook = webhook()
    route("team", hook, of=team("nlp"))

    compute()

    message = of(digest.TEAM, "nlp").content["message"]
    assert message["title"] == "GPU week of NLP, 16 to 22 Nov 2026: $10.00 wasted of $40.00"
    assert dict(message["fields"])["Spend"] == "$40.00 (+300 %)"
    assert Delivery.objects.values_list("channel", "address").get() == (hook.pk, "")


def test_a_team_is_told_of_its_people_who_wasted_most_first_with_what_each_spent():
    compute()

    content = of(digest.TEAM, "nlp").content
    ann, bob = content["people"]
    assert (ann["name"], ann["cost_usd"], ann["wasted_usd"]) == ("ann", "20.000000", "10.000000")
    assert (bob["name"], bob["wasted_usd"]) == ("bob", "0.000000")
    assert fields(of(digest.TEAM, "nlp"))["People"] == "ann $10.00 wasted"
    [people] = [each for each in content["message"]["lists"] if each["title"] == "People"]
    assert [(each["value"], each["about"]) for each in people["items"]] == [
        ("$20.00", "$10.00 wasted"),
        ("$20.00", "$0.00 wasted"),
    ]


def test_a_persons_line_leads_to_the_same_dollars(client):
    compute()

    client.force_login(factories.user())
    page = client.get(of(digest.TEAM, "nlp").content["people"][0]["page"])

    assert page.context["filters"] == {"team": "nlp", "user": "ann"}
    assert ">$20.00<" in page.content.decode()


def test_the_fleets_digest_names_no_people():
    compute()

    assert of(digest.FLEET).content["people"] == []


def test_a_team_hears_how_its_budget_stands():
    nlp = team("nlp")
    set_budget(nlp, date(2026, 11, 1), Decimal(1000), now=WEEK_46, by="finance")

    compute()

    # $10 of the week before and $40 are spent of November
    assert fields(of(digest.TEAM, "nlp"))["Budget November 2026"] == (
        "$50.00 of $1,000 by 22 Nov: days missing"
    )
    assert "Budget November 2026" not in fields(of(digest.TEAM, "vision")) | fields(
        of(digest.FLEET)
    )


def test_a_budget_that_was_set_after_the_week_says_so():
    set_budget(team("nlp"), date(2026, 11, 1), Decimal(1000), now=MONDAY_NINE, by="finance")

    compute()

    told_of_budget = fields(of(digest.TEAM, "nlp"))["Budget November 2026"]
    assert told_of_budget.endswith("; the budget was set after the week")


def test_causes_come_with_what_they_could_save_whose_they_are_and_what_to_do(gpu, client):
    ann, bob = person("ann"), person("bob")
    job = Job.objects.get(key="slurm/della/1")
    Job.objects.update(scheduler="slurm", external_id="48213")
    told.cause(of=job, on=gpu, start=WEEK_47 + HOUR)
    told.finding(job, first_ms=to_ms(WEEK_47 + HOUR), last_ms=to_ms(WEEK_47 + 2 * HOUR))

    compute()

    step = "End the job: what it did since its last checkpoint is lost."
    row = ["$5.00–10", "Idle: still held", "sweep-7"]
    assert of(digest.TEAM, "nlp").content["message"]["rows"] == [
        ["Could save", "Cause", "Job or node", "Owner"],
        [*row, "ann (NLP)"],
    ]
    assert of(digest.PERSON, ann).content["message"]["rows"][1] == row
    assert of(digest.PERSON, bob).content["message"]["rows"] == []
    assert (
        of(digest.FLEET)
        .content["message"]["text"]
        .startswith(f"Begin with sweep-7: {step}\nscancel 48213\nCompared")
    )
    client.force_login(ann)
    page = client.get(f"/reports/{of(digest.PERSON, ann).pk}").content.decode()
    page = page.split('id="message"')[0]  # below which the mail has it all once more
    assert page.count(step) == 1
    assert "by the middle of what a fix could save of all that it helps" in page
    assert f'href="/findings/{Finding.objects.get(job=job).pk}"' in page
    assert '<code id="fix-1">scancel 48213</code>' in page
    assert "Begin with" not in page


def test_a_digest_that_can_not_be_made_keeps_no_other_from_being_sent(gpu):
    ann = person("ann")
    bob = person("bob")
    job = Job.objects.get(key="slurm/della/1")
    newer = "of_a_newer_version"
    told.cause(newer, of=job, on=gpu, start=WEEK_47 + HOUR)
    told.finding(job, newer, first_ms=to_ms(WEEK_47 + HOUR), last_ms=to_ms(WEEK_47 + 2 * HOUR))

    with pytest.raises(PartlyDoneError, match=f"person_digest {ann.pk}: "):
        compute()

    assert of(digest.PERSON, bob).content["week"] == "2026-W47"
    assert of(digest.TEAM, "vision").content["week"] == "2026-W47"


def test_savings_that_fixes_of_the_quarter_won_are_told_to_whose_they_are():
    ann, bob = person("ann"), person("bob")
    job = Job.objects.get(key="slurm/della/1")
    Fix.objects.create(
        user="ann",
        job_name="sweep-7",
        gpus=1,
        cause="idle_held",
        finding=told.finding(job),
        at=WEEK_46 - timedelta(days=20),
        was_noticed=False,
        outcome="improved",
        runs_before=5,
        runs_after=5,
        saved_low_ms=2 * HOUR_MS,
        saved_high_ms=3 * HOUR_MS,
    )

    compute()

    won = "up to 3.0 GPU-h, by 1 fix made in Q4 until 22 Nov, measured until 23 Nov"
    assert fields(of(digest.PERSON, ann))["Savings won"].endswith(won)
    assert fields(of(digest.TEAM, "nlp"))["Savings won"].endswith(won)
    assert fields(of(digest.FLEET))["Savings won"].endswith(won)
    assert "Savings won" not in fields(of(digest.PERSON, bob)) | fields(of(digest.TEAM, "vision"))


def test_a_fix_after_the_week_is_not_told_of_it():
    ann = person("ann")
    job = Job.objects.get(key="slurm/della/1")
    saved = {"outcome": "improved", "saved_low_ms": HOUR_MS, "saved_high_ms": HOUR_MS}
    runs = {"was_noticed": False, "runs_before": 5, "runs_after": 5}
    Fix.objects.create(
        user="ann",
        job_name="sweep-7",
        gpus=1,
        cause="idle_held",
        finding=told.finding(job),
        at=WEEK_47 + timedelta(days=7),
        **saved,
        **runs,
    )

    compute()

    assert "Savings won" not in fields(of(digest.PERSON, ann))


def test_incidents_of_the_week_are_counted_with_how_soon_somebody_took_them():
    ann, bob = person("ann"), person("bob")
    rule, nlp = a_rule(), team("nlp")

    def incident(subject: str, opened_at: datetime, after_min: int | None, **changes) -> None:
        taken_at = None if after_min is None else opened_at + timedelta(minutes=after_min)
        facts = {"person": ann, "team": nlp, "acknowledged_at": taken_at}
        an_incident(rule, subject, opened_at=opened_at, **(facts | changes))

    incident("a", WEEK_47, 30)
    incident("b", WEEK_47 + HOUR, 60)
    incident("c", WEEK_47 + 2 * HOUR, None, person=bob)
    incident("before", WEEK_47 - timedelta(milliseconds=1), 5)
    incident("after", WEEK_47 + timedelta(days=7), 5)
    incident("late", WEEK_47 + HOUR, 5, is_late=True)

    compute()

    assert fields(of(digest.PERSON, ann))["Incidents"] == "2, 2 acknowledged after 45 m on average"
    assert fields(of(digest.PERSON, bob))["Incidents"] == "1, none acknowledged"
    assert fields(of(digest.TEAM, "nlp"))["Incidents"] == "3, 2 acknowledged after 45 m on average"
    assert fields(of(digest.TEAM, "vision"))["Incidents"] == "none"


def test_where_nothing_changed_nothing_is_sent_and_the_digest_is_kept():
    app()
    eve = person("eve")

    did = compute()

    kept = of(digest.PERSON, eve).content
    assert (kept["has_news"], kept["sent"]) == (False, 0)
    assert did == {"computed": 4, "queued": 0}
    assert not Delivery.objects.exists()


def test_each_is_sent_once_however_often_it_is_due():
    app()
    person("ann")
    route("team", webhook(), of=team("nlp"))

    did = [compute(MONDAY_NINE + timedelta(hours=hours)) for hours in (0, 0, 1, 100)]

    # ann's, eve has no account, both teams' and the fleet's
    assert [each["computed"] for each in did] == [4, 0, 0, 0]
    assert Delivery.objects.count() == 2


def test_what_a_run_leaves_the_next_one_does():
    person("ann")

    assert [compute(limit=3)["computed"] for _ in range(3)] == [3, 1, 0]


def test_nine_is_nine_where_the_person_is(gpu):
    ann = person("ann")
    job = Job.objects.get(key="slurm/della/1")
    an_entry(gpu, job=job, start=WEEK_47 + 30 * HOUR)
    prefers(ann, time_zone="America/New_York")
    compute()
    in_utc = Report.objects.filter(kind=digest.PERSON).count()

    compute(MONDAY_NINE + 4 * HOUR + timedelta(minutes=59))
    too_early = Report.objects.filter(kind=digest.PERSON).count()
    compute(MONDAY_NINE + 5 * HOUR)

    report = of(digest.PERSON, ann)
    assert (in_utc, too_early) == (0, 0)
    assert report.start == WEEK_47 + 5 * HOUR
    assert report.content["zone"] == "America/New_York"
    # what began the week in UTC was Sunday evening there
    assert fields(report)["Spend"] == "$10.00 (-50 %)"


def test_who_moves_to_another_zone_gets_no_second_digest_of_the_week():
    ann = person("ann")
    compute()

    prefers(ann, time_zone="Europe/Berlin")

    assert compute(MONDAY_NINE + HOUR)["computed"] == 0


@pytest.mark.parametrize(
    ("preference", "computed", "addresses"),
    [
        ({}, 1, ["U0ANN"]),
        ({"way": "email"}, 1, ["ann@people.example"]),
        ({"way": "none"}, 1, []),
        ({"gets_digest": False}, 0, []),
    ],
)
def test_a_person_says_whether_and_how(preference, computed, addresses):
    app()
    mail()
    ann = person("ann")
    prefers(ann, **preference)

    compute()

    assert Report.objects.filter(kind=digest.PERSON).count() == computed
    assert list(Delivery.objects.values_list("address", flat=True)) == addresses


def test_who_left_and_who_claims_only_gets_none():
    person("ann", is_active=False)
    bob = person("bob")
    bob.identities.update(confirmed_at=None)

    compute()

    assert not Report.objects.filter(kind=digest.PERSON).exists()


def test_a_week_that_was_not_seen_whole_says_so(gpu):
    ann = person("ann")
    job = Job.objects.get(key="slurm/della/1")
    an_entry(gpu, "unobserved", job=job, start=WEEK_47 + 6 * HOUR)
    an_entry(gpu, "unobserved", job=job, start=WEEK_47 - 6 * HOUR)

    compute()

    report = of(digest.PERSON, ann)
    assert fields(report)["Telemetry coverage"] == "67 %"  # 2 of 3 hours
    assert report.content["message"]["text"].splitlines()[-2:] == [
        "Of the week before nobody saw 50 % of the GPU time: its waste may be more.",
        "33 % of the GPU time nobody saw: it is in what was spent, and in no waste.",
    ]


@pytest.fixture(params=OthersShown.values)
def readers(request) -> dict[str, User]:
    """ann and bob are in nlp, eve is in vision; the boss sees everything."""
    people = {name: person(name) for name in ("ann", "bob", "eve")}
    team("nlp", people["ann"], people["bob"])
    team("vision", people["eve"])
    compute()
    shown(request.param)
    return people | {"boss": person("boss", role="admin")}


READ_BY = [
    (digest.PERSON, "ann", {"ann"}),
    (digest.TEAM, "nlp", {"ann", "bob"}),
    (digest.TEAM, "vision", {"eve"}),
]


def test_a_digest_is_read_by_whose_it_is(readers, client):
    reports = {
        of(kind, readers.get(subject, subject)).pk: allowed for kind, subject, allowed in READ_BY
    }
    for name, reader in readers.items():
        client.force_login(reader)
        token = create_api_token(reader, scope="read", now=MONDAY_NINE)
        bearer = {"Authorization": f"Bearer {token}"}
        listed = client.get("/reports").content.decode()
        for pk, allowed in reports.items():
            answers = [
                client.get(f"/reports/{pk}"),
                client.get(f"/reports/{pk}/mail"),
                client.get(f"/api/v1/reports/{pk}", headers=bearer),
            ]
            expected = 200 if name in allowed else 404
            assert [answer.status_code for answer in answers] == [expected] * 3, (name, pk)
            assert (f'href="/reports/{pk}"' in listed) is (name in allowed), (name, pk)
    for pk in reports:
        assert client.get(f"/reports/{pk}/print").status_code == 404
    client.logout()
    for pk in reports:
        assert client.get(f"/reports/{pk}").status_code == 302


def test_the_page_says_what_the_message_said(readers, client):
    client.force_login(readers["ann"])
    report = of(digest.PERSON, readers["ann"])

    page = client.get(f"/reports/{report.pk}").content.decode()

    assert "Your GPU week, 16 to 22 Nov 2026: $10.00 wasted of $20.00" in page
    assert "$20.00 (+100 %)" in page
    assert "16–22 Nov 2026" in page
    assert "no channel or address" in page
    # and the message itself, as a mail has it
    assert "as it would be sent by mail" in page
    sent = unescape(page).split('<pre class="as-sent">')[1].split("</pre>")[0]
    assert sent.startswith("Your GPU week, 16 to 22 Nov 2026: $10.00 wasted of $20.00")
    assert "unsubscribe" not in sent


def test_names_are_text(client):
    ann = person("ann", name="<b>Ann</b> *x*")
    Team.objects.filter(slug="nlp").update(name="<script>nlp\n")
    team("nlp", ann)
    compute()
    client.force_login(ann)

    page = client.get(f"/reports/{of(digest.TEAM, 'nlp').pk}").content.decode()

    assert "GPU week of &lt;script&gt;nlp, 16 to 22 Nov 2026" in page
