"""What a search finds: everything by its name, and nothing that the reader does not see."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from fleetwatch.accounts.models import Identity, Organisation, Team
from fleetwatch.alerts.models import Incident, IncidentGroup
from fleetwatch.dashboard.search_hits import Hit, Subject, hits, near
from fleetwatch.dashboard.search_order import ranked
from fleetwatch.dashboard.search_places import PLACES
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs import called_jobs
from fleetwatch.jobs.models import Allocation, Job
from fleetwatch.lib.intervals import HOUR_MS, MINUTE_MS, to_ms
from tests import stored_runs
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import incident
from tests.diagnosis import told
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db


def found(user, text):
    return {(hit.kind, hit.name) for hit in hits(text, user, limit=10, now=NOW)}


@pytest.fixture
def fleet(_frozen):
    node = factories.node("l40s-05")
    for index in (4, 5):
        gpu = factories.gpu(node)
        GPU.objects.filter(pk=gpu.pk).update(uuid=f"GPU-{index}", index=index)
    Team.objects.create(slug="nlp", name="Language")
    factories.job("slurm/della/7", name="train", user="priya")


def test_a_node_and_a_number_find_that_gpu_alone(fleet):
    user = factories.user()

    assert found(user, "l40s-05 5") == {("GPU", "l40s-05 · GPU 5")}
    assert found(user, "l40s-05 gpu 4") == {("GPU", "l40s-05 · GPU 4")}
    assert found(user, "l40s-05 9") == set()


def test_a_user_leads_to_their_jobs_a_team_to_its_month_a_word_to_its_meaning(fleet):
    user = factories.user()

    assert found(user, "priya") == {("user", "priya"), ("job", "train")}
    assert ("team", "Language") in found(user, "nlp")
    assert ("page", "Pricing") in found(user, "kwh")
    assert ("word", "GPU-hour") in found(user, "gpu-hour")
    assert found(user, "p") == set()


def test_names_are_read_of_the_newest_jobs_and_a_whole_key_finds_any(fleet, monkeypatch):
    monkeypatch.setattr(called_jobs, "NEWEST", 1)
    user = factories.user()
    Job.objects.update(start_ms=1)
    factories.job("slurm/della/8", name="tune", user="Priyanka", start_ms=2)

    assert found(user, "tune") == {("job", "tune")}
    assert found(user, "train") == set()
    assert found(user, "slurm/della/7") == {("job", "train")}
    assert found(user, "PRIYA") == {("user", "priya"), ("user", "Priyanka")}


def test_every_page_of_the_rail_and_of_settings_is_found(admin):
    pages = [admin.get(address).content.decode() for address in ("/", "/settings")]
    linked = {each for page in pages for each in re.findall(r'<a[^>]+href="(/[^"?#]*)', page)}

    known = {reverse(place.name) for place in PLACES}

    assert linked - known == {"/", "/search"}


def test_pages_of_others_and_what_is_not_seen_are_not_found(fleet):
    engineer = factories.user(role="engineer", username="vera")
    assert ("page", "Audit log") not in found(engineer, "audit")

    Organisation.objects.update_or_create(pk=1, defaults={"others_shown": "teams"})
    assert ("page", "Fleet") not in found(engineer, "fleet")


def test_what_is_typed_is_answered_in_a_list_that_keys_go_through(admin, fleet):
    part = tight(admin.get("/search/quick?q=priya").content.decode())

    assert '<a href="/jobs?user=priya" data-hit>' in part
    assert '<div data-of="priya">' in part  # Enter opens the first of what is found of this
    assert "<h3>User<span" in part
    assert "csrf" not in part
    assert admin.get("/search/quick?q=priya&limit=3").status_code == 422
    assert "No match" in admin.get("/search/quick?q=zz").content.decode()


def test_a_node_is_found_with_its_gpus(admin, fleet):
    node = GPU.objects.get(uuid="GPU-5").node

    groups = dict(admin.get(f"/search?q={node.name}").context["groups"])

    assert [hit.name for hit in groups["node"]] == [node.name]
    assert len(groups["GPU"]) == min(5, node.gpus.count())


def test_what_is_found_has_its_dollars_of_the_last_week_beside_it(admin, fleet):
    factories.rate("2.00")
    gpu = GPU.objects.get(uuid="GPU-5")
    job = factories.job("slurm/della/8", name="tune", user="priya", team="nlp")
    factories.entry(gpu, hours_ago=48, held_by=job).save()
    factories.entry(gpu, hours_ago=24 * 7 + 1, held_by=job).save()  # a week and an hour: not in it

    costs = {
        asked: tight(admin.get("/search", {"q": asked}).content.decode()).count(">$2.00<")
        for asked in ("tune", "priya", "nlp", "l40s-05", "l40s-05 5", "l40s-05 4", "glossary")
    }

    assert costs == {
        "tune": 1,
        "priya": 2,  # the user and the job
        "nlp": 1,
        "l40s-05": 2,  # the node and its GPU
        "l40s-05 5": 1,
        "l40s-05 4": 0,
        "glossary": 0,
    }


def test_who_is_lost_has_the_rail_and_the_search(admin):
    page = admin.get("/nowhere").content.decode()

    assert 'id="search"' in page
    assert "Page not found" in page


def test_nothing_that_is_looked_for_is_no_error(admin):
    assert admin.get("/search").status_code == 200
    pages = tight(admin.get("/search/quick").content.decode())
    assert "Go to" in pages
    assert 'href="/fleet" data-hit' in pages


@pytest.mark.parametrize(
    ("typed", "page"),
    [
        ("/nodes", "/fleet"),
        ("/idle", "/fleet/idle"),
        ("/glossary", "/docs/glossary"),
        ("/login", "/accounts/login/"),
        ("/views", "/v"),
    ],
)
def test_an_address_that_people_guess_leads_to_its_page(admin, typed, page):
    assert admin.get(typed).headers["Location"] == page


def test_a_model_finds_its_gpus_and_a_finding_has_its_days_and_what_it_could_save(admin):
    told.rate("2.00")
    of = told.job(name="detector")
    told.cause("data_starved", of=of, on=told.gpu(5), low=0.25, high=0.25)
    detector = told.finding(of, "data_starved")

    page = tight(admin.get("/search?q=detector").content.decode())
    by_model = admin.get("/search/quick?q=h100").content.decode()

    assert f'href="/findings/{detector.pk}"' in page
    assert "could be saved" in page
    assert "GPU 5" in by_model


def test_a_search_counts_all_of_a_kind_shows_some_and_leads_to_all(admin):
    """Twelve GPUs: five stand beside others, and all behind a tab."""
    node = factories.node("l40s-06")
    for index in range(12):
        factories.gpu(node, index=index)
    model = GPU.objects.first().model.name

    first = admin.get("/search", {"q": model})
    whole = admin.get("/search", {"q": model, "kind": "GPU"})

    assert first.context["counts"]["GPU"] == 12
    assert [len(several) for kind, several in first.context["groups"] if kind == "GPU"] == [5]
    assert "&amp;kind=GPU" in first.content.decode()
    assert [(kind, len(several)) for kind, several in whole.context["groups"]] == [("GPU", 12)]


def test_what_is_called_just_so_comes_first_and_findings_by_what_they_could_save():
    usd = {1: Saving(0, 0, Decimal(1), Decimal(2)), 2: Saving(0, 0, Decimal(3), Decimal(9))}
    every = [
        Hit("page", "Jobs", "/jobs"),
        Hit("finding", "Idle: a", "/findings/1", finding_id=1),
        Hit("finding", "Idle: b", "/findings/2", finding_id=2),
        Hit("job", "my job", "/jobs/1"),
        Hit("job", "jobs", "/jobs/2"),
        Hit("team", "job", "/teams/job", subject=Subject("team", "job")),
    ]

    groups = ranked(every, "JOB", usd)

    assert [(kind, [hit.name for hit in several]) for kind, several in groups] == [
        ("team", ["job"]),
        ("page", ["Jobs"]),
        ("job", ["jobs", "my job"]),
        ("finding", ["Idle: b", "Idle: a"]),
    ]


def test_a_gpu_has_its_state_and_holder_and_a_node_how_many_gpus_do_what(admin, fleet):
    job = factories.job("slurm/della/8", name="tune", user="priya", team="nlp")
    gpu = GPU.objects.get(uuid="GPU-5")
    span = {"hours_ago": 0.5, "hours": 0.45}
    stored_runs.store(
        factories.run(gpu, **span, states={"idle": HOUR_MS // 4}, held_by=job),
        factories.run(gpu, **span, states={"free": HOUR_MS // 4}),
    )

    on_gpu = admin.get("/search", {"q": "l40s-05 5"}).context["now_of"][
        Subject("gpu", "GPU-5", gpu.pk)
    ]
    node = admin.get("/search", {"q": "l40s-05"}).context["now_of"][
        Subject("node", "l40s-05", gpu.node_id)
    ]

    assert (on_gpu.states, on_gpu.job) == ([("idle", 1)], job)
    assert (node.states, node.gpus) == ([("idle", 1)], 1)


def test_jobs_say_when_they_ran_and_on_how_many_gpus_running_ones_first(admin, fleet):
    """NOW is 20 November, 12:00 UTC."""
    noon = to_ms(factories.NOW)
    day = 24 * HOUR_MS
    for number, start_ms, end_ms, state in (
        (1, noon - day, noon - day + HOUR_MS, "COMPLETED"),
        (2, noon - 2 * day, noon - day, "COMPLETED"),
        (3, noon - 3 * day, None, "RUNNING"),
        (4, None, None, ""),
    ):
        job = factories.job(f"slurm/della/{number}", name=f"tune-{number}", user="priya")
        Job.objects.filter(pk=job.pk).update(start_ms=start_ms, end_ms=end_ms, state=state)
    held = Job.objects.get(key="slurm/della/3")
    for gpu in GPU.objects.all():
        for source in ("slurm", "processes"):  # both say so: two GPUs, not four
            Allocation.objects.create(gpu=gpu, job=held, source=source, asserted=[], held=[])

    page = admin.get("/search", {"q": "tune"})

    [(_, jobs)] = page.context["groups"]
    assert [(hit.name, hit.state, hit.when) for hit in jobs] == [
        ("tune-3", "running", "since 17 Nov, 12:00"),
        ("tune-1", "ended", "19 Nov, 12:00–13:00"),
        ("tune-2", "ended", "18 Nov, 12:00 – 19 Nov, 12:00"),
        ("tune-4", "ended", ""),
    ]
    shown = tight(page.content.decode())
    assert "running first; dollars of the last 7 days" in shown
    assert shown.count(">2 GPUs<") == 1


def test_a_long_running_job_is_among_the_few_that_are_shown_while_somebody_types(fleet):
    for number in range(1, 4):
        factories.job(f"slurm/della/{number}", name=f"tune-{number}", start_ms=number)
        Job.objects.filter(name=f"tune-{number}").update(state="COMPLETED", end_ms=number + 1)
    Job.objects.filter(name="tune-1").update(state="RUNNING", end_ms=None)

    assert [hit.name for hit in hits("tune", factories.user(), limit=1, now=NOW)] == ["tune-1"]


def test_where_nothing_is_called_so_names_that_are_like_it_are_offered(admin, fleet):
    page = admin.get("/search?q=prija")

    assert [(hit.kind, hit.name) for hit in page.context["near"]] == [("user", "priya")]
    assert "Nothing is called “prija”" in page.content.decode()
    user = factories.user(username="admin-2")
    assert ("node", "l40s-05") in {(hit.kind, hit.name) for hit in near("l40-s05", user)}
    assert ("page", "Pricing") in {(hit.kind, hit.name) for hit in near("pricinf", user)}
    assert near("qqqqqqqq", user) == []
    assert near("p", user) == []


def test_where_no_name_is_like_it_the_page_says_so_as_the_palette_promised(admin, fleet):
    assert (
        "Enter looks whether a name is like it" in admin.get("/search/quick?q=qqq").content.decode()
    )
    page = in_text(tight(admin.get("/search?q=qqqqqqqq").content.decode()))
    assert "Nothing is called “qqqqqqqq”, and no name is like it" in page


def test_where_something_is_called_so_nothing_is_guessed(admin, fleet):
    assert admin.get("/search?q=priya").context["near"] == []


@pytest.mark.parametrize("others_shown", ["teams", "pseudonyms"])
def test_names_that_are_not_seen_are_not_guessed(fleet, others_shown):
    engineer = factories.user(role="engineer", username="vera")
    Organisation.objects.update_or_create(pk=1, defaults={"others_shown": others_shown})
    client = Client()
    client.force_login(engineer)

    for typed in ("prija", "l40-s05", "trian"):
        page = client.get("/search", {"q": typed})
        named = {hit.name for hit in page.context["near"]}
        assert named & {"priya", "l40s-05", "train"} == set(), typed


def test_what_is_looked_for_stands_in_a_field_on_the_page(admin, fleet):
    """On a phone the rail's field is behind the menu."""
    page = tight(admin.get("/search", {"q": 'tu"ne'}).content.decode())
    main = page[page.index("<main") :]

    assert 'type="search" name="q" value="tu&quot;ne"' in main


