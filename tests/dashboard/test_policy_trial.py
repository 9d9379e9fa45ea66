"""The ledger's policy on its page: its thresholds, and what others would have said."""

import re
from dataclasses import fields
from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine
from django.http import HttpResponse
from django.test import Client

from fleetwatch.accounts.models import AuditEntry
from fleetwatch.costs.models import Rate
from fleetwatch.dashboard.trial_outcome import SHOWN_MS, outcome, why_nothing
from fleetwatch.dashboard.trial_pages import Change
from fleetwatch.finance.trial_sums import Line
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.selectors import current_policy, newest_policy
from fleetwatch.lib.intervals import HOUR_MS, Interval
from tests.costs.factories import a_rate
from tests.dashboard import factories
from tests.dashboard.test_reports import text
from tests.ledger.fleet import BUSY, QUIET, START, T0, Sender, a_job, held, post

DAY = Interval(START, START + timedelta(hours=24))


def a_line(state, is_h, would_h, *, tier="certain", group="", usd_per_hour=2):
    return Line(
        group,
        state,
        tier,
        int(is_h * HOUR_MS),
        int(would_h * HOUR_MS),
        Decimal(str(is_h)) * usd_per_hour,
        Decimal(str(would_h)) * usd_per_hour,
    )


def outcome_of(*by_state, team=(), job=()):
    return outcome({"state": by_state, "team": team, "job": job}, DAY)


def test_a_day_says_what_a_month_of_730_hours_would_waste():
    result = outcome_of(a_line("idle", 10, 12), a_line("useful", 50, 48, tier=""))

    assert (result.wasted.is_usd, result.wasted.would_usd) == (20, 24)
    assert result.idle.more_ms == 2 * HOUR_MS
    assert result.is_usd_per_month == Decimal(20) * 730 / 24
    assert result.more_usd_per_month == Decimal(4) * 730 / 24


def test_what_states_have_more_sums_to_none_and_idle_is_as_it_is_told_above():
    """Rounded each by itself, +8.41, -8.25 and -0.17 leave -0.01."""
    lines = (
        a_line("idle", 10, 18.4146),
        a_line("useful", 50, 41.7541, tier=""),
        a_line("starting", 5, 4.8313, tier=""),
    )

    more = [str(hours) for _, hours in outcome_of(*lines).printed_lines]

    assert more == ["8.41", "-8.24", "-0.17"]


def test_potential_waste_is_in_no_total():
    result = outcome_of(
        a_line("underused", 3, 5, tier="potential"), a_line("useful", 9, 7, tier="")
    )

    assert not result.is_wasted_moved
    assert result.moved_ms == 2 * HOUR_MS


def test_what_moves_by_less_than_a_hundredth_of_a_gpu_hour_is_no_change():
    under = Line("", "idle", "certain", 0, SHOWN_MS - 1, Decimal(0), Decimal("0.03"))
    just = Line("", "stalled", "probable", 0, SHOWN_MS, Decimal(0), Decimal("0.03"))

    assert outcome_of(under, just).lines == [just]
    assert outcome_of(under, team=[under]).teams == []


def test_whose_waste_moves_most_comes_first_more_or_less():
    result = outcome_of(
        team=[
            a_line("idle", 1, 2, group="nlp"),
            a_line("useful", 5, 4, tier="", group="nlp"),
            a_line("idle", 4, 0, group="vision"),
            a_line("useful", 0, 4, tier="", group="vision"),
            a_line("idle", 3, 3, group="speech"),
        ]
    )

    assert [(mover.key, mover.wasted.more_usd) for mover in result.teams] == [
        ("vision", -8),
        ("nlp", 2),
    ]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({}, "These values are in force already."),
        (
            {"idle_batch_s": ("15 min", "5 min")},
            "No batch job was quiet for between 5 min and 15 min at a stretch",
        ),
        (
            {"idle_service_s": ("1 h", "2 h")},
            "No service was quiet for between 1 h and 2 h at a stretch",
        ),
        ({"quiet_max": ("2 %", "3 %")}, "between the value in force and the one"),
        (
            {"quiet_max": ("2 %", "3 %"), "idle_batch_s": ("15 min", "5 min")},
            "between the values in force",
        ),
    ],
)
def test_that_nothing_changes_has_its_reason(names, reason):
    numbers = {"idle_batch_s": 300, "idle_service_s": 7200, "quiet_max": 0.03}
    tried = Policy(**{name: numbers[name] for name in names})

    assert reason in why_nothing(Policy(), tried, names)


