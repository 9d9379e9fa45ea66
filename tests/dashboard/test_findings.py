"""The savings inbox and a finding's page: what stands there, and what a decision does."""

import re
from datetime import timedelta
from urllib.parse import quote_plus

import pytest

from fleetwatch.accounts.models import Team, User
from fleetwatch.costs.models import Rate
from fleetwatch.dashboard.templatetags.fleetwatch import spaced
from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.models import Finding, Fix
from fleetwatch.inventory.models import Node
from fleetwatch.jobs.models import GPUProcess, Job
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.costs.factories import a_run, an_entry
from tests.dashboard import factories
from tests.diagnosis.told import NOW, capacity, cause, diagnosed, finding, gpu, job, place, rate
from tests.markup import in_text, tight
from tests.telemetry.factories import store

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script>; rm -rf /"


@pytest.fixture
def found() -> Finding:
    rate("2.40")
    of = job(name=HOSTILE, user=HOSTILE, external_id=HOSTILE)
    cause(of=of, start=NOW - timedelta(hours=2))
    return finding(of, first_ms=to_ms(NOW) - 2 * HOUR_MS, last_ms=to_ms(NOW) - HOUR_MS)


def test_the_inbox_shows_what_could_be_saved_and_the_command(admin, found):
    page = admin.get("/findings").content.decode()

    assert "$1.20–2.40" in page
    assert "of $2.40 wasted" in page.replace('<span title="$2.400000">', "").replace("</span>", "")
    assert "Idle: still held" in page
    assert "End the job: what it did since its last checkpoint is lost." in page
    assert "<script>alert" not in page
    # one quoted word of the shell
    assert "scancel &#x27;&lt;script&gt;alert(1)&lt;/script&gt;; rm -rf /&#x27;" in page


def test_while_the_job_runs_its_owner_is_told_first_then_it_is_accepted_and_then_marked_fixed(
    admin, found
):
    def first_button():
        page = tight(admin.get(f"/findings/{found.pk}").content.decode())
        case = page[page.index('<div class="decisions">') :]
        return re.findall(r'<button class="button ?"[^>]*>([^<]+)</button>', case)[0]

    Job.objects.update(state="RUNNING", end_ms=None)
    assert first_button() == "Tell the owner"

    Job.objects.update(state="COMPLETED", end_ms=to_ms(NOW))
    assert first_button() == "Accept"

    admin.post(f"/findings/{found.pk}/accept")
    assert first_button() == "Mark fixed"


def test_the_inbox_is_narrowed_by_the_names_of_the_api_and_says_by_what(admin, found):
    for query, is_there in (
        ("node=n1", True), ("node=n2", False), ("kind=batch", True), ("kind=service", False),
        ("cluster=erie", False), ("state=idle", True),
        ("state=stalled", False), ("gpu_model=H100+SXM", True), ("gpu_model=L4", False),
        ("job=slurm/della/7", True),
        ("job=slurm/x/1", False), ("project=p", False), ("cost_centre=c", False),
    ):  # fmt: skip
        page = admin.get(f"/findings?{query}").content.decode()
        name, _, value = query.partition("=")
        assert (f'href="/findings/{found.pk}' in page) == is_there, query
        assert "There is no parameter" not in page
        shown = f"{spaced(name)} {value.replace('+', ' ')} ×"
        assert shown in page, query
    page = admin.get("/findings?kind=nap").content.decode()
    assert "There is no `kind` &#x27;nap&#x27;; there are batch, interactive, service." in page


