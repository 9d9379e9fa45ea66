"""Kinds of events, and background work, as people read them."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.urls import reverse

from agent.wire import EVENT_KINDS
from fleetwatch.alerts.incidents.muting import muted_in_words
from fleetwatch.alerts.models import Incident, Silence
from fleetwatch.dashboard import words
from fleetwatch.dashboard.asked_findings import STATUSES
from fleetwatch.dashboard.decided_jobs import NOT_WASTE
from fleetwatch.dashboard.glossary import TERMS
from fleetwatch.dashboard.job_lines import WELL
from fleetwatch.dashboard.templatetags.fleetwatch import inside, seen_until, thead
from fleetwatch.dashboard.words import INCIDENT_STATES, finding_stands
from fleetwatch.demo.loading import LOCK
from fleetwatch.diagnosis.causes import BY_CODE

PRODUCT = Path(__file__).resolve().parents[2] / "fleetwatch"
RECORDED = re.compile(r'(?:record_run|run_alone)\(\s*"([a-z_.]+)"')


def test_every_kind_of_event_has_words():
    assert words.EVENTS.keys() >= set(EVENT_KINDS)
    assert words.event("gpu_lost") == "GPU lost"


def test_a_newer_agents_event_is_told_in_plain_letters():
    assert words.event("fan_stuck") == "fan stuck"


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("Last 7 days", "last 7 days"),
        ("Mostly waits, like a service", "mostly waits, like a service"),
        ("GPU larger than the work", "GPU larger than the work"),
        ("G", "g"),
        ("", ""),
    ],
)
def test_a_label_within_a_sentence_keeps_its_abbreviations(label, text):
    assert inside(label) == text


def test_a_tables_head_is_its_columns_each_with_its_classes():
    assert thead("Who", "Cost, < and >|num wide-only", "") == (
        '<thead><tr><th scope="col" class="">Who</th>'
        '<th scope="col" class="num wide-only">Cost, &lt; and &gt;</th>'
        '<td class=""></td></tr></thead>'
    )


def test_every_task_that_is_recorded_says_what_it_does():
    recorded = {
        name
        for path in PRODUCT.rglob("*.py")
        for name in RECORDED.findall(path.read_text(encoding="utf-8"))
    }

    assert recorded | {LOCK} == set(words.TASKS)
    assert words.task_name("ledger.of_another_version") == "ledger.of_another_version"


@pytest.mark.parametrize(("ends_min", "shown"), [(-1, "11:59"), (0, "12:00"), (4, "12:00")])
def test_what_was_seen_ends_now_at_the_latest(ends_min, shown):
    now = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

    assert seen_until({"now": now}, now + timedelta(minutes=ends_min), "minute") == shown


@pytest.mark.parametrize(
    ("template", "slug"),
    [
        ("alerts", "burning"),
        ("incident", "burning"),
        ("_places", "at-stake"),
        ("_hub_facts", "seal"),
        ("_hub_facts", "hot"),
        ("status", "behind"),
        ("_hub_facts", "worker"),
        ("_agent_facts", "skew"),
        ("_agent_facts", "spool"),
    ],
)
def test_a_hard_word_leads_to_what_it_means(template, slug):
    text = (PRODUCT.parent / "templates" / "dashboard" / f"{template}.html").read_text()

    assert f"{{% url 'glossary' %}}#{slug}\"" in text
    assert slug in {term.slug for term in TERMS}


def test_what_no_job_held_has_one_word_and_what_is_no_teams_another():
    """Free GPUs were "unallocated", "no team" and "no job", from page to page."""
    templates = PRODUCT.parent / "templates" / "dashboard"
    texts = {path.name: path.read_text() for path in templates.glob("*.html")}

    assert [name for name, text in texts.items() if '"no job"' in text] == []
    assert [name for name, text in texts.items() if "}}, no job" in text] == []
    assert {term.slug for term in TERMS} >= {"unallocated", "no-team"}
    assert BY_CODE["healthy"].title == WELL


def test_the_glossary_has_each_word_once_in_order_and_leads_to_a_page():
    ordered = [term.word.lower() for term in TERMS]

    assert ordered == sorted(set(ordered))
    assert len({term.slug for term in TERMS}) == len(TERMS)
    assert all(term.place and reverse(term.seen) for term in TERMS)


def test_what_somebody_said_is_not_waste_is_called_the_same_wherever_it_stands():
    words = {
        STATUSES["dismissed"],
        INCIDENT_STATES["accepted"],
        Incident(verdict="rejected").verdict_in_words,
        Silence(kind="justification").kind_in_words.capitalize(),
        Silence(kind="exemption").kind_in_words.capitalize(),
        muted_in_words("accepted until Friday: a workshop").partition(" (")[0],
        muted_in_words("exemption until Friday: a warm replica").partition(" (")[0],
        finding_stands("dismissed").capitalize(),
        finding_stands("exempt").capitalize(),
        NOT_WASTE.capitalize(),
        next(term.word for term in TERMS if term.slug == "dismissed"),
    }

    assert words == {"Agreed as not waste"}


def test_no_page_calls_an_agreement_an_exemption():
    """Of templates what people read is no tag; of the glossary only the API's words."""
    templates = (PRODUCT.parent / "templates").rglob("*.html")
    read = {
        path.name: re.sub(r"{[%#].*?[%#]}", "", path.read_text(), flags=re.S) for path in templates
    }

    assert [name for name, text in read.items() if "xempt" in text] == []
    assert [term.slug for term in TERMS if "xempt" in term.word] == []
    assert [term.slug for term in TERMS if "xempt" in term.meaning] == ["dismissed"]
