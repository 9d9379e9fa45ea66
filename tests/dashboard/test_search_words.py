"""What a search makes of words: where a word begins, what people agreed on and why, and what a
finding's dollars are called.
"""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.cache import cache

from fleetwatch.accounts.models import Organisation, Team
from fleetwatch.alerts.models import Silence
from fleetwatch.dashboard.search_hits import hits
from fleetwatch.dashboard.search_order import ranked
from fleetwatch.diagnosis.findings import noted_facts
from fleetwatch.diagnosis.models import Finding, Said
from fleetwatch.inventory.models import Node
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import incident
from tests.diagnosis import told
from tests.markup import in_text, tight

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_frozen")]
REASON = "the other GPUs are its hot spare"
CSS = Path(__file__).parents[2] / "static/css/narrow_and_paper.css"


def found(text: str) -> set[tuple[str, str]]:
    reader = factories.user(username=f"reader-{text}")
    return {(hit.kind, hit.address) for hit in hits(text, reader, limit=10, now=NOW)}


def quick(reader, text: str) -> str:
    return in_text(tight(reader.get("/search/quick", {"q": text}).content.decode()))


@pytest.fixture
def wasted() -> Finding:
    """Of a job whose GPUs idled for two hours, and that is over."""
    told.rate()
    of = told.job("slurm/della/1", end_ms=to_ms(NOW))
    told.cause(of=of, start=NOW - timedelta(hours=2))
    return told.finding(of, first_ms=to_ms(NOW) - 2 * HOUR_MS, last_ms=to_ms(NOW) - HOUR_MS)


def dismissed(finding: Finding) -> None:
    Finding.objects.filter(pk=finding.pk).update(status="dismissed", decided_at=NOW)
    Said.objects.create(finding=finding, kind="dismissed", at=NOW, note=REASON)


def exempted() -> None:
    Silence.objects.create(
        kind="exemption",
        matchers=[{"label": "subject", "values": ["slurm/della/1"], "is_not": False}],
        starts_at=NOW - timedelta(days=1),
        ends_at=NOW + timedelta(days=7),
        reason=REASON,
        created_at=NOW - timedelta(days=1),
    )


def test_a_word_of_pages_and_of_the_glossary_is_found_where_it_begins():
    assert not {kind for kind, _ in found("vera")} & {"word", "page", "cause"}
    assert not {kind for kind, _ in found("overable")} & {"word", "page", "cause"}
    assert ("page", "/waste") in found("WAS")
    assert ("word", "/docs/glossary#recoverable") in found("recov")
    assert ("page", "/settings/links") in found("w&b")
    assert ("cause", "/causes/idle_held") in found("held")


def test_names_match_inside_too_and_those_with_a_word_that_begins_so_come_first():
    for slug in ("coveragelab", "the-vera", "vera-lab"):
        Team.objects.create(slug=slug, name=slug)

    [(_, teams)] = ranked(hits("vera", factories.user(), limit=10, now=NOW), "vera", {})

    assert [hit.name for hit in teams] == ["vera-lab", "the-vera", "coveragelab"]


def test_what_a_word_means_is_cut_between_words_and_says_so():
    every = hits("idle", factories.user(), limit=10, now=NOW)

    cut = {hit.name: hit.about for hit in every if hit.kind == "word"}
    assert cut["Idle"] == (
        "A job held the GPU without using it for longer than the idle threshold: 15 minutes for…"
    )


@pytest.mark.parametrize("decided", [dismissed, lambda _: exempted()])
def test_agreed_leads_to_the_findings_and_incidents_so_marked(wasted, decided):
    decided(wasted)
    other = told.finding(told.job("slurm/della/2"), "hung")
    over = incident("slurm/della/8", muted="accepted until 2026-12-06 09:49 UTC: a workshop")

    for text in ("agreed", "agreed as not waste", "not waste"):
        addresses = found(text)

        assert ("page", "/findings?status=dismissed&range=30d") in addresses
        assert ("page", "/alerts?state=accepted") in addresses
        assert ("finding", f"/findings/{wasted.pk}") in addresses
        assert ("finding", f"/findings/{other.pk}") not in addresses
        assert ("incident", f"/incidents/{over.pk}") in addresses