def test_what_a_service_needs_is_of_the_time_that_was_its_own(admin):
    """The GPU that somebody else kept busy in the hour before is none that the service needs."""
    gpus, hour_ms = [gpu(index) for index in (0, 1)], to_ms(NOW) - 2 * HOUR_MS
    of = job(kind="service")
    for each in gpus:
        factories.hold(each, of, hours_ago=2, hours=1, now=NOW)
        cause("bursty_service", of=of, on=each, start=NOW - timedelta(hours=2))
    for start_ms, util in ((hour_ms - HOUR_MS, 1.0), (hour_ms, 0.1)):
        starts = [start_ms + 10_000 * window for window in range(360)] * 2
        store(
            gpus[0].node, starts=starts, positions=[0] * 360 + [1] * 360,
            columns={"util_mean": [util] * 720}, sequence=1 + start_ms // HOUR_MS, received_at=NOW,
        )  # fmt: skip
    told = finding(of, "bursty_service", first_ms=hour_ms, last_ms=hour_ms + HOUR_MS)

    page = tight(admin.get(f"/findings/{told.pk}?range=7d").content.decode())

    assert "2 GPUs were held; 1 would have served 95 % of the minutes" in page


def test_what_has_no_rate_is_told_beside_the_dollars_that_it_is_not_in(admin, found):
    told = "GPU-hours have no rate"
    pages = ("/findings", f"/findings/{found.pk}")
    assert not any(told in admin.get(page).content.decode() for page in pages)

    Rate.objects.all().delete()

    assert all(told in admin.get(page).content.decode() for page in pages)


def test_a_job_that_ended_is_not_to_be_ended(admin, found):
    Job.objects.update(end_ms=to_ms(NOW) - HOUR_MS)

    for page in ("/findings", f"/findings/{found.pk}"):
        assert "scancel" not in admin.get(page).content.decode()
    assert "The job has ended" in admin.get(f"/findings/{found.pk}").content.decode()


@pytest.mark.parametrize("is_other_at_work", [True, False])
def test_a_job_is_to_be_ended_only_where_no_gpu_of_it_works(admin, found, is_other_at_work):
    of = found.its_job
    cause(
        "healthy" if is_other_at_work else "idle_held",
        of=of,
        on=gpu(1),
        start=NOW - timedelta(hours=2),
        high=0,
        low=0,
    )

    for page in ("/findings", f"/findings/{found.pk}"):
        assert ("scancel" in admin.get(page).content.decode()) != is_other_at_work
        assert (
            "Ask its owner before anybody ends the job" in admin.get(page).content.decode()
        ) == is_other_at_work


@pytest.mark.parametrize(("hours_ago", "is_other_unknown"), [(24, True), (27, False)])
def test_a_job_is_not_to_be_ended_where_a_gpu_of_its_last_day_was_not_judged_since(
    admin, found, hours_ago, is_other_unknown
):
    newest = found.its_job.causes.latest("start").start
    cause(
        "healthy",
        of=found.its_job,
        on=gpu(1, node="n2"),
        start=newest - timedelta(hours=hours_ago - 1),
        high=0,
        low=0,
    )

    for page in ("/findings", f"/findings/{found.pk}"):
        assert ("scancel" in admin.get(page).content.decode()) != is_other_unknown
        assert (
            "Ask its owner before anybody ends the job" in admin.get(page).content.decode()
        ) == is_other_unknown


@pytest.mark.parametrize(
    ("labels", "is_to_be_ended"),
    [
        ({"nodes": "1", "requested_gpus": "1"}, True),
        ({"nodes": "2", "requested_gpus": "1"}, False),
        ({"nodes": "1", "requested_gpus": "2"}, False),
        ({"het_job": "7+0"}, False),
    ],
)
def test_a_job_is_not_to_be_ended_where_its_scheduler_gave_it_more_than_is_seen(
    admin, found, labels, is_to_be_ended
):
    Job.objects.update(labels=labels)

    for page in ("/findings", f"/findings/{found.pk}"):
        assert ("scancel" in admin.get(page).content.decode()) == is_to_be_ended


def test_of_an_array_its_task_alone_is_to_be_ended(admin, found):
    Job.objects.update(external_id="7", labels={"array_job": "7", "array_task": "2"})

    for page in ("/findings", f"/findings/{found.pk}"):
        assert "scancel 7_2" in admin.get(page).content.decode()


def test_a_job_that_worked_again_is_not_to_be_ended(admin, found):
    cause("healthy", of=found.its_job, start=NOW - timedelta(hours=1), high=0, low=0)

    for page in ("/findings", f"/findings/{found.pk}"):
        assert "scancel" not in admin.get(page).content.decode()