@pytest.fixture
def finance(db):
    """A client of finance at 07:00: from 06:00 on a job worked for 50 minutes and was quiet for
    ten, on a GPU for $3.60 an hour.
    """
    with time_machine.travel(START + timedelta(hours=1), tick=False):
        quiet_in_the_end = (*[BUSY] * 50, *[QUIET] * 10)
        post(Sender().batch(T0, *quiet_in_the_end, jobs=[a_job()], allocations=[held()]))
        a_rate("3.60", gpu=GPU.objects.get())
        client = Client()
        client.force_login(factories.user(role="finance"))
        yield client


def test_every_threshold_stands_with_its_unit(finance):
    page = finance.get("/settings/policy")

    assert "Policy 1, in force" in text(page)
    shown = [each.name for part in page.context["parts"] for each in part.thresholds]
    assert sorted(shown) == sorted(threshold.name for threshold in fields(Policy))
    assert "Batch job is idle after 15 min" in text(page)


def test_a_trial_says_what_moves_for_whom_and_where_it_is_put_in_force(finance):
    page = finance.get("/settings/policy?idle_batch_s=5+min&hours=1")

    # 10 minutes at $3.60 an hour, wasted by both: stalled before, idle then
    assert "Idle +0.17 GPU-hours ( +$0.60 ); wasted stays $0.60" in text(page)
    assert "Batch job is idle after 15 min → 5 min" in text(page)
    assert "Stalled probable 0.17 0.00 −0.17 −$0.60" in text(page)
    assert 'href="/jobs/slurm/della/7"' in page.content.decode()
    assert "Useful" not in text(page)  # nothing moves there
    assert "An admin puts it in force here" in text(page)
    assert "/settings/policy-set" not in page.content.decode()
    assert page.context["command"] == "manage.py set_policy idle_batch_s=300"
    assert "set_policy" not in text(page)  # the hub's shell is the admins'
    assert "wasted stays $0.60" in text(page).split("Whose time moves")[1]


def set_in_browser(client, **sent) -> HttpResponse:
    return client.post(
        "/settings/policy-set", {"version": "1", "idle_batch_s": "300"} | sent, follow=True
    )


def test_an_admin_puts_what_was_tried_in_force(finance):
    finance.force_login(factories.user(role="admin", username="root"))
    tried = finance.get("/settings/policy?idle_batch_s=5+min&hours=1").content.decode()

    page = set_in_browser(finance)

    assert '<input type="hidden" name="idle_batch_s" value="300">' in tried
    assert "manage.py set_policy idle_batch_s=300" in tried
    assert "Policy 2 is in force: it judges what is posted from now on." in text(page)
    assert newest_policy().version == 2
    assert current_policy()[1] == Policy(idle_batch_s=300)
    assert AuditEntry.objects.latest("pk").action == "policy.set"


def test_each_version_says_who_changed_what(finance):
    finance.force_login(factories.user(role="admin", username="root"))
    set_in_browser(finance)

    versions = finance.get("/settings/policy").context["versions"]

    first, second = versions[::-1]
    assert (first.version, first.by, first.changes) == (1, "", [])
    assert (first.is_first, second.is_first) == (True, False)
    assert (second.version, second.by) == (2, "root")
    assert second.changes == [Change("Batch job is idle after", "15 min", "5 min")]


def test_what_is_kept_since_a_day_is_judged_again_where_that_is_asked(finance):
    finance.force_login(factories.user(role="admin", username="root"))

    page = set_in_browser(finance, repost_from=f"{START:%Y-%m-%d}")

    [hours] = re.findall(r"posted from now on, and (\d+) hours? of nodes again.", text(page))
    assert int(hours) == 7  # since midnight


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"version": "7"}, "Policy 1 came into force meanwhile"),
        ({"idle_batch_s": "soon"}, "expected a number"),
        ({"idle_batch_s": ""}, "that is the policy in force already"),
        ({"idle_batch_s": "9" * 9}, "reaches farther"),
        ({"repost_from": "yesterday"}, "a day like 2026-11-01"),
    ],
)
def test_a_policy_that_can_not_be_is_refused_and_nothing_changes(finance, sent, says):
    finance.force_login(factories.user(role="admin", username="root"))

    page = set_in_browser(finance, **sent)

    assert page.status_code == 422
    assert says in page.content.decode()
    assert current_policy()[0] == 1


@pytest.mark.parametrize("role", ["engineer", "lead", "finance", "operator"])
def test_only_admins_put_a_policy_in_force(finance, role):
    finance.force_login(factories.user(role=role, username="vera"))

    assert set_in_browser(finance).status_code == 403
    assert current_policy()[0] == 1


