"""What people agreed on stands first on the pages of a job and its finding; what ends the job comes
behind it.
"""

from collections import Counter
from datetime import timedelta

import pytest

from fleetwatch.accounts.models import Identity, Organisation
from fleetwatch.alerts.incidents.incident_actions import Action, act
from fleetwatch.alerts.incidents.muted_incidents import mute
from fleetwatch.alerts.models import Incident, Rule, Silence
from fleetwatch.dashboard.agreed_time import agreed_time
from fleetwatch.dashboard.agreements import APPROVED, Agreement
from fleetwatch.diagnosis.findings.deciding import Decision, decide
from fleetwatch.diagnosis.models import Finding
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.fences import Fences
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import admin_user, incident
from tests.diagnosis.told import cause, finding
from tests.markup import in_text, tight

TAG = '<span class="tag good-c">agreed'
pytestmark = pytest.mark.django_db
JOB = "/jobs/slurm/della/7"
BEHIND = "<summary>If it is no longer wanted</summary>"
ENDING = "scancel 7"


@pytest.fixture
def idle():
    """An idle job that runs, with the finding that says to end it."""
    factories.rate("2.40")
    gpu = factories.gpu(factories.node())
    job = factories.job("slurm/della/7", external_id="7", scheduler="slurm")
    for hours_ago in (1, 2, 3):
        factories.entry(gpu, hours_ago=hours_ago, state="idle", held_by=job, tier="certain").save()
    cause(of=job, on=gpu, start=NOW - timedelta(hours=3))
    return finding(job, first_ms=to_ms(NOW) - 3 * HOUR_MS, last_ms=to_ms(NOW))


def page(client, address: str) -> str:
    return tight(client.get(address).content.decode())


def addresses(of) -> tuple[str, str]:
    return JOB, f"/findings/{of.pk}"


def test_without_an_agreement_what_to_do_stands_open(admin, idle):
    for address in addresses(idle):
        shown = page(admin, address)

        assert ENDING in shown
        assert BEHIND not in shown
        assert TAG not in shown


def accepted(of, **fields) -> Incident:
    """An incident of the finding's job that ann says is no waste, for a week."""
    of_job = incident(of.job.key, **fields)
    return act(of_job.pk, Action("not_waste", "a workshop"), by=admin_user(), now=NOW)


def savings(client) -> Counter:
    return client.get("/findings").context["counts"]


@pytest.mark.parametrize("over", [{}, {"state": "resolved", "ended_ms": to_ms(NOW) - HOUR_MS}])
def test_what_was_said_of_an_incident_opens_both_pages_also_once_that_is_over(admin, idle, over):
    open_before = savings(admin)["open"]
    if over:
        over = over | {"resolved_at": NOW}
    of_job = accepted(idle, **over)

    for address in addresses(idle):
        shown = page(admin, address)

        agreed = "Until 27 Nov · a workshop by ann, Fri 20 Nov, 12:00"
        assert agreed in in_text(shown)
        assert f'href="/incidents/{of_job.pk}"' in shown
        assert "Tell the owner" not in shown
        assert ">Accept</button>" not in shown
        assert "Ending it saves" not in shown
    shown = page(admin, f"/findings/{idle.pk}")
    assert shown.index("a workshop") < shown.index(BEHIND) < shown.index(ENDING)
    assert (open_before, savings(admin)["open"]) == (1, 0)


def test_what_was_said_of_an_incident_holds_until_its_day(admin, idle):
    accepted(idle)
    Silence.objects.update(starts_at=NOW - timedelta(days=8), ends_at=NOW - timedelta(days=1))

    for address in addresses(idle):
        assert TAG not in page(admin, address)
    assert savings(admin)["open"] == 1


@pytest.mark.parametrize(
    ("decision", "what"),
    [
        (Decision("accept", "I end it tonight"), "Accepted, until it is marked fixed"),
        (Decision("dismiss", "the hot spare"), "Until somebody ends that · the hot spare"),
        (Decision("snooze", "later", until=NOW + timedelta(days=7)), "Snoozed (until 27 Nov)"),
    ],
)
def test_a_decided_finding_opens_with_who_decided_and_why(admin, idle, decision, what):
    decide(idle.pk, decision, by=admin_user(), now=NOW)

    shown = page(admin, f"/findings/{idle.pk}")

    assert what in in_text(shown)
    assert shown.index(decision.note) < shown.index(BEHIND)


