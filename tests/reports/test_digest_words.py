"""What a digest says: whether it is news, against which week, and its causes, incidents and jobs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.dashboard.digest_fixes import digest_fixes
from fleetwatch.figures.totals import nothing
from fleetwatch.reports import digest, digest_lists
from fleetwatch.reports.digest import Digest

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]


HOUR_MS = 3_600_000


HOUR = timedelta(hours=1)


MONDAY_NINE = datetime(2026, 11, 23, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("changes", "has_news"),
    [
        ({}, False),
        ({"cost_usd": Decimal(101)}, False),  # at 1 %
        ({"cost_usd": Decimal("101.01")}, True),
        ({"cost_usd": Decimal("98.99")}, True),
        ({"capacity_ms": 1_010}, False),
        ({"capacity_ms": 1_011}, True),
        ({"waste_usd": {"certain": Decimal("10.10"), "probable": Decimal(0)}}, False),
        ({"waste_usd": {"certain": Decimal("10.11"), "probable": Decimal(0)}}, True),
        ({"useful": Decimal("51")}, False),  # a point of efficiency
        ({"useful": Decimal("51.01")}, True),
    ],
)
def test_news_is_what_changed_by_more_than_one_per_cent(changes, has_news):
    before = replace(
        nothing(),
        capacity_ms=1_000,
        cost_usd=Decimal(100),
        cost_by_state=nothing().cost_by_state | {"useful": Decimal(50)},
        waste_usd={"certain": Decimal(10), "probable": Decimal(0)},
    )
    useful = changes.pop("useful", None)
    if "cost_usd" in changes:  # the same share of it
        useful = changes["cost_usd"] / 2
    by_state = before.cost_by_state | ({} if useful is None else {"useful": useful})
    this = replace(before, cost_by_state=by_state, **changes)

    assert weekly(this=this, before=before).has_news is has_news


def test_a_first_week_is_news():
    assert weekly(this=nothing(), before=None).has_news


def weekly(**changes) -> Digest:
    facts = {"kind": digest.FLEET, "name": "", "week": "2026-W47", "zone": "UTC", "causes": []}
    none = dict.fromkeys(("before_from", "budget", "won"))
    none |= {"incidents": {"count": 0, "acknowledged": 0, "is_watched": True}}
    return Digest(**(facts | none | changes))


@pytest.mark.parametrize(
    ("week", "days"),
    [
        ("2026-W47", "16 to 22 Nov 2026"),
        ("2026-W49", "30 Nov to 6 Dec 2026"),
        ("2026-W53", "28 Dec 2026 to 3 Jan 2027"),
    ],
)
def test_a_week_is_told_by_its_days(week, days):
    assert digest.days_of(week) == days


def a_cause(name, step, usd):
    dollars = {"low_usd": Decimal(usd), "high_usd": Decimal(usd)}
    words = {"cause": "idle", "title": "Idle", "owner": "ann", "command": f"scancel {name}"}
    return {"name": name, "step": step} | dollars | words


def test_a_step_that_helps_several_stands_by_what_they_could_save_together():
    causes = [a_cause("a", "Load.", 50), a_cause("b", "Stop.", 40), a_cause("c", "Stop.", 20)]

    steps = digest_lists.by_step(causes)

    # $60 of two jobs before $50 of one
    assert [[each["name"] for each in several] for several in steps] == [["b", "c"], ["a"]]
    fixes = digest_fixes(causes)
    assert [(fix.step, fix.high_usd, fix.code) for fix in fixes] == [
        ("Stop.", 60, "scancel b; scancel c"),
        ("Load.", 50, "scancel a"),
    ]


def test_a_week_before_of_a_few_hours_is_no_week_to_compare():
    began = datetime(2026, 11, 15, 20, tzinfo=UTC)

    fields = dict(message_of(weekly(this=nothing(), before=nothing(), before_from=began)).fields)

    assert "(no earlier week to compare)" in fields["Spend"]


def test_no_change_is_told_against_a_week_recorded_in_part():
    began = datetime(2026, 11, 14, tzinfo=UTC)

    fields = dict(message_of(weekly(this=nothing(), before=nothing(), before_from=began)).fields)

    assert "(the week before has only 2 of 7 days)" in fields["Spend"]
    assert "(" not in fields["Wasted"] + fields["Useful share of cost"]


@pytest.mark.parametrize(("is_watched", "text"), [(True, "none"), (False, None)])
def test_no_incident_is_told_of_a_week_that_a_rule_watched(is_watched, text):
    incidents = {"count": 0, "acknowledged": 0, "is_watched": is_watched}

    told = weekly(this=nothing(), before=None, incidents=incidents)
    fields = dict(message_of(told).fields)

    assert fields.get("Incidents") == text


def test_jobs_of_one_name_are_told_apart_by_their_owner():
    several = [
        a_cause(name, "Stop.", 20) | {"owner": owner}
        for name, owner in (("a", "ann"), ("a", "bob"), ("b", "ann"))
    ]

    [fix] = digest_fixes(several)

    assert [subject.name for subject in fix.subjects] == ["a of ann", "a of bob", "b"]
    assert fix.saved == "$60.00"


def message_of(told: Digest):
    return digest.message(told, url="https://hub.example")


def test_a_step_that_helps_several_is_said_once():
    def cause(name: str, step: str) -> dict:
        dollars = {"low_usd": Decimal(1), "high_usd": Decimal(1)}
        return dollars | {"name": name, "step": step, "command": "", "title": "t", "owner": "o"}

    causes = [cause("a", "Stop."), cause("b", "Load."), cause("c", "Load."), cause("d", "Stop.")]
    made = weekly(this=nothing(), before=None, causes=causes)

    text = digest.message(made, url="").text

    assert text.splitlines()[:2] == ["Begin with a: Stop.", "Then b: Load."]
    assert "c: Load" not in text