def test_who_only_thinks_is_not_to_be_ended(admin, found):
    found.its_job.causes.update(confidence=1)

    for page in ("/findings", f"/findings/{found.pk}"):
        assert "scancel" not in admin.get(page).content.decode()


def test_a_findings_page_is_there_without_telemetry(admin, found):
    page = admin.get(f"/findings/{found.pk}").content.decode()

    assert "past retention" in page
    assert "<script>alert" not in page


def test_a_findings_page_is_live_and_what_its_form_answers_is_not(admin, found):
    address = f"/findings/{found.pk}"
    version = re.search(r'data-version="(\w+)"', admin.get(address).content.decode())[1]

    again = admin.get(address, headers={"If-None-Match": f'W/"{version}"'})

    assert (again.status_code, again.content) == (304, b"")
    assert "data-version" not in admin.post(f"{address}/dismiss", {"note": ""}).content.decode()


def test_what_people_said_of_the_cause_follows_without_a_gap(admin, found):
    admin.post(f"/findings/{found.pk}/confirm", {})

    page = " ".join(admin.get(f"/findings/{found.pk}").content.decode().split())

    assert (
        "past retention · rated once so far: too few to say how often this diagnosis is right"
        in page
    )


def test_a_decision_is_taken_by_a_form_and_leads_back(admin, found):
    answer = admin.post(f"/findings/{found.pk}/accept", {"back": "/findings?status=open"})

    assert (answer.status_code, answer["Location"]) == (302, "/findings?status=open")
    assert Finding.objects.get().status == "accepted"
    assert admin.get("/findings").content.decode().count("<h3>") == 0
    assert admin.get("/findings?status=accepted").content.decode().count("<h3>") == 1


@pytest.mark.parametrize("back", ["https://elsewhere.example/", "//elsewhere.example", "x"])
def test_nobody_is_led_away(admin, found, back):
    answer = admin.post(f"/findings/{found.pk}/accept", {"back": back})

    assert answer["Location"] == f"/findings/{found.pk}"


def test_a_dismissal_without_a_reason_is_refused_on_the_page(admin, found):
    answer = admin.post(f"/findings/{found.pk}/dismiss", {"note": ""})

    assert answer.status_code == 422
    assert "A reason helps" in answer.content.decode()
    assert Finding.objects.get().status == "open"


@pytest.mark.usefixtures("_frozen")
def test_a_viewer_may_say_and_not_decide(client, found):
    client.force_login(factories.user(role="engineer"))

    assert client.post(f"/findings/{found.pk}/confirm", {}).status_code == 302
    assert client.post(f"/findings/{found.pk}/accept", {}).status_code == 403
    assert "formaction" not in client.get("/findings").content.decode()


def test_a_stranger_decides_nothing(client, found):
    answer = client.post(f"/findings/{found.pk}/accept", {})

    assert answer["Location"].startswith("/accounts/login/")
    assert not found.said.exists()


@pytest.mark.parametrize(
    "address",
    ["/findings/0", "/findings/99999999999999999999", "/causes/none", "/charts/finding?finding=0"],
)
def test_what_is_not_there_is_404(admin, found, address):
    assert admin.get(address).status_code == 404


def test_an_unknown_decision_is_404_and_reading_it_is_no_decision(admin, found):
    assert admin.post(f"/findings/{found.pk}/burn").status_code == 404
    assert admin.get(f"/findings/{found.pk}/accept").status_code == 405


def test_an_empty_inbox_says_what_to_do(admin):
    cause(low=0, high=0)

    assert "No finding in this period" in admin.get("/findings").content.decode()


def test_the_job_and_the_overview_name_the_cause(admin, found):
    page = tight(admin.get("/jobs/slurm/della/7?range=7d").content.decode())

    assert "<h2>Idle: still held" in page
    assert "recoverable" in admin.get("/").content.decode()