def test_the_day_of_a_finding_breaks_over_no_line(admin):
    told.rate("2.00")
    of = told.job(name="detector")
    told.cause("data_starved", of=of, on=told.gpu(5), low=0.25, high=0.25)
    told.finding(of, "data_starved")

    assert '<span class="sub nowrap">seen ' in tight(
        admin.get("/search?q=detector").content.decode()
    )


def test_words_are_looked_for_in_owner_name_and_cause_together():
    """Each word has to be somewhere: of jonas' two findings one is of idle time."""
    idle = told.finding(told.job("slurm/della/1", user="jonas"), "idle_held")
    told.finding(told.job("slurm/della/1", user="jonas"), "hung")
    told.finding(told.job("slurm/della/2", user="ann"), "idle_held")

    found_ones = hits("jonas idle", factories.user(), limit=10, now=NOW)

    assert [hit.finding_id for hit in found_ones if hit.kind == "finding"] == [idle.pk]


def test_whose_job_idles_now_is_found_with_it_and_its_incident_before_what_was(fleet):
    """Of jonas: what idles now, an old finding of idle time, and a job that works."""
    factories.job("slurm/della/8", name="sweep", user="jonas", state="RUNNING")
    factories.job("slurm/della/9", name="busy", user="jonas", state="RUNNING")
    facts = {"name": "sweep", "owner": "jonas (nlp)", "labels": {"user": ("jonas",)}}
    incident("slurm/della/8", facts=facts)
    told.finding(told.job("slurm/della/1", user="jonas", end_ms=1), "idle_held")

    groups = ranked(hits("jonas idle", factories.user(), limit=10, now=NOW), "jonas idle", {})

    assert [(kind, [hit.name for hit in several]) for kind, several in groups] == [
        ("incident", ["Job idle: sweep"]),
        ("job", ["sweep"]),
        ("user", ["jonas"]),
        ("finding", ["Idle: still held: train"]),
    ]