def test_more_waste_of_an_hour_is_not_told_by_the_month(finance):
    page = text(finance.get("/settings/policy?quiet_max=1&blip_max=1&idle_batch_s=5+min&hours=1"))

    # the 50 minutes of work would be quiet too
    assert "Wasted in 1 hour: $0.60 → $3.60 ; idle +1.00 GPU-hours ( +$3.60 )" in page
    assert "Per month" not in page


def test_more_waste_of_a_week_is_told_by_the_month_too(finance):
    page = text(finance.get("/settings/policy?quiet_max=1&blip_max=1&idle_batch_s=5+min&hours=168"))

    # 730 / 168 of $0.60 and $3.60
    assert "Wasted in 168 hours: $0.60 → $3.60" in page
    assert "$2.61 → $15.64 wasted ( +$13.04 )" in page


def test_without_a_rate_a_trial_says_hours_and_no_dollars(finance):
    Rate.objects.all().delete()

    page = text(finance.get("/settings/policy?quiet_max=1&blip_max=1&idle_batch_s=5+min&hours=1"))

    assert "Wasted in 1 hour: 0.17 → 1.00 GPU-hours; idle +1.00 GPU-hours" in page
    assert "no rate is set for these GPUs" in page
    assert "Per month" not in page
    assert "$0.00" not in page


def test_a_trial_that_changes_nothing_says_why_and_offers_more_hours(finance):
    page = finance.get("/settings/policy?idle_batch_s=20+min&hours=1")

    assert 'value="20 min"' in page.content.decode()
    assert "Nothing would change No batch job was quiet for between 15 min and 20 min" in text(page)
    assert "hours=24#effect" in page.content.decode()
    assert "Most that thresholds decide" not in text(page)  # none of it is idle


def test_a_trial_that_changes_nothing_says_which_thresholds_decide_most(finance):
    """Ten minutes of quiet are idle after five minutes, and after six."""
    finance.force_login(factories.user(role="admin", username="root"))
    set_in_browser(finance)

    page = text(finance.get("/settings/policy?idle_batch_s=6+min&hours=1"))

    assert "Nothing would change" in page
    assert "Most that thresholds decide here is idle time, 0.17 GPU-hours" in page
    assert "under “Batch job is idle after”, “Interactive job is idle after”, “Service" in page


def test_a_duration_without_its_unit_is_refused_and_one_with_it_is_shown_as_pages_do(finance):
    bare = finance.get("/settings/policy?idle_batch_s=20&hours=1")
    page = finance.get("/settings/policy?idle_batch_s=120+s&hours=1")

    assert bare.status_code == 422
    assert "In which unit? Write a duration like 15 min" in bare.content.decode()
    assert "Batch job is idle after 15 min → 2 min" in text(page)
    assert 'value="2 min"' in page.content.decode()


def test_what_is_not_understood_is_said_at_its_field(finance):
    page = finance.get("/settings/policy?idle_batch_s=soon")

    assert page.status_code == 422
    assert "a duration like 15 min" in page.content.decode()


@pytest.mark.parametrize(
    ("gpus", "chosen"),
    [
        (333, "6"),  # 1,998 GPU-hours
        (334, "1"),  # 2,004 GPU-hours
        (2_001, "1"),
    ],
)
def test_as_many_hours_as_a_request_can_judge_are_chosen(finance, gpus, chosen):
    first = GPU.objects.get()
    GPU.objects.bulk_create(
        GPU(uuid=f"GPU-{number}", node=first.node, first_ms=T0) for number in range(1, gpus)
    )

    page = finance.get("/settings/policy").content.decode()

    [select] = re.findall(r'<select[^>]*name="hours".*?</select>', page, re.DOTALL)
    assert re.findall(r'value="(\d+)"', select) == ["1", "6", "24", "168"]
    assert re.findall(r'value="(\d+)"\s+selected', select) == [chosen]
    in_background = re.findall(r'value="(\d+)"[^>]*>[^<]*in the background', select)
    assert in_background == [hours for hours in ("1", "6", "24", "168") if int(hours) * gpus > 2000]


def test_who_has_neither_the_fleet_nor_the_money_tries_nothing(finance):
    finance.force_login(factories.user(role="engineer", username="vera"))

    page = finance.get("/settings/policy?idle_batch_s=5+min&hours=1")

    assert "operators and finance can try other values" in text(page)
    assert "effect" not in page.context
    assert "outcome" not in page.context