def test_what_a_fix_brought_stands_apart_from_what_is_possible(admin, found):
    Fix.objects.create(
        user="ann", job_name=HOSTILE, gpus=1, cause="idle_held", finding=found,
        at=NOW - timedelta(days=1), was_noticed=True,
        outcome="improved", runs_before=5, runs_after=4, useful_before=0.2, useful_after=0.5,
        effect_low=0.1, effect_high=0.5,
        saved_low_ms=0, saved_high_ms=0,
    )  # fmt: skip

    page = admin.get("/findings").content.decode()

    assert "utilisation improved" in page
    assert "20 % → 50 %" in page
    assert "+10 to +50 points" in page
    assert "Q4 2026" in page
    assert "<script>alert" not in page
    own = admin.get(f"/findings/{found.pk}").content.decode()
    assert "Effect of the fix" in own
    assert "+10 to +50 points, 95 % interval" in own


def test_of_a_fix_after_which_it_came_back_its_runs_since_are_counted_and_led_to(admin, found):
    Fix.objects.create(
        user="ann", job_name=HOSTILE, gpus=1, cause="idle_held", finding=found,
        at=NOW - timedelta(days=3), was_noticed=False,
        outcome="regressed", runs_before=5, runs_after=6, useful_before=0.2, useful_after=0.5,
        effect_low=0.1, effect_high=0.5, saved_low_ms=HOUR_MS, saved_high_ms=HOUR_MS,
    )  # fmt: skip
    name = found.its_job.name
    for number in (1, 2):
        start_ms = to_ms(NOW) - number * 24 * HOUR_MS
        again = job(f"slurm/della/9{number}", name=name, user=HOSTILE, start_ms=start_ms)
        finding(again, first_ms=start_ms, last_ms=start_ms + HOUR_MS)

    page = admin.get(f"/findings/{found.pk}").content.decode()
    of_all = admin.get("/findings").content.decode()

    assert "but the cause is back: 2 open findings of its runs since" in in_text(tight(page))
    assert f"job_name={quote_plus(name)}&amp;from={to_ms(NOW) - 48 * HOUR_MS}&amp;to=now" in page
    assert "GPU-hours of all runs since" in in_text(tight(page))
    assert "until it came back" not in of_all


def test_what_fixes_brought_is_narrowed_as_the_page_is_or_says_that_it_is_not(admin, found):
    of_all = "measured by the runs before and after the fixes of Q4 2026"

    assert f"{of_all}; never" in tight(admin.get("/findings?user=ann").content.decode())
    assert f"{of_all}, not narrowed by GPU model; never" in tight(
        admin.get("/findings?user=ann&gpu_model=H100").content.decode()
    )


def test_a_finding_that_was_called_fixed_says_when_it_is_measured(admin, found):
    assert "Effect of the fix" not in admin.get(f"/findings/{found.pk}").content.decode()

    admin.post(f"/findings/{found.pk}/fixed")

    assert "Not measured yet" in admin.get(f"/findings/{found.pk}").content.decode()


def test_a_name_that_nobody_has_any_more_assigns_nobody_and_says_so(admin, found):
    Finding.objects.update(assignee=User.objects.get(username="ann"))

    answer = admin.post(f"/findings/{found.pk}/assign", {"assignee": "gone"})

    assert answer.status_code == 422
    assert "there is no active user" in answer.content.decode()
    assert Finding.objects.get().assignee is not None


def test_users_are_assigned_by_name(admin, found):
    admin.post(f"/findings/{found.pk}/assign", {"assignee": "ann"})

    assert Finding.objects.get().assignee == User.objects.get(username="ann")


def test_who_was_deactivated_can_be_chosen_while_findings_are_theirs(admin, found):
    gone = User.objects.create(username="gone", is_active=False)
    User.objects.create(username="long gone", is_active=False)
    Finding.objects.update(assignee=gone)

    inbox = admin.get("/findings?assignee=gone").content.decode()
    fields = admin.get("/filters?of=assignee&assignee=gone").content.decode()

    assert 'value="gone" selected>gone (deactivated)' in tight(fields)
    assert "given to gone" in inbox
    assert "long gone" not in fields
    page = admin.get(f"/findings/{found.pk}").content.decode()
    assert 'value="gone" selected>gone (deactivated)' in tight(page)