def test_somebody_is_not_found_with_words_that_are_nowhere(fleet):
    assert found(factories.user(), "priya zzz") == set()


def test_an_incident_that_is_snoozed_or_no_waste_is_not_called_firing(admin):
    until = NOW + timedelta(hours=23)
    incident("slurm/della/7", snoozed_until=until)
    incident("slurm/della/8", muted="accepted until 2026-12-06 09:49 UTC: a workshop")

    quick = tight(admin.get("/search/quick?q=della").content.decode())

    assert "ann (nlp) · snoozed · until 21 Nov, 11:00" in quick
    assert "ann (nlp) · agreed as not waste" in quick
    assert "firing" not in quick


def test_an_incident_that_stopped_or_was_no_waste_is_called_as_its_page_calls_it(admin):
    incident("slurm/della/7", note="It stopped being idle at 11:04 UTC; it resolves if that lasts.")
    over = {"state": "resolved", "resolved_at": NOW, "ended_ms": to_ms(NOW), "verdict": "rejected"}
    incident("slurm/della/8", **over)

    quick = tight(admin.get("/search/quick?q=della").content.decode())

    assert "ann (nlp) · stopped, not over yet" in quick
    assert "ann (nlp) · resolved, agreed as not waste" in quick
    assert "firing" not in quick


