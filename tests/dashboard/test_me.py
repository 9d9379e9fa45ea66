"""My page: the jobs under the reader's own names, what they wasted and what to do about it."""

import re
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest

from fleetwatch.accounts.models import ApiToken, Identity, OthersShown, User
from fleetwatch.accounts.people import Name, give_name
from fleetwatch.accounts.visibility import set_others_shown
from fleetwatch.diagnosis.models import Finding, Fix
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.notify.models import Channel
from tests.costs.factories import an_entry
from tests.dashboard import factories
from tests.diagnosis.told import NOW, cause, finding, gpu, job, rate
from tests.markup import tight

pytestmark = pytest.mark.django_db


@pytest.fixture
def vera(db, client, _frozen) -> User:
    user = factories.user(role="engineer", username="vera")
    client.force_login(user)
    return user


@pytest.fixture
def found():
    """An open finding of a job that wasted, held by "vera" of the cluster "della"."""
    rate("2.40")
    of = job(name="mine", user="vera")
    cause(of=of, start=NOW - timedelta(hours=2))
    return finding(of, first_ms=to_ms(NOW) - 2 * HOUR_MS, last_ms=to_ms(NOW) - HOUR_MS)


def named(user: User, name: str = "vera", cluster: str = "") -> None:
    give_name(user, Name("unix", name, cluster), source=Identity.Source.ADMIN, now=NOW)


def page(client, address: str = "/me") -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return tight(answer.content.decode())


@pytest.mark.usefixtures("_frozen")
@pytest.mark.parametrize(
    ("role", "home"), [("engineer", "/me"), ("lead", ""), ("finance", ""), ("operator", "")]
)
def test_home_is_an_engineers_own_page_and_the_overview_for_the_others(client, found, role, home):
    client.force_login(factories.user(role=role, username="vera"))

    answer = client.get("/")

    assert answer.get("Location", "") == home
    assert "<h1>" in page(client, "/overview")


def test_who_has_no_name_yet_is_asked_for_it_and_shown_no_job(client, vera, found):
    seen = page(client)

    assert "Jobs run under<code>vera</code>" in seen
    assert "mine" not in seen
    assert 'value="vera"' in seen


def test_without_a_job_of_that_name_nothing_is_guessed(client, vera):
    assert "Give the user name that your jobs run as, below" in page(client)


def test_a_name_that_is_like_the_own_is_offered_with_one_press(client, vera, found):
    User.objects.filter(pk=vera.pk).update(username="vera.lang", role="admin")
    Job.objects.filter(name="mine").update(user="vlang")

    seen = page(client)

    assert "No job runs under<code>vera.lang</code>. Is one of these you?" in seen
    assert '<button class="button quiet" name="name" value="vlang">I am vlang</button>' in seen
    client.post("/me/names", {"system": "unix", "name": "vlang"})
    assert Identity.objects.get().name == "vlang"


def test_who_runs_no_jobs_is_led_on_to_the_fleet_and_to_somebodys_page(client, vera, found):
    bo = factories.user(username="bo")
    named(bo, "vera")
    client.force_login(factories.user(role="admin", username="root"))

    seen = page(client)

    assert 'href="/overview">Overview of the fleet' in seen
    assert f'href="/settings/people/{bo.pk}/jobs">bo’s page, as an example' in seen


def test_who_does_not_see_everybody_is_offered_no_others_names(client, found):
    client.force_login(factories.user(role="engineer", username="ver"))
    assert "I am vera" in page(client)

    set_others_shown(OthersShown.OWN_TEAMS)

    assert "vera" not in page(client)


def test_jobs_findings_and_dollars_of_the_own_names_are_there(client, vera, found):
    named(vera)

    seen = page(client)

    assert found.its_job.key in seen
    assert "1 open finding<" in seen
    # what comes before and after it there are findings of the same owner
    [address] = re.findall(rf'href="(/findings/{found.pk}\?[^"]*)"', seen)
    assert parse_qs(urlsplit(unescape(address)).query)["user"] == [found.its_job.user]
    assert "formaction" in seen