def test_a_machine_is_told_apart_from_jobs_and_its_dollars_are_capacity(admin, found):
    capacity("gpu_fault", on=gpu(1))
    broken = place("gpu_fault", node=gpu(1).node)

    page = admin.get("/findings").content.decode()

    assert "GPU can&#x27;t work: n1" in page
    assert "capacity that could not work" in page
    # what jobs could have saved is what it was without it
    assert page.count("$1.20–2.40") == 4  # the card, the line and the way there
    assert "Problems" in admin.get("/nodes/n1?range=7d").content.decode()
    assert "none of the others" in page
    assert (
        f"nvidia-smi --gpu-reset -i {gpu(1).index}"
        in admin.get(f"/findings/{broken.pk}").content.decode()
    )


def test_a_queues_finding_says_what_jobs_could_have_used_and_is_decided_like_any_other(admin):
    rate("2.00")
    capacity("queue_or_scheduler", cluster=HOSTILE, low=0.25, high=0.5)
    queue = place("queue_or_scheduler", cluster=HOSTILE)

    page = admin.get(f"/findings/{queue.pk}").content.decode()

    assert "$0.50–1.00" in page
    assert "<script>alert" not in page
    assert (
        admin.post(f"/findings/{queue.pk}/dismiss", {"note": "drained for a benchmark"}).status_code
        == 302
    )
    assert admin.post(f"/findings/{queue.pk}/snooze", {"days": ""}).status_code == 422
    assert Finding.objects.get().status == "dismissed"
    assert admin.get(f"/charts/finding?finding={queue.pk}&as=table").status_code == 200


def test_the_overview_says_nothing_of_causes_that_are_all_worked_out(admin):
    cause(low=0, high=0)
    diagnosed(NOW - timedelta(days=1), version=1, posted=1)

    assert "still being determined" not in admin.get("/").content.decode()


@pytest.mark.parametrize("query", ["range=24h", "from=now-7d&to=now"])
def test_the_chart_of_a_jobs_finding_takes_no_period_and_that_of_a_machine_does(
    admin, found, query
):
    machine = place("queue_or_scheduler", cluster="della")

    refused = admin.get(f"/charts/finding?finding={found.pk}&{query}")

    assert refused.status_code == 422
    assert "leave out from, to, range" in refused.content.decode()
    assert admin.get(f"/charts/finding?finding={machine.pk}&{query}").status_code == 200
    page = admin.get(f"/findings/{found.pk}?range=24h").content.decode()
    assert f"/charts/finding?finding={found.pk}&" not in page.replace("&amp;as=", "")


def test_a_teams_inbox_has_no_machines(admin, found):
    Team.objects.create(slug="nlp")
    capacity("gpu_fault")
    place("gpu_fault", node=gpu().node)

    assert "Machines and queue" not in admin.get("/findings?team=nlp").content.decode()


def test_pages_say_that_causes_are_being_worked_out_and_how_far(admin):
    cause(low=0, high=0)
    diagnosed(NOW - timedelta(days=1), version=1, posted=2)

    for address in ("/", "/findings", "/waste?group_by=cause"):
        assert "0 of 24 node-hours" in admin.get(address).content.decode()
    assert "Still being analysed" in admin.get("/findings").content.decode()
    assert "still being determined" not in admin.get("/waste?group_by=team").content.decode()


def test_waste_by_cause_says_what_to_do_about_each_first(admin):
    rate("2.00")
    row = cause()
    an_entry(row.gpu, "idle", start=row.start, job=row.job, tier="certain")

    page = admin.get("/waste?group_by=cause").content.decode()

    assert f'<div class="sub">{BY_CODE["idle_held"].fixes[0].text}</div>' in page


