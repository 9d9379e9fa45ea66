"""GPUs that heat or power slowed: which of their two figures to decide by, what held them down, and
what their jobs and their cause say.
"""

import pytest

from fleetwatch.accounts.models import Organisation
from fleetwatch.alerts.models import Rule
from fleetwatch.diagnosis.findings.slowed_spells import Spell, Spells
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import HOUR_MS, MINUTE_MS, to_ms
from tests.dashboard import factories, fleet
from tests.dashboard.test_machine_problems import HOUR, fires_hot, hot
from tests.diagnosis.told import NOW, cause, gpu, place, rate
from tests.markup import in_text, tight

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_frozen")]
LIMITS = "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"
JARGON = "what the clock loses"


@pytest.fixture
def slowed():
    """2 hours of $4: 0.4 of each lost by the clock, 0.03 counted by the ledger."""
    rate("4.00")
    hot(1, 2)
    Node.objects.update(last_ms=to_ms(NOW))
    return place("throttled", node=gpu(1).node, first_ms=to_ms(NOW - 2 * HOUR), last_ms=to_ms(NOW))


def shown(client, address: str) -> str:
    return tight(client.get(address).content.decode())


def test_a_slowed_machines_page_says_by_which_of_its_figures_to_decide(admin, slowed):
    words = in_text(shown(admin, f"/findings/{slowed.pk}"))

    assert "Decide by ≤ $3.20 whether to mend the machine" in words
    assert "Only $0.24 counts as wasted or potential" in words
    assert JARGON not in words.lower()


def test_where_the_clock_lost_no_more_than_was_wasted_there_is_nothing_to_decide_between(
    admin, slowed
):
    CauseEntry.objects.update(clock_lost_ms=0)

    assert "Decide by" not in in_text(shown(admin, f"/findings/{slowed.pk}"))


@pytest.mark.parametrize("over_hours", [0, 3])
def test_the_first_step_asks_the_driver_which_limit_holds_it_back(admin, slowed, over_hours):
    Node.objects.update(last_ms=to_ms(NOW) + over_hours * HOUR_MS)

    page = shown(admin, f"/findings/{slowed.pk}")

    first = page.partition('<ol class="advice">')[2].partition("</li>")[0]
    assert LIMITS in first


@pytest.mark.parametrize(
    ("limits", "temperatures", "said"),
    [
        (["heat"], [88, 89], (["heat"], "88–89 °C")),
        (["power"], [71, 71], (["power"], "71 °C")),
        (["heat", "power"], [None, 88], (["heat", "power"], "88 °C")),
        ([], [None, None], ([], "")),
    ],
)
def test_spells_say_heat_or_power_where_the_readings_tell(limits, temperatures, said):
    spells = Spells([Spell(None, 0, 1, None, t, frozenset(limits)) for t in temperatures], 2)

    assert (spells.limits, spells.hottest) == said


@pytest.mark.parametrize(
    ("begun", "is_enabled", "said"),
    [
        (-9, True, "which tells of what lasts"),
        (1, True, "which is on since Fri 20 Nov, 13:00 alone"),
        (-9, False, "which is off"),
        (None, True, "which was not evaluated yet"),
    ],
)
def test_a_slowed_machine_without_an_incident_links_the_rule_and_says_why(
    admin, slowed, begun, is_enabled, said
):
    begun_ms = None if begun is None else to_ms(NOW + begun * HOUR)
    rules = Rule.objects.filter(condition="gpu_slowed")
    rules.update(begun_ms=begun_ms, is_enabled=is_enabled)

    page = shown(admin, f"/findings/{slowed.pk}")

    assert f'href="/alerts/rules/{rules.get().pk}"' in page
    assert "No incident tells of it by the alert rule" in in_text(page)
    assert said in in_text(page)


def test_a_rule_that_is_on_since_slowing_ended_is_no_rule_that_missed_it(admin, slowed):
    """Slowed until 11:30, the rule is on since 11:45; diagnosis looked until noon."""
    CauseEntry.objects.filter(cause="throttled").update(cells=0b111111)
    begun_ms = to_ms(NOW) - 15 * MINUTE_MS
    Rule.objects.filter(condition="gpu_slowed").update(begun_ms=begun_ms)

    words = in_text(shown(admin, f"/findings/{slowed.pk}"))

    assert "which is on since Fri 20 Nov, 11:45 alone" in words


def test_with_an_incident_it_is_told_by_the_rule(admin, slowed):
    fires_hot()

    assert "Told by the alert rule" in in_text(shown(admin, f"/findings/{slowed.pk}"))


def test_a_slowed_job_says_in_plain_words_what_it_lost_and_leads_to_its_clock(admin, slowed):
    page = shown(admin, "/jobs/slurm/della/7")

    words = in_text(page)
    assert "Lost of its work: ≤ $3.20 by the lower clock" in words
    assert "only $0.24 of that time counts as wasted or potential" in words
    assert "as the ledger counts" not in words


def test_a_slowed_cause_says_what_the_clock_lost_beside_what_counts_as_wasted(admin, slowed):
    words = in_text(shown(admin, "/causes/throttled"))

    assert "Lost by the lower clock, last 7 days ≤ $3.20" in words
    assert "Decide by this whether to mend a machine" in words
    assert "What the full clock would bring back of the time counted as wasted" in words
    assert "lower clock" not in in_text(shown(admin, "/causes/hung"))


def test_who_sees_own_time_alone_hears_nothing_of_all_machines_clocks(client, slowed):
    Organisation.objects.update_or_create(pk=1, defaults={"others_shown": "teams"})
    client.force_login(factories.user(role="engineer", username="vera"))

    assert "≤" not in in_text(shown(client, "/causes/throttled"))


@pytest.mark.parametrize("is_slowed", [True, False])
def test_the_curves_of_a_slowed_job_have_its_temperature_with_that_time_shaded(admin, is_slowed):
    """A GPU that the job held from 09:00 to 11:00, slowed from 10:00; no clock was read."""
    node = factories.node(now=NOW)
    card = factories.gpu(node, now=NOW)
    fleet._telemetry(node, NOW)
    held_by = factories.job("slurm/della/4711", start_ms=to_ms(NOW) - 3 * HOUR_MS)
    factories.hold(card, held_by, hours_ago=3, hours=2, now=NOW)
    if is_slowed:
        cause("throttled", of=held_by, on=card, start=NOW - 2 * HOUR)

    figure = admin.get(f"/charts/job?job={held_by.key}&gpu={card.uuid}&from=now-6h&to=now").json()

    titles = {each["text"] for each in figure["layout"]["annotations"]}
    assert ("Temperature" in titles) == is_slowed
    assert bool(figure["layout"].get("shapes")) == is_slowed