def test_the_page_of_a_finding_says_once_that_it_is_agreed_as_no_waste_and_links_not_to_itself(
    admin, idle
):
    decide(idle.pk, Decision("dismiss", "the hot spare"), by=admin_user(), now=NOW)

    case = page(admin, f"/findings/{idle.pk}").partition('class="card case"')[2]
    case = case.partition("</section>")[0]

    assert case.lower().count("not waste") == 1
    assert f'<a class="link" href="/findings/{idle.pk}"' not in case
    assert "Until somebody ends that · the hot spare by ann" in in_text(case)


def test_of_a_job_that_is_over_nothing_is_wanted_any_more(admin, idle):
    decide(idle.pk, Decision("dismiss", "the hot spare"), by=admin_user(), now=NOW)
    Job.objects.update(state="COMPLETED", end_ms=to_ms(NOW))

    assert "<summary>If it is to change</summary>" in page(admin, f"/findings/{idle.pk}")


def test_what_was_decided_on_the_finding_opens_the_incident_of_the_same_cause_too(admin, idle):
    of_job = incident(idle.job.key)
    of_another_cause = incident(idle.job.key, rule=Rule.objects.get(condition="gpu_idle"))

    decide(idle.pk, Decision("dismiss", "the hot spare"), by=admin_user(), now=NOW)
    mute(NOW, Fences())

    shown = page(admin, f"/incidents/{of_job.pk}")
    assert "agreed as not waste, until somebody ends that · the hot spare by ann" in in_text(shown)
    assert f'href="/findings/{idle.pk}"' in shown
    assert "What to do first" not in shown
    assert "Agreed as not waste 1" in in_text(page(admin, "/alerts"))
    assert TAG not in page(admin, f"/incidents/{of_another_cause.pk}")
    past = in_text(shown).partition("Timeline")[2]
    assert (
        "Agreed as not waste, until somebody ends that, on its finding by ann: the hot spare Fri 20 Nov"
    ) in past


def test_an_exemption_opens_both_pages_and_the_history_with_who_when_and_why(admin, idle):
    Silence.objects.create(
        kind="exemption",
        matchers=[{"label": "subject", "values": ["slurm/della/7"], "is_not": False}],
        starts_at=NOW - timedelta(days=1),
        ends_at=NOW + timedelta(days=7),
        reason="a warm replica <b>",
        by=admin_user(),
        created_at=NOW - timedelta(days=1),
    )
    for address in addresses(idle):
        shown = in_text(page(admin, address))

        assert "An operator approved of it (until 27 Nov) · a warm replica &lt;b&gt;" in shown
        assert "by ann, Thu 19 Nov" in shown

    history = in_text(page(admin, f"/findings/{idle.pk}").partition("<h2>History</h2>")[2])
    assert (
        "Agreed as not waste, an operator approved of it by ann: a warm replica &lt;b&gt;"
        in history
    )
    assert "Nobody has decided yet" not in history


def test_what_was_said_until_a_day_that_is_past_opens_no_incident_that_goes_on(admin, idle):
    """It is no waste by its finding, which somebody closed since."""
    of_job = accepted(idle, since_ms=to_ms(NOW - timedelta(days=3)))
    Silence.objects.update(starts_at=NOW - timedelta(days=2), ends_at=NOW - timedelta(days=1))
    decide(idle.pk, Decision("dismiss", "the hot spare"), by=admin_user(), now=NOW)
    mute(NOW, Fences())

    shown = page(admin, f"/incidents/{of_job.pk}")

    assert shown.count(TAG) == 1
    assert "agreed as not waste, until somebody ends that · the hot spare" in in_text(shown)


def exempted() -> Silence:
    return Silence.objects.create(
        kind="exemption",
        matchers=[{"label": "subject", "values": ["slurm/della/7"], "is_not": False}],
        starts_at=NOW - timedelta(days=1),
        ends_at=NOW + timedelta(days=7),
        reason="a warm replica",
        created_at=NOW - timedelta(days=1),
    )


@pytest.mark.parametrize(("may_end", "client_name"), [(True, "admin"), (False, "viewer")])
def test_an_exemption_is_linked_and_ended_by_whom_may_from_both_pages(
    request, idle, may_end, client_name
):
    silence = exempted()
    reader = request.getfixturevalue(client_name)

    for address in addresses(idle):
        shown = page(reader, address)

        assert f'href="/alerts/silences#silence-{silence.pk}"' in shown
        assert ("End agreement" in shown) == may_end
    if may_end:
        reader.post(f"/alerts/silences/{silence.pk}/end")
        assert "End agreement" not in page(reader, f"/findings/{idle.pk}")