def test_open_findings_come_before_those_that_were_decided(admin):
    usd = {1: Saving(0, 0, Decimal(9), Decimal(9)), 2: Saving(0, 0, Decimal(1), Decimal(1))}
    several = [
        Hit("finding", "Idle: a", "/findings/1", finding_id=1, state="dismissed"),
        Hit("finding", "Idle: b", "/findings/2", finding_id=2, state="open"),
    ]

    [(_, findings)] = ranked(several, "idle", usd)

    assert [hit.name for hit in findings] == ["Idle: b", "Idle: a"]


def test_a_node_is_called_so_whatever_parts_its_words():
    for name in ("a100-03", "a100-13", "h100-03"):
        factories.gpu(factories.node(name), index=3)
    everything = hits("a100 03", factories.user(), limit=10, now=NOW)

    [(kind, nodes), *others] = ranked(everything, "a100 03", {})

    assert (kind, [node.name for node in nodes]) == ("node", ["a100-03"])
    assert [kind for kind, _ in others] == ["GPU"]


def test_the_palette_counts_what_the_page_counts(admin):
    node = factories.node("l40s-06")
    for index in range(70):
        factories.gpu(node, index=index)

    quick = tight(admin.get("/search/quick?q=l40s-06").content.decode())
    page = admin.get("/search?q=l40s-06")

    assert page.context["counts"]["GPU"] == 70
    assert '<span class="sub">70</span>' in quick