def test_what_could_be_saved_of_all_lines_stands_in_the_total_of_waste(admin):
    rate("2.00")
    for row in (cause(low=0.5, high=0.9), cause(of=job("slurm/della/8"), on=gpu(2), low=1, high=1)):
        finding(row.job)
        an_entry(row.gpu, "idle", start=row.start, job=row.job, tier="certain")

    page = tight(admin.get("/waste?group_by=job").content.decode())

    assert ">$3.00–3.80<" in page.partition("<tfoot>")[2]


def test_the_cards_of_waste_are_the_same_whatever_it_is_grouped_by(admin):
    """$2 idle and diagnosed, $2 orphaned: $4 wasted by team and by cause, where the orphaned part
    has its line.
    """
    rate("2.00")
    row = cause()
    for state, of in (("idle", row.job), ("orphaned", None)):
        an_entry(row.gpu, state, start=row.start, job=of, tier="certain")

    cards = {}
    for group in ("team", "node", "cause"):
        page = " ".join(admin.get(f"/waste?group_by={group}").content.decode().split())
        cards[group] = re.findall(r"<dl class=.kpis.>.*?</dl>", page)[0]

    assert cards["team"] == cards["node"] == cards["cause"]
    assert "$4.00" in cards["cause"]
    assert "Held by no job" in page
    assert "GPU-hours wasted" in page
    assert "a cause leads to its findings, each with its own steps" in page


def test_an_orphaned_gpu_is_in_the_inbox_and_its_page_names_what_holds_it(admin):
    rate("2.40")
    on = gpu(1)
    capacity("orphaned", on=on, start=NOW - timedelta(hours=2))
    orphan = place("orphaned", node=on.node, first_ms=to_ms(NOW) - 2 * HOUR_MS, last_ms=to_ms(NOW))
    GPUProcess.objects.create(
        gpu=on, job=None, pid=17, user="bob", name=HOSTILE, memory_bytes=2**30, seen_ms=to_ms(NOW)
    )

    inbox = admin.get("/findings").content.decode()
    page = admin.get(f"/findings/{orphan.pk}").content.decode()

    assert "Held by no job: n1" in inbox
    assert "held by processes of no job" in inbox
    assert "<script>alert" not in page
    for words in ("ps -o pid,user,lstart,args -p 17", "kill 17", "bob", "&lt;script&gt;"):
        assert words in page


@pytest.mark.parametrize(
    ("conditions", "typed"),
    [
        (("orphaned", "orphaned"), "-i 1,2"),
        (("free", "orphaned"), "-i 2"),
        (("active", "free"), None),
        (("free", "unobserved"), "-i 2"),
    ],
)
def test_only_gpus_that_are_still_held_by_no_job_are_to_be_reset(admin, conditions, typed):
    on = [gpu(1), gpu(2)]
    last_ms = to_ms(NOW)
    Node.objects.update(last_ms=last_ms)
    for one, condition in zip(on, conditions, strict=True):
        capacity("orphaned", on=one, start=NOW - timedelta(hours=2))
        a_run(one, condition=condition, state_ms={}, start_ms=last_ms - 60_000, end_ms=last_ms)
    orphan = place(
        "orphaned", node=on[0].node, first_ms=to_ms(NOW) - 2 * HOUR_MS, last_ms=to_ms(NOW)
    )

    page = admin.get(f"/findings/{orphan.pk}").content.decode()

    assert ("gpu-reset" in page, "that is gone now" in page) == (
        typed is not None,
        typed is None,
    )
    assert typed is None or f"--gpu-reset {typed}<" in page


def test_what_else_a_finding_may_be_stands_in_the_inbox_on_its_page_and_on_its_jobs(admin):
    rate("2.40")
    cause(
        "oversized_gpu", start=NOW - timedelta(hours=2), also=["small_batch"], waste="underused_ms"
    )
    one = finding(cause="oversized_gpu")

    inbox = admin.get("/findings").content.decode()
    page = admin.get(f"/findings/{one.pk}").content.decode()
    of_job = admin.get(f"/jobs/{one.its_job.key}?range=7d").content.decode()

    for listed in (inbox, of_job):
        assert "Or it is: " in listed
        assert "too little work per step" in listed
    assert "What else it could be" in page
    assert "Double the batch once" in page