def test_runs_of_one_name_with_one_cause_are_one_line_as_in_the_inbox(client, vera, found):
    named(vera)
    again = job("slurm/della/2", name="mine", user="vera")
    cause(of=again, on=gpu(2), start=NOW - timedelta(hours=2))
    finding(again, first_ms=to_ms(NOW) - 2 * HOUR_MS, last_ms=to_ms(NOW) - HOUR_MS)

    shown = client.get("/me").context["patterns"]
    seen = page(client)

    assert [(each.pattern.job_name, each.pattern.runs) for each in shown] == [("mine", 2)]
    assert "2 open findings<" in seen
    [runs] = re.findall(r'href="(/findings\?[^"]*)">2 runs<', seen)
    assert len(client.get(unescape(runs)).context["lines"]) == 2


@pytest.mark.parametrize(("name", "cluster"), [("bo", ""), ("vera", "elsewhere")])
def test_what_is_anothers_or_on_another_cluster_is_not(client, vera, found, name, cluster):
    named(vera, name, cluster)

    seen = page(client)

    assert found.its_job.key not in seen
    assert "Nothing to fix" in seen


def test_with_two_names_the_jobs_of_both_are_there(client, vera, found):
    other = job("slurm/della/2", name="second", user="v2")
    cause(of=other, start=NOW - timedelta(hours=2))
    finding(other, first_ms=to_ms(NOW) - 2 * HOUR_MS, last_ms=to_ms(NOW) - HOUR_MS)
    for name in ("vera", "v2"):
        named(vera, name)

    assert "2 open findings<" in page(client)


def fix(name: str, of: Finding | None = None, user: str = "vera") -> None:
    """Told of a finding, or noticed."""
    Fix.objects.create(
        finding=of, user=user, job_name=name, cause="idle_held", gpus=1,
        at=NOW - timedelta(days=1), outcome="waiting", was_noticed=of is None,
        runs_before=3, runs_after=0, saved_low_ms=0, saved_high_ms=0,
    )  # fmt: skip


def test_what_the_own_fixes_brought_is_there_and_no_others(client, vera, found):
    named(vera)
    fix("my fix", found)
    fix("his fix", user="bo")

    seen = page(client)

    assert "my fix" in seen
    assert "his fix" not in seen


@pytest.mark.parametrize(("cluster", "is_own"), [("", True), ("della", True), ("alps", False)])
def test_a_namesakes_fix_on_another_cluster_is_not_the_own(client, vera, found, cluster, is_own):
    named(vera, "vera", cluster)
    fix("told of the finding", found)
    job("slurm/della/3", name="a series", user="vera")
    Job.objects.update(cluster="della")
    fix("a series")  # noticed

    seen = page(client)

    assert ("told of the finding" in seen, "a series" in seen) == (is_own, is_own)


def test_a_noticed_fix_of_no_job_of_the_own_is_not_shown(client, vera, found):
    named(vera)
    fix("of no job here")

    assert "of no job here" not in page(client)


def test_a_claim_waits_and_gives_nothing_until_it_is_confirmed(client, vera, found):
    client.post("/me/names", {"system": "unix", "name": "vera", "cluster": ""})

    seen = page(client)
    assert "waits for an admin" in seen
    assert found.its_job.key not in seen


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({"system": "unix", "name": ""}, "a name has 1 to 255 characters"),
        ({"system": "oidc", "name": "x"}, "Choose one from the list"),
        ({"system": "", "name": "x"}, "Choose one from the list"),
    ],
)
def test_a_wrong_claim_is_refused(client, vera, sent, sentence):
    answer = client.post("/me/names", sent)

    assert answer.status_code == 422
    assert sentence in answer.content.decode()
    assert not Identity.objects.exists()


def test_only_own_names_and_tokens_are_taken_away(client, vera):
    bo = factories.user(username="bo")
    named(bo, "bo")
    client.post("/me/tokens", {"name": "notebook"})
    theirs = ApiToken.objects.create(
        user=bo, digest="x", hint="fw_xxxxx", created_at=NOW, scope="read"
    )

    assert client.post(f"/me/names/{bo.identities.get().pk}/remove").status_code == 404
    assert client.post(f"/me/tokens/{theirs.pk}/revoke").status_code == 404
    assert client.post(f"/me/tokens/{vera.api_tokens.get().pk}/revoke").status_code == 302
    assert [token.revoked_at is None for token in ApiToken.objects.order_by("pk")] == [False, True]


@pytest.mark.parametrize(
    ("source", "status"),
    [("claim", 302), *((each, 404) for each in Identity.Source.values if each != "claim")],
)
def test_what_others_gave_is_not_the_persons_to_take(client, vera, source, status):
    """Without the directory's name nobody would be told that its person is gone."""
    name = give_name(vera, Name("directory", "vera"), source=source, now=NOW)

    assert ("/remove" in page(client)) is (source == "claim")
    assert client.post(f"/me/names/{name.pk}/remove").status_code == status
    assert Identity.objects.exists() is (source != "claim")