def test_an_incident_in_the_palette_has_its_jobs_name_its_owner_and_its_dollars(admin):
    facts = {"name": "<b>train", "owner": "ann", "cost_usd": Decimal("12.50")}
    incident("slurm/della/7", facts=facts)

    quick = tight(admin.get("/search/quick?q=della").content.decode())

    assert ": &lt;b&gt;train" in quick
    assert "ann · firing" in quick
    assert "$12.50" in quick
    assert '<span class="sub">so far</span>' in quick
    assert "slurm/della/7" not in quick


def test_an_incidents_dollars_are_those_of_its_page_at_that_moment(admin):
    """$2.00 until a quarter of an hour ago; at $2.00 an hour it went on, as far as it is judged."""
    counted_ms = to_ms(NOW) - 18 * MINUTE_MS
    facts = {"name": "train", "until_ms": counted_ms, "counted_until_ms": counted_ms}
    fires = incident("slurm/della/7", facts=facts, until_ms=to_ms(NOW) - 3 * MINUTE_MS)

    page = tight(admin.get(f"/incidents/{fires.pk}").content.decode())
    listed = in_text(tight(admin.get("/search?q=train&kind=incident").content.decode()))
    quick = tight(admin.get("/search/quick?q=della").content.decode())

    assert "$2.50" in page
    assert "dollars of each since it began, as far as they are judged" in listed
    assert "$2.50" in listed
    assert "$2.50" in quick


def test_ones_own_jobs_come_first_in_the_palette(fleet):
    """Priya's old run before the one of ann that goes on; before anything is typed her jobs."""
    priya = factories.user(username="priya", role="engineer")
    Identity.objects.create(
        user=priya, system="unix", name="priya", source="claim", created_at=NOW, confirmed_at=NOW
    )
    factories.job("slurm/della/8", name="train-new", user="ann")
    Job.objects.filter(user="priya").update(state="COMPLETED", start_ms=1, end_ms=2)
    Job.objects.filter(user="ann").update(start_ms=to_ms(NOW))
    reader = Client()
    reader.force_login(priya)

    typed = tight(reader.get("/search/quick?q=trai").content.decode())
    untyped = tight(reader.get("/search/quick").content.decode())

    assert typed.index("slurm/della/7") < typed.index("slurm/della/8")
    assert untyped.index("My jobs") < untyped.index("slurm/della/7") < untyped.index("Go to")
    assert "slurm/della/8" not in untyped