def test_what_was_agreed_is_in_no_sum_on_both_pages_and_its_owner_is_not_told(admin, idle):
    decide(idle.pk, Decision("dismiss", "the hot spare"), by=admin_user(), now=NOW)

    own, of_job = (in_text(page(admin, address)) for address in reversed(addresses(idle)))

    assert own.count("left out of savings and alerts since then") == 1
    assert "in no sum ;" in own or "in no sum;" in own
    assert "Tell the owner" not in own
    assert "in no sum: agreed as not waste" in of_job


def test_what_is_agreed_until_a_day_is_in_no_sum_on_its_jobs_page_either(admin, idle):
    exempted()

    assert "in no sum: agreed as not waste" in in_text(page(admin, JOB))


def test_an_agreed_job_and_its_finding_say_first_that_and_by_what_it_is(admin, idle):
    exempted()

    for address in addresses(idle):
        shown = in_text(page(admin, address))

        headline = "Agreed as not waste: GPUs unused 100 % of its time"
        assert headline in shown
        assert shown.index(headline) < shown.index("What was seen:")
        assert "for Subject is slurm/della/7" in shown
        assert "100 % of its cost was wasted" not in shown
    assert "Since 19 Nov." in in_text(page(admin, JOB))


@pytest.mark.usefixtures("_frozen")
@pytest.mark.parametrize("asked", ["della", "finding {}"])
def test_a_search_says_that_a_finding_is_agreed_and_nothing_to_be_saved(admin, idle, asked):
    address = f"/search/quick?q={asked.format(Finding.objects.get().pk)}"
    before = in_text(admin.get(address).content.decode())
    exempted()

    agreed = in_text(admin.get(address).content.decode())

    assert "open" in before
    assert "could be saved" in before
    assert "agreed as not waste" in agreed
    assert "could be saved" not in agreed


@pytest.mark.usefixtures("_frozen")
def test_whom_else_an_exemption_is_for_is_not_told_to_who_sees_own_jobs_alone(client, idle):
    """It names bob's jobs too; ann sees her own, and that they are agreed on."""
    silence = exempted()
    of_two = {"label": "user", "values": [idle.job.user, "bob"], "is_not": False}
    Silence.objects.filter(pk=silence.pk).update(matchers=[of_two])
    Organisation.objects.update_or_create(pk=1, defaults={"others_shown": "teams"})
    ann = factories.user(role="engineer", username="ann-1")
    Identity.objects.create(
        user=ann,
        system="unix",
        name=idle.job.user,
        source="admin",
        created_at=NOW,
        confirmed_at=NOW,
    )
    client.force_login(ann)

    for address in addresses(idle):
        shown = in_text(page(client, address))

        assert "Agreed as not waste: GPUs unused 100 % of its time" in shown
        assert "a warm replica" in shown
        assert "bob" not in shown


@pytest.mark.parametrize(
    ("stalled_ms", "underused_ms", "tier", "headline"),
    [
        (
            77,
            3,
            "potential",
            "Agreed as not waste: GPUs unused 77 % of its time",
        ),
        (
            3,
            77,
            "potential",
            "Agreed as not waste: GPUs underused 77 % of its time",
        ),
        (
            77,
            3,
            "probable",
            "Agreed as not waste: GPUs unused 77 % of its time",
        ),
        (0, 0, "potential", "Agreed as not waste"),
    ],
)
def test_the_share_of_agreed_time_is_told_as_a_figure(stalled_ms, underused_ms, tier, headline):
    agreed = [Agreement(APPROVED, "a warm replica", "otto", NOW, None, "")]
    states = {"idle": 0, "stalled": stalled_ms, "underused": underused_ms}
    tiers = {"certain": 0, "probable": 0, "potential": 0} | {tier: 80}

    time = agreed_time(agreed, states=states, tiers=tiers, whole_ms=100)

    assert time.headline == headline


def test_of_an_open_finding_no_headline_says_that_it_is_agreed(admin, idle):
    for address in addresses(idle):
        assert admin.get(address).context["no_waste"] is None