def test_an_admin_sees_somebodys_jobs_and_nobody_else_does(client, vera, found):
    named(vera)
    address = f"/settings/people/{vera.pk}/jobs"
    assert client.get(address).status_code == 403
    client.force_login(factories.user(username="root"))

    seen = page(client, address)

    assert "Jobs of vera" in seen
    assert found.its_job.key in seen
    assert "API tokens" not in seen


def test_somebody_elses_jobs_are_theirs_among_people_and_lead_to_the_account(client, vera, found):
    named(vera)
    client.force_login(factories.user(username="root"))

    seen = page(client, f"/settings/people/{vera.pk}/jobs")
    main = seen[seen.index("<main") :]

    assert "yours" not in main
    assert "Saved by vera’s fixes" in main
    assert f'<a href="/settings/people/{vera.pk}">vera</a>/ Jobs' in main
    [current] = re.findall(r'href="([^"]+)"[^>]*aria-current="page"', seen[: seen.index("<main")])
    assert current.startswith("/settings/people")


def ended_jobs(count: int) -> None:
    """Of vera, each an hour idle."""
    for number in range(count):
        of = job(name=f"mine-{number}", user="vera", key=f"slurm/della/90{number}")
        Job.objects.filter(pk=of.pk).update(end_ms=to_ms(NOW) - number)
        factories.entry(gpu(), hours_ago=2 + number, state="idle", held_by=of).save()


def test_of_many_jobs_five_are_shown_and_the_others_behind_how_many_they_are(client, vera):
    rate("2.40")
    named(vera)
    ended_jobs(7)

    seen = page(client)

    ended = seen[seen.index("<h2>Ended</h2>") :]
    first, rest = ended.split("<summary>2 more</summary>")
    assert len(re.findall(r"mine-\d<", first)) == 5
    assert len(re.findall(r"mine-\d<", rest)) == 2


def test_of_more_ended_jobs_than_are_shown_it_says_how_many_there_are(client, vera):
    """Twenty lines, one of which runs, of 21 that ended."""
    rate("2.40")
    named(vera)
    ended_jobs(21)
    running = job(name="works", user="vera", key="slurm/della/1", state="RUNNING")
    factories.entry(gpu(), hours_ago=1, state="useful", held_by=running).save()

    seen = " ".join(page(client).split())

    assert "most wasted first: 19 of 21" in seen
    assert "what wastes now first, then most to save" in seen
    assert "<h2>Running now</h2>" in seen
    assert "no running jobs" not in seen


def test_a_job_that_runs_is_shown_however_many_wasted_more(client, vera):
    rate("2.40")
    named(vera)
    ended_jobs(21)
    running = job(name="works", user="vera", key="slurm/della/1", state="RUNNING")
    factories.entry(gpu(), hours_ago=1, state="useful", held_by=running).save()

    seen = page(client)

    now, _ = seen.split("<h2>Ended</h2>")
    assert "works<" in now


def test_findings_of_one_run_and_of_several_are_decided_by_the_same_buttons(client, vera, found):
    named(vera)
    for number in range(2):
        of = job(name="again", user="vera", key=f"slurm/della/80{number}")
        cause(of=of, start=NOW - timedelta(hours=2 + number))
        finding(of, first_ms=to_ms(NOW) - 3 * HOUR_MS, last_ms=to_ms(NOW) - HOUR_MS)

    seen = page(client)

    parts = [part.split("</details>")[0] for part in seen.split('<div class="decide">')[1:]]
    buttons = [
        re.findall(r">([A-Z][a-z ]+)(?:<span class=\"sr\">|</button>)", part) for part in parts
    ]
    assert [each[:4] for each in buttons] == [["Accept", "Fixed", "More", "Snooze a week"]] * 2


@pytest.mark.parametrize(
    ("cluster", "is_active", "is_shown"),
    [("della", True, False), ("della", False, True), ("other", True, True)],
)
def test_a_job_on_a_cluster_where_the_name_is_somebody_elses_is_theirs(
    client, vera, found, cluster, is_active, is_shown
):
    other = factories.user(role="engineer", username="vera.too")
    named(vera)
    named(other, cluster=cluster)
    User.objects.filter(pk=other.pk).update(is_active=is_active)
    Job.objects.update(cluster="della")

    assert ("mine" in page(client)) is is_shown