def test_the_tabs_of_what_is_agreed_say_how_much_is_in_them(admin, wasted):
    dismissed(wasted)
    incident("slurm/della/8", muted="accepted until 2026-12-06 09:49 UTC: a workshop")

    shown = quick(admin, "agreed")
    tab = in_text(tight(admin.get("/findings?status=dismissed&range=30d").content.decode()))

    assert "1 finding of the last 30 days" in shown
    assert "1 incident, 0 of them over" in shown
    assert "Agreed as not waste 1" in tab


@pytest.mark.parametrize("decided", [dismissed, lambda _: exempted()])
def test_the_reason_why_a_finding_is_no_waste_finds_it(wasted, decided):
    decided(wasted)

    assert ("finding", f"/findings/{wasted.pk}") in found("hot spare")
    assert ("finding", f"/findings/{wasted.pk}") not in found("cold spare")


def test_the_reason_why_an_incident_is_no_waste_finds_it():
    over = incident("slurm/della/8", muted="accepted until 2026-12-06 09:49 UTC: a workshop")

    assert ("incident", f"/incidents/{over.pk}") in found("workshop")
    for no_reason in ("accepted", "until", "UTC", "09:49", "w.rkshop"):
        assert ("incident", f"/incidents/{over.pk}") not in found(no_reason)


def test_nobody_learns_by_a_search_whom_a_finding_was_given_to(wasted):
    Said.objects.create(finding=wasted, kind="assigned", at=NOW, note="to carol: please look")

    assert ("finding", f"/findings/{wasted.pk}") not in found("carol")


def test_nobody_finds_by_its_reason_what_is_not_theirs_to_see(client, wasted):
    dismissed(wasted)
    Organisation.objects.update_or_create(pk=1, defaults={"others_shown": "teams"})
    client.force_login(factories.user(role="engineer", username="vera"))

    assert f"/findings/{wasted.pk}" not in client.get("/search?q=hot+spare").content.decode()
    assert f"/findings/{wasted.pk}" not in client.get("/search?q=agreed").content.decode()


def test_what_is_over_could_have_been_saved_and_no_period_reads_as_what_comes(admin, wasted):
    over = quick(admin, "train")
    Job.objects.update(end_ms=None)
    running = quick(admin, "train")
    listed = in_text(tight(admin.get("/search?q=train").content.decode()))

    assert "could have been saved" in over
    assert "could be saved" in running
    assert "30 d" not in over + running
    assert "dollars of the last 30 days" in listed
    assert "could be saved" in listed


def test_a_machine_that_was_heard_since_without_it_could_have_saved():
    told.rate()
    node = Node.objects.create(name="h100-01", last_ms=to_ms(NOW))
    Finding.objects.create(
        node=node, cause="throttled", first_ms=to_ms(NOW) - 9 * HOUR_MS, last_ms=to_ms(NOW)
    )
    [goes_on] = hits("h100-01 heat", factories.user(username="amara"), limit=9, now=NOW)
    Finding.objects.update(last_ms=to_ms(NOW) - 3 * HOUR_MS)
    [over] = hits("h100-01 heat", factories.user(username="otto"), limit=9, now=NOW)

    assert (goes_on.saved_words, over.saved_words) == ("could be saved", "could have been saved")


def test_a_session_whose_step_is_not_measured_yet_is_told_at_most(admin, wasted):
    cache.clear()
    Job.objects.update(kind="interactive")
    before = quick(admin, "train")
    listed = in_text(tight(admin.get("/search?q=train").content.decode()))
    noted_facts.note(limit=9)

    assert "could have been saved at most" in before
    assert "still being computed" in listed
    assert "at most" not in quick(admin, "train")


def test_the_help_of_the_search_names_findings_incidents_and_words(admin):
    shown = in_text(tight(admin.get("/search").content.decode()))

    assert "findings, incidents" in shown
    assert "words of the glossary" in shown


def test_results_scroll_beneath_the_foot_of_the_palette_and_short_names_do_not_break():
    sheet = CSS.read_text()
    [palette] = re.findall(r"^\.palette \{[^}]*\}", sheet, re.MULTILINE)
    [foot] = re.findall(r"^\.palette > \.sub \{[^}]*\}", sheet, re.MULTILINE)

    assert "padding: var(--s2) var(--s2) 0;" in palette
    assert "background: var(--card)" in foot
    assert "bottom: 0" in foot
    assert ".hits a > b { flex: none;" in sheet