@pytest.mark.parametrize(
    "typed",
    [
        "{}",
        "#{}",
        "incident {}",
        "Incident #{}",
        "/incidents/{}",
        "https://hub.example/incidents/{}/",
    ],
)
def test_an_incident_is_found_by_its_number_and_comes_first(admin, typed):
    opened = incident("slurm/della/7", facts={"name": "train"})

    first = next(iter(admin.get("/search", {"q": typed.format(opened.pk)}).context["groups"]))

    assert first[0] == "incident"
    assert [hit.address for hit in first[1]] == [f"/incidents/{opened.pk}"]


def test_a_single_digit_finds_what_has_that_number_alone(fleet):
    """Of job slurm/della/7 it finds nothing: that would be a part of its key."""
    incident("slurm/della/9", pk=7)
    numbered = told.finding(told.job("slurm/della/8"), "hung")
    Finding.objects.filter(pk=numbered.pk).update(id=7)
    reader = factories.user()

    assert [hit.address for hit in hits("7", reader, limit=10, now=NOW)] == [
        "/incidents/7",
        "/findings/7",
    ]
    assert [kind for kind, _ in ranked(hits("7", reader, limit=10, now=NOW), "7", {})] == [
        "incident",
        "finding",
    ]
    assert [hit.address for hit in hits("finding 7", reader, limit=10, now=NOW)] == ["/findings/7"]
    assert hits("9", reader, limit=10, now=NOW) == []


def test_the_key_that_a_pager_has_leads_to_the_incidents_of_the_group():
    opened = incident("slurm/della/7")
    group = IncidentGroup.objects.create(rule=opened.rule, key="ann", opened_at=NOW)
    Incident.objects.update(group=group)

    found_ones = hits(f"hub.example/group/{group.pk}", factories.user(), limit=10, now=NOW)

    assert [hit.address for hit in found_ones] == [f"/incidents/{opened.pk}"]


def test_of_a_group_no_more_incidents_are_read_than_are_shown():
    group = IncidentGroup.objects.create(
        rule=incident("slurm/della/7").rule, key="ann", opened_at=NOW
    )
    for number in (8, 9):
        incident(f"slurm/della/{number}")
    Incident.objects.update(group=group)

    with CaptureQueriesContext(connection) as asked:
        hits(f"group {group.pk}", factories.user(), limit=2, now=NOW)

    of_group = f'"group_id" = {group.pk}'
    assert [query["sql"][-7:] for query in asked if of_group in query["sql"]] == ["LIMIT 2"]


def test_the_number_of_an_incident_that_the_reader_does_not_see_finds_nothing(fleet):
    opened = incident("slurm/della/7")
    engineer = factories.user(role="engineer", username="vera")
    Organisation.objects.update_or_create(pk=1, defaults={"others_shown": "teams"})
    reader = Client()
    reader.force_login(engineer)

    page = reader.get("/search", {"q": f"#{opened.pk}"})

    assert page.context["groups"] == []


def test_a_finding_of_slowed_gpus_has_the_figure_by_which_its_page_says_to_decide(admin):
    """Its hour of $2 lost half of it by the clock, and a hundredth as the ledger counts."""
    told.rate("2.00")
    of = told.job(start_ms=to_ms(told.NOW) - 3 * HOUR_MS)
    slowed = told.cause("throttled", of=of, low=0.01, high=0.01)
    CauseEntry.objects.filter(pk=slowed.pk).update(clock_lost_ms=HOUR_MS // 2)
    told.place("throttled", node=told.gpu().node)

    for address in ("/search", "/search/quick"):
        page = in_text(tight(admin.get(f"{address}?q=n1").content.decode()))
        assert "≤ $1.00 by the lower clock" in page, address


def test_what_was_measured_comes_before_what_is_told_at_most():
    saving = {1: Saving(0, 0, Decimal(1), Decimal(1)), 2: Saving(0, 0, Decimal(9), Decimal(9))}
    at_most = Hit("finding", "Idle: b", "/b", finding_id=2, has_step=True)
    measured = Hit("finding", "Idle: a", "/a", finding_id=1)

    [(_, several)] = ranked([at_most, measured], "idle", saving)

    assert several == [measured, at_most]