@pytest.mark.usefixtures("_frozen")
def test_what_waits_for_an_admin_is_what_nobody_took(client, found):
    """Another finding is given to somebody, and waits for nobody else."""
    other = job("slurm/della/2", name="hers", user="ann")
    cause(of=other, on=gpu(2), start=NOW - timedelta(hours=2))
    root = factories.user(role="admin", username="root")
    finding(other, assignee=root)
    Identity.objects.create(user=root, system="unix", name="r", source="claim", created_at=NOW)
    client.force_login(root)

    answer = client.get("/me")

    assert [(duty.label, duty.count) for duty in answer.context["duties"]] == [
        ("Names that people claim, to be confirmed", 1),
        ("Open findings given to nobody", 1),
    ]
    # an hour at $2.40, of which half to all
    assert "$1.20–2.40</span> could be saved" in answer.content.decode()


def test_an_engineer_waits_for_nothing_of_the_fleet(client, vera, found):
    assert client.get("/me").context["duties"] is None
    assert "Waits for you" not in page(client)


@pytest.mark.parametrize(
    ("role", "places"),
    [
        ("finance", ["/overview", "/reports", "/budgets", "/reports/2026-11/invoice", "/findings"]),
        ("operator", ["/overview", "/alerts", "/agents", "/findings"]),
    ],
)
@pytest.mark.usefixtures("_frozen")
def test_who_decides_for_others_is_led_to_where_that_is_done(client, found, role, places):
    client.force_login(factories.user(role=role, username="fiona"))

    card = page(client).split('id="duties"')[1].split("</section>")[0]

    assert re.findall(r'class="button quiet" href="([^"]+)"', card) == places


def test_who_cant_be_notified_reads_so_at_the_head_of_the_page(client, vera, found):
    assert "you can’t be notified yet</a>" in page(client).split("</h1>")[1].split("</div>")[0]


def test_who_has_a_name_of_jobs_is_asked_for_the_one_in_slack_and_told_where_mail_goes(
    client, vera, found
):
    """And that the digest waits until somebody can be reached."""
    User.objects.update(email="vera@example.org")
    named(vera)

    seen = page(client)

    assert '<option value="slack" selected>' in seen
    assert ">e-mail to vera@example.org</option>" in seen
    assert "My weekly digest, sent as soon as you can be notified" in seen


def test_who_has_no_jobs_chooses_no_period(client, vera, found):
    before = page(client)
    named(vera)

    assert 'aria-label="Period"' not in before
    assert "Last month" not in before
    assert "Last month" in page(client)


def test_names_on_the_cluster_are_suggested_and_a_single_cluster_is_not_asked_for(
    client, vera, found
):
    single = page(client)
    job("slurm/alps/3", user="bo", cluster="alps")
    Job.objects.filter(name="mine").update(cluster="della")

    assert "Run jobs here: vera" in single
    assert 'name="cluster"' not in single
    assert 'name="cluster"' in page(client)


def test_closed_sections_say_their_state_in_their_summary(client, vera):
    summaries = re.findall(r"<summary>(.*?)</summary>", page(client), re.DOTALL)

    assert any("you can’t be notified yet" in each for each in summaries)
    assert any("one file, Python 3.8" in each for each in summaries)


def test_what_to_do_stands_before_the_sums(client, vera, found):
    named(vera)

    seen = page(client)

    assert seen.index("<h2>What to do</h2>") < seen.index('<dl class="kpis">')
    assert seen.count("What to type") == 1  # folded where the page is narrow


def spent(hours_ago: int, state: str = "idle") -> None:
    """An hour of the job at $2.40."""
    start = NOW - timedelta(hours=hours_ago)
    an_entry(gpu(), state, job=job(name="mine", user="vera"), start=start, tier="certain")


def test_what_was_wasted_stands_against_as_long_before(client, vera, found):
    """$7.20 in the last day, $2.40 in the day before."""
    named(vera)
    for hours_ago in (2, 3, 4, 30, 49):
        spent(hours_ago)

    seen = re.sub("<[^>]*>", " ", page(client, "/me?range=24h"))

    assert "$4.80 more +200 % than the $2.40 in as long before" in " ".join(seen.split())