def test_a_snooze_is_no_agreement(admin, idle):
    decide(idle.pk, Decision("snooze", until=NOW + timedelta(days=7)), by=admin_user(), now=NOW)

    for address in addresses(idle):
        shown = page(admin, address)

        assert "snoozed</span>" in shown
        assert TAG not in shown


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("open", ["Accept:", "Fixed:", "Snooze:"]),
        ("accepted", ["Fixed:", "Snooze:"]),
        ("snoozed", ["Accept:", "Fixed:"]),
        ("dismissed", ["End agreement:"]),
        ("fixed", ["Reopen:"]),
    ],
)
def test_a_jobs_page_explains_the_buttons_that_are_there(admin, idle, status, words):
    until = NOW + timedelta(days=7) if status == "snoozed" else None
    type(idle).objects.filter(pk=idle.pk).update(status=status, decided_at=NOW, snoozed_until=until)

    shown = page(admin, JOB)

    every = ("Accept:", "Fixed:", "Snooze:", "Reopen:", "End agreement:")
    assert [word for word in every if f"{word} it" in shown or f"{word} some" in shown] == words


def waste(page: str) -> str:
    """What the tile of a job's page says."""
    return page.partition("<dt>Wasted</dt>")[2].partition("<dt>Useful share")[0]


def test_what_is_agreed_of_a_jobs_waste_stands_on_a_line_of_its_own_with_what_is_left(admin, idle):
    """Three hours were idle at $2.40, of which diagnosis explains one by the finding."""
    accepted(idle)

    shown = in_text(waste(page(admin, JOB)))

    assert shown.split()[0] == "$7.20"
    assert (
        "of it agreed as not waste: $2.40 , until 27 Nov; not agreed, or too new to be judged: $4.80"
        in shown
    )


def test_of_a_waste_that_nobody_agreed_on_no_part_is_named(admin, idle):
    tile = waste(page(admin, JOB))

    assert "certain" in tile
    assert "agreed" not in tile


def test_what_was_agreed_does_not_follow_the_waste_of_the_last_hour(admin, idle):
    Job.objects.update(state="RUNNING")
    accepted(idle)

    shown = page(admin, JOB)

    assert shown.index('<p class="agreed">') < shown.index("in the last hour")
    assert "of it counted as wasted" in in_text(shown)


def test_the_share_of_agreed_time_is_of_all_that_the_job_held_on_both_pages(admin, idle):
    """An hour of the four that it held was not observed."""
    gpu = GPU.objects.get()
    factories.entry(gpu, hours_ago=4, state="unobserved", held_by=idle.job).save()
    exempted()

    for address in addresses(idle):
        shown = in_text(page(admin, f"{address}?from=now-6h&to=now"))

        assert "Agreed as not waste: GPUs unused 75 % of its time" in shown
    assert "Idle 75 %" in in_text(page(admin, f"{JOB}?from=now-6h&to=now"))


def test_of_two_findings_each_says_the_share_of_its_own(admin, idle):
    """Of the three hours that the job held an hour is the idle finding's."""
    other = finding(idle.job, "small_batch", first_ms=to_ms(NOW) - 3 * HOUR_MS, last_ms=to_ms(NOW))
    cause("small_batch", of=other.job, on=GPU.objects.get(), start=NOW - timedelta(hours=2))
    decide(idle.pk, Decision("dismiss", "the hot spare"), by=admin_user(), now=NOW)

    shown = in_text(page(admin, f"/findings/{idle.pk}?from=now-6h&to=now"))

    assert "Agreed as not waste: GPUs unused 33 % of its time" in shown


@pytest.mark.parametrize("agree", ["exemption", "incident", "finding"])
def test_what_people_agreed_on_bears_one_name_on_every_page(admin, idle, agree):
    of_job = incident(idle.job.key)
    if agree == "exemption":
        exempted()
    elif agree == "incident":
        act(of_job.pk, Action("not_waste", "a workshop"), by=admin_user(), now=NOW)
    else:
        decide(idle.pk, Decision("dismiss", "the hot spare"), by=admin_user(), now=NOW)
    mute(NOW, Fences())

    for address in (*addresses(idle), f"/incidents/{of_job.pk}", "/findings?status=dismissed"):
        shown = in_text(page(admin, address))

        assert "agreed as not waste" in shown.lower()
        assert "exempt" not in shown.lower()


DECIDING = ("Mark fixed", ">Fixed<", "Snooze", "Why it is not waste", ">Accept<", ">Reopen<")