def test_against_what_was_not_recorded_nothing_is_said(client, vera, found):
    named(vera)
    for hours_ago in (2, 30):
        spent(hours_ago)

    assert "in as long before" not in page(client, "/me?range=24h")


def test_what_was_accepted_is_still_to_do_until_it_is_marked_fixed(client, vera, found):
    named(vera)
    client.post(f"/findings/{found.pk}/accept", {"back": "/me"})

    [row] = client.get("/me").context["accepted"]
    seen = page(client)

    assert (row.fix.newest, row.fix.since) == (found, NOW)
    assert "Nothing to fix" in seen
    part = seen.split("<h2>Accepted, still to do</h2>")[1].split("</section>")[0]
    assert "mine</a>" in part
    assert "1 run, last" in part
    assert "accepted 20 Nov 2026 (just now)" in part
    assert "$1.20–2.40" in part  # half of an hour to all of it, at 2.40
    assert ">Mark fixed<" in part
    client.post("/findings/act", {"id": row.ids, "action": "fixed", "back": "/me"})
    assert Finding.objects.get().status == "fixed"
    assert "Accepted, still to do" not in page(client)


def test_what_was_accepted_of_several_runs_is_one_thing_to_do_however_long_ago_they_ran(
    client, vera, found
):
    named(vera)
    earlier = job("slurm/della/2", name="mine", user="vera")
    long_ago = NOW - timedelta(days=20)
    last_ms = to_ms(long_ago)
    finding(earlier, status="accepted", decided_at=long_ago, last_ms=last_ms)
    Finding.objects.filter(pk=found.pk).update(status="accepted", decided_at=NOW)
    other = job("slurm/della/3", name="old", user="vera")
    finding(other, status="accepted", decided_at=NOW, last_ms=last_ms)

    mine, old = client.get("/me").context["accepted"]
    seen = page(client)

    assert (len(mine.fix.findings), mine.fix.since) == (2, long_ago)
    assert (len(old.fix.findings), old.saving) == (1, None)
    assert "no waste of these runs, last 7 days" in seen


def test_what_was_accepted_is_told_once_beside_open_runs_of_the_same(client, vera, found):
    named(vera)
    later = job("slurm/della/2", name="mine", user="vera")
    cause(of=later, on=gpu(2), start=NOW - timedelta(days=3))
    finding(later)
    client.post(f"/findings/{found.pk}/accept", {"back": "/me"})

    together = " ".join(page(client).split())
    Finding.objects.filter(job=later).delete()
    alone = " ".join(page(client).split())

    assert "last 7 days; counted as accepted, not as open" in together
    assert "1 open finding, without what was accepted" in together
    assert "counted as accepted, not as open" in alone


def test_runs_accepted_by_their_lines_own_button_in_the_inbox_are_still_to_do(client, vera, found):
    named(vera)
    earlier = job("slurm/della/2", name="mine", user="vera")
    cause(of=earlier, on=gpu(2), start=NOW - timedelta(days=3))
    finding(
        earlier, first_ms=to_ms(NOW - timedelta(days=3)), last_ms=to_ms(NOW - timedelta(days=3))
    )
    inbox = page(client, "/findings?group_by=pattern&from=now-7d")
    [form] = [
        each
        for each in inbox.split("<form")[1:]
        if f'type="hidden" name="id" value="{found.pk}"' in each
    ]
    action = unescape(form.split('action="')[1].split('"')[0])

    sent = {"group_by": "pattern", "id": [found.pk], "action": "accept", "back": "/me"}
    answer = client.post(action, sent, follow=True)

    assert "2 findings accepted." in answer.content.decode()
    [row] = answer.context["accepted"]
    assert len(row.fix.findings) == 2


def test_what_others_accepted_to_do_in_their_jobs_is_not_shown(client, vera, found):
    named(vera)
    finding(job("slurm/della/9", name="theirs", user="bo"), status="accepted", decided_at=NOW)

    assert "Accepted, still to do" not in page(client)


def test_who_cant_be_notified_reads_which_channel_is_missing_and_who_adds_it(client, vera):
    User.objects.update(email="vera@example.org")
    text = " ".join(page(client).split())
    assert (
        "FleetWatch can’t send Slack or e-mail messages to people here yet: an operator or an admin"
        " adds the channel."
    ) in text

    Channel.objects.create(kind="slack_app", name="ops", is_enabled=True, created_at=NOW)

    text = " ".join(page(client).split())
    assert "can’t send e-mail messages" in text
    assert "To be notified, add your Slack name above." in text