def agree(of, how: str) -> Incident:
    """The job's incident, where somebody agreed by it, by an exemption or by the finding."""
    of_job = incident(of.job.key)
    if how == "exemption":
        exempted()
    elif how == "incident":
        act(of_job.pk, Action("not_waste", "a workshop"), by=admin_user(), now=NOW)
    else:
        decide(of.pk, Decision("dismiss", "the hot spare"), by=admin_user(), now=NOW)
    mute(NOW, Fences())
    return of_job


@pytest.mark.parametrize("how", ["exemption", "incident", "finding"])
def test_what_is_agreed_offers_one_button_everywhere_which_ends_that(admin, idle, how):
    of_job = agree(idle, how)
    inbox = "/findings?status=dismissed&from=now-6h&to=now"

    for address in (*addresses(idle), inbox, f"{inbox}&group_by=finding"):
        shown = page(admin, address)
        rows = shown.partition('<ol class="inbox')[2] or shown

        assert rows.count(">End agreement</button>") == 1, address
        assert not [word for word in DECIDING if word in rows], address
    shown = page(admin, f"/incidents/{of_job.pk}")
    assert shown.count(">End agreement</button>") == 1
    assert "Why it is not waste" not in shown
    assert ">Snooze" not in shown


@pytest.mark.parametrize("how", ["exemption", "incident", "finding"])
def test_an_agreement_that_is_ended_leads_back_and_its_finding_is_open(admin, idle, how):
    agree(idle, how)
    back = "/findings?status=dismissed"
    form = page(admin, back).rpartition(">End agreement</button>")[0].rpartition("<form")[2]
    address = form.partition('action="')[2].partition('"')[0]

    answer = admin.post(address, {"back": back})

    assert answer["Location"] == back
    assert savings(admin)["open"] == 1


@pytest.mark.parametrize("how", ["incident", "finding"])
def test_whoever_may_not_end_an_agreement_is_shown_no_button(admin, viewer, idle, how):
    of_job = agree(idle, how)

    for address in (*addresses(idle), f"/incidents/{of_job.pk}", "/findings?status=dismissed"):
        assert "End agreement</button>" not in page(viewer, address), address


def test_rows_of_what_is_agreed_say_why_by_whom_until_when_and_that_no_sum_has_it(admin, idle):
    Job.objects.update(state="RUNNING")
    agree(idle, "incident")

    for view in ("", "&group_by=finding", "&view=compact"):
        shown = page(admin, f"/findings?status=dismissed&from=now-6h&to=now{view}")
        rows = in_text(shown.partition('id="bulk"')[2] or shown)

        assert "wasting now" not in rows
        assert "could be saved of" not in rows
        assert "in no sum" in rows
        if "compact" not in view:
            assert "Agreed until 27 Nov by ann, Fri 20 Nov, 12:00: a workshop" in rows


def test_several_are_ended_at_once_where_people_decided_so_on_the_findings(admin, idle):
    agree(idle, "finding")

    shown = page(admin, "/findings?status=dismissed")

    bulk = shown.partition('id="bulk"')[2].partition("</form>")[0]
    assert in_text(bulk).count("End agreement") == 1
    assert 'name="id"' in shown


def test_what_is_agreed_until_a_day_is_not_ticked_for_it_ends_where_it_was_said(admin, idle):
    agree(idle, "exemption")

    for grouping in ("", "&group_by=finding"):
        shown = page(admin, f"/findings?status=dismissed{grouping}")

        assert 'id="bulk"' not in shown
        assert 'name="id"' not in shown


@pytest.mark.parametrize("how", ["exemption", "incident", "finding"])
def test_a_page_says_once_how_the_ledger_counts_what_is_agreed(admin, idle, how):
    agree(idle, how)

    for address in addresses(idle):
        shown = in_text(page(admin, address))

        assert shown.count("counts as wasted in the ledger; left out of savings and alerts") == 1
        assert "waste: idle:" not in shown.lower()
    assert "Wasted, as the ledger counts" in shown


@pytest.mark.parametrize(("unobserved_s", "is_said"), [(108, False), (109, True)])
def test_what_nobody_observed_is_named_from_a_hundredth_of_the_waste_on(
    admin, idle, unobserved_s, is_said
):
    """Three hours were idle: a hundredth of them is 108 seconds."""
    gpu = GPU.objects.get()
    of_job = {"held_by": idle.job, "gpu_ms": unobserved_s * 1000}
    factories.entry(gpu, hours_ago=4, state="unobserved", **of_job).save()

    tile = waste(page(admin, f"{JOB}?from=now-6h&to=now"))

    assert ("with what nobody observed" in tile) == is_said
