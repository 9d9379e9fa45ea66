"""The cost explorer as somebody sees it."""

import csv
import io
import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from django.template.loader import render_to_string

from fleetwatch.accounts.models import Organisation
from fleetwatch.costs.models import Commitment
from fleetwatch.figures.comparison import Change, Compared
from fleetwatch.figures.totals import nothing
from fleetwatch.finance.committing import commit
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests import stored_runs
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.markup import in_text, tight
from tests.reports.test_download import sheets

pytestmark = pytest.mark.django_db

TWO_HOURS = "from=now-2h&to=now"
FORGED = "=1+1"


@pytest.fixture
def explorer(admin):
    """At $2 an hour: ann's job two hours of work, then an idle one; the last hour is free."""
    gpu = factories.gpu(factories.node(), hours=4)
    factories.rate("2.00")
    job = factories.job(user=FORGED)
    factories.hold(gpu, job, hours_ago=4, hours=3)
    states = {4: "useful", 3: "useful", 2: "idle"}
    entries = [
        factories.entry(gpu, hours_ago=ago, state=state, held_by=job)
        for ago, state in states.items()
    ]
    Entry.objects.bulk_create([*entries, factories.entry(gpu, hours_ago=1, state="free")])
    return admin


def page_of(client, address):
    return tight(client.get(address).content.decode())


def test_a_cost_leads_to_how_it_came_about(explorer):
    page = page_of(explorer, f"/costs?{TWO_HOURS}&team=nlp")

    assert f'href="/explain?{TWO_HOURS.replace("&", "&amp;")}&amp;team=nlp"' in page


def test_a_period_stands_beside_the_one_before(explorer):
    answer = explorer.get(f"/costs?{TWO_HOURS}")

    team, free = answer.context["lines"]
    assert (team.key, team.totals.cost_usd, team.change_usd) == ("nlp", 2, -2)
    assert (free.key, free.totals.cost_usd, free.change_usd) == ("", 2, 2)
    page = tight(answer.content.decode())
    assert '<span class="down">−<span title="$2.000000">$2.00</span></span>' in page
    assert '<span class="up">+<span title="$2.000000">$2.00</span></span>' in page
    assert '<span class="sub">new</span>' in page


@pytest.fixture
def contract(explorer) -> Commitment:
    """Of two GPUs, of which one is there, at $1.50 an hour instead of $2."""
    terms = Commitment(
        name="2026-17",
        gpu_model=GPU.objects.get().model,
        gpus=2,
        valid_from=NOW - timedelta(days=1),
        price_per_gpu_hour=Decimal("1.50"),
    )
    return commit(terms, now=NOW)


@pytest.mark.parametrize("of", ["", "&gpu_model=H100+SXM"])
def test_what_is_paid_by_contract_stands_beside_the_total(explorer, contract, of):
    """Two hours of one GPU: $4 at the rates, $3 by contract; and $3 for the missing one."""
    period = f"from={to_ms(NOW) - 4 * HOUR_MS}&to={to_ms(NOW) - 2 * HOUR_MS}"
    answer = explorer.get(f"/costs?{period}{of}")

    costs = answer.context["contract"]
    assert (costs.usd, costs.missing_usd) == (3, 3)
    assert answer.context["seen"].whole.totals.cost_usd == 4
    said = " ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).split())
    assert "Due by contract $6.00 $3.00 of it for committed GPUs that were not delivered" in said
    assert "by contract, the rest" not in said


def test_costs_by_contract_say_what_was_used_unallocated_missing_and_without_one(
    explorer, contract
):
    """Two hours of one GPU at $1.50, of two that were committed to."""
    period = f"from={to_ms(NOW) - 4 * HOUR_MS}&to={to_ms(NOW) - 2 * HOUR_MS}"

    answer = explorer.get(f"/costs?{period}&group_by=contract")

    costs = answer.context["contract"]
    [row] = costs.rows
    assert row.of.used_usd + row.of.unheld_usd == 3
    assert (row.of.missing_ms, row.due_usd, row.rates_usd, costs.due_usd) == (
        2 * HOUR_MS,
        6,
        4,
        6,
    )
    page = answer.content.decode()
    assert "<h2>By contract</h2>" in page
    assert "There is no grouping" not in page


def test_costs_by_contract_are_not_charted_or_listed_by_anything_else(explorer, contract):
    by_contract, by_model = (
        explorer.get(f"/costs?{TWO_HOURS}&group_by={name}").content.decode()
        for name in ("contract", "gpu_model")
    )

    assert "/charts/costs" not in by_contract
    assert "By GPU model" not in in_text(by_contract)
    assert 'aria-label="Group by"' in by_contract
    assert "/charts/costs" in by_model
    assert "<h2>By contract</h2>" not in by_model


def test_hours_that_had_begun_are_of_no_contract(explorer, contract):
    """From half past on: the one whole hour is compared with the contract."""
    start = to_ms(NOW) - 4 * HOUR_MS + HOUR_MS // 2
    answer = explorer.get(f"/costs?from={start}&to={to_ms(NOW) - 2 * HOUR_MS}&group_by=contract")

    costs = answer.context["contract"]
    committed, rest = costs.rows
    assert committed.of.committed_ms == 2 * HOUR_MS
    assert (rest.of, rest.name) == (None, "No contract")
    assert committed.due_usd + rest.due_usd == costs.due_usd
    assert "1 whole hour by contract, the rest at the rates" in tight(answer.content.decode())


def test_a_grouping_by_contract_is_offered_to_who_has_one(explorer):
    page = page_of(explorer, f"/costs?{TWO_HOURS}&group_by=contract")

    assert "There is no grouping by &#x27;contract&#x27;; there are Team, Project" in page


def test_without_a_contract_nothing_is_said_of_its_prices(explorer):
    assert "contract prices" not in page_of(explorer, f"/costs?{TWO_HOURS}")


def test_a_team_has_no_contract_of_its_own(explorer, contract):
    assert "contract prices" not in page_of(explorer, f"/costs?{TWO_HOURS}&team=nlp")


def test_the_period_before_is_as_long_as_what_is_posted_of_this_one(admin):
    """$2 an hour all the time; of the last hour the ledger has 54 minutes yet."""
    factories.rate("2.00")
    gpu = factories.gpu(factories.node(), hours=4)
    for ago, minutes in ((4, 60), (3, 60), (2, 60), (1, 54)):
        ms = minutes * 60_000
        factories.entry(gpu, hours_ago=ago, state="free", gpu_ms=ms).save()
        stored_runs.store(
            factories.run(gpu, hours_ago=ago, hours=minutes / 60, states={"free": ms})
        )

    answer = admin.get(f"/costs?{TWO_HOURS}")

    [line] = answer.context["lines"]
    assert (line.totals.cost_usd, line.before.cost_usd) == (Decimal("3.8"), Decimal("3.8"))
    assert '<span class="sub">unchanged</span>' in tight(answer.content.decode())


@pytest.mark.parametrize(("minutes", "is_said"), [(54, True), (60, False)])
@pytest.mark.parametrize("page", ["/costs", "/fleet"])
def test_a_sum_says_until_when_every_node_is_in_it(admin, page, minutes, is_said):
    factories.rate("2.00")
    gpu = factories.gpu(factories.node(), hours=4)
    ms = minutes * 60_000
    factories.entry(gpu, hours_ago=1, state="free", gpu_ms=ms).save()
    stored_runs.store(factories.run(gpu, hours_ago=1, hours=minutes / 60, states={"free": ms}))

    text = in_text(page_of(admin, f"{page}?range=24h"))

    assert "last 24 hours" in text
    assert ("last 24 hours (" in text) is is_said
    if is_said:
        until = NOW - timedelta(minutes=6)
        assert (
            f" until {until:%a %-d %b, %H:%M}"
            in text.partition("last 24 hours (")[2].partition(")")[0]
        )


@pytest.mark.parametrize(("now", "same"), [("199.01", True), ("200.99", True), ("201", False)])
def test_less_than_half_a_per_cent_is_no_change(now, same):
    line = Compared("", "", *(replace(nothing(), cost_usd=Decimal(usd)) for usd in (now, "200")))

    assert line.is_unchanged == same


def test_without_a_period_before_nothing_is_said_of_a_change(explorer):
    page = page_of(explorer, "/costs?from=now-4h&to=now")

    assert "no data for the period before" in page
    assert "sort=change" not in page


def test_a_period_before_that_is_recorded_in_part_says_from_when_on(explorer):
    """NOW is 12:00 and the first of four hours began at 08:00."""
    page = page_of(explorer, "/costs?from=now-3h&to=now")

    assert "the period before is recorded only from Fri 20 Nov, 08:00 on" in page
    assert "no data for the period before" not in page


def test_the_cost_of_a_period_that_is_recorded_in_part_says_from_when_on(explorer):
    page = page_of(explorer, "/costs?from=now-6h&to=now")

    assert "all GPUs, used or not, from 20 Nov on" in page


def test_a_line_leads_to_what_it_is_made_of(explorer):
    page = page_of(explorer, f"/costs?{TWO_HOURS}&group_by=team&node=node-001")
    by_user = page_of(explorer, f"/costs?{TWO_HOURS}&group_by=user&team=nlp")

    assert (
        'href="/costs?node=node-001&amp;group_by=user&amp;team=nlp&amp;from=now-2h&amp;to=now"'
        in page
    )
    assert "group_by=job&amp;user=%3D1%2B1" in by_user


def test_what_no_job_held_is_opened_by_its_states(explorer):
    """Of the last two hours one was ann's and one was free, $2 each."""
    page = page_of(explorer, f"/costs?{TWO_HOURS}")
    [address] = re.findall(r'href="(/costs[?]group_by=state&amp;team=[^"]*)"', page)

    opened = explorer.get(address.replace("&amp;", "&"))

    assert [(line.key, line.totals.cost_usd) for line in opened.context["lines"]] == [("free", 2)]


def test_who_sees_own_teams_alone_sees_nothing_of_what_no_job_held(explorer, client):
    organisation = Organisation.objects.first() or Organisation()
    organisation.others_shown = "teams"
    organisation.save()
    client.force_login(factories.user(role="engineer", username="stranger"))

    answer = client.get(f"/costs?{TWO_HOURS}&group_by=state&team=(unallocated)")

    assert answer.context["lines"] == []


def test_a_month_before_the_first_gpu_is_not_known_and_no_dollars(explorer):
    page = page_of(explorer, "/costs?from=now-1M/M&to=now/M")

    assert "nothing is recorded before" in page
    assert "$0.00" not in page.partition("<main")[2]


def test_a_period_is_compared_with_nothing_where_nobody_wants_it(explorer):
    alone = f"{TWO_HOURS}&cmp=none"
    answer = explorer.get(f"/costs?{alone}")
    page = tight(answer.content.decode())
    [row, *_] = csv.DictReader(io.StringIO(explorer.get(f"/costs.csv?{alone}").content.decode()))

    assert answer.context["seen"].before is None
    assert "compare with the period before" in page
    assert "sort=change" not in page
    assert row["before_usd"] == ""
    # the rail, what a line is made of and the files keep it
    assert f'href="/overview?{alone}"'.replace("&", "&amp;") in page
    assert "cmp=none&amp;group_by=user&amp;team=nlp" in page
    assert "group_by=team&amp;cmp=none" in page
    assert "There is no `cmp` &#x27;nap&#x27;; there are prev, none" in page_of(
        explorer, "/costs?cmp=nap"
    )


def test_the_overview_is_compared_unless_nobody_wants_it(admin):
    gpu = factories.gpu(factories.node(), hours=4)
    factories.rate("2.00")
    Entry.objects.bulk_create(
        factories.entry(
            gpu, hours_ago=ago, state="orphaned", gpu_ms=3_600_000 if ago < 3 else 1_800_000
        )
        for ago in (1, 2, 3, 4)
    )

    assert admin.get(f"/?{TWO_HOURS}").context["change"].wasted == 1
    assert admin.get(f"/?{TWO_HOURS}&cmp=none").context["change"].wasted is None


@pytest.mark.parametrize(
    ("step", "dollars"), [("hour", [2, 2, 2, 2]), ("day", [8]), ("week", [8]), ("month", [8])]
)
def test_a_step_is_an_hour_a_day_a_week_or_a_month(explorer, step, dollars):
    for group_by in ("team", "state"):
        figure = explorer.get(
            f"/charts/costs?from=now-4h&to=now&group_by={group_by}&step={step}"
        ).json()

        dollars_of = (each["customdata"] for each in figure["data"])
        shown = [sum(usd) for usd in zip(*dollars_of, strict=True)]
        assert shown == dollars
        assert figure["title"].startswith(f"Dollars per {step} by ")


def test_a_week_before_the_first_gpu_is_not_recorded_and_the_first_one_is_a_part(explorer):
    """The period has five weeks, the fleet is a day old."""
    page = explorer.get("/costs?from=now-30d&to=now&step=week")
    figure = explorer.get("/charts/costs?from=now-30d&to=now&step=week").json()

    first = to_ms(page.context["recorded_since"])
    assert first == GPU.objects.order_by("first_ms").first().first_ms
    assert "not recorded before" in page.content.decode()
    assert len(figure["data"][0]["x"]) == 1
    assert all(" of " in each for each in page.context["partial_steps"])


def test_days_before_the_first_gpu_are_not_recorded_and_not_days_of_no_dollars(explorer):
    """The fleet is four hours old: of the 30 days today alone has figures."""
    page = explorer.get("/costs?from=now-30d&to=now&step=day")
    figure = explorer.get("/charts/costs?from=now-30d&to=now&step=day").json()

    assert "not recorded before" in page.content.decode()
    assert {len(trace["x"]) for trace in figure["data"]} == {1}


def test_a_step_that_is_too_fine_is_said_and_not_drawn(explorer):
    page = page_of(explorer, "/costs?from=now-30d&to=now&step=hour")

    assert "There is no `step` &#x27;hour&#x27;; there are day, week, month" in page
    assert "step=day" in page
    assert explorer.get("/charts/costs?from=now-30d&to=now&step=hour").status_code == 404


def test_a_part_of_a_bar_leads_to_what_it_is_made_of(explorer):
    of_team = explorer.get("/charts/costs?from=now-4h&to=now&group_by=team&node=node-001").json()
    of_state = explorer.get("/charts/spend?from=now-4h&to=now").json()
    of_gpu = explorer.get("/charts/spend?from=now-4h&to=now&gpu=GPU-node-001-0").json()

    links = [part["meta"].get("link") for part in of_team["data"]]
    assert links == ["/costs?node=node-001&group_by=user&team=nlp", None]
    assert of_state["data"][0]["meta"]["link"] == "/costs?group_by=team&state=useful"
    assert "link" not in of_gpu["data"][0]["meta"]


@pytest.mark.parametrize(
    "group_by", ["team", "project", "cost_centre", "user", "job", "node", "gpu_model", "state"]
)
def test_every_grouping_sums_to_the_total(explorer, group_by):
    answer = explorer.get(f"/costs?from=now-4h&to=now&group_by={group_by}")

    assert sum(line.totals.cost_usd for line in answer.context["lines"]) == 8
    assert answer.context["seen"].whole.totals.cost_usd == 8


def test_a_grouping_or_order_that_there_is_not_is_said(explorer):
    page = page_of(explorer, "/costs?group_by=nap&sort=nap")

    assert "There is no grouping by &#x27;nap&#x27;; there are Team," in page
    assert "There is no `sort` &#x27;nap&#x27;; there are cost," in page


def test_the_chart_has_a_part_for_each_group_and_for_nobody(explorer):
    figure = explorer.get("/charts/costs?from=now-4h&to=now&group_by=team").json()

    drawn = {part["name"]: (part["meta"]["token"], part["y"]) for part in figure["data"]}
    assert drawn == {
        "nlp": ("group-1", [2.0, 2.0, 2.0, 0.0]),
        "Unallocated": ("free", [0.0, 0.0, 0.0, 2.0]),
    }


def test_the_chart_by_state_is_the_states_own(explorer):
    figure = explorer.get("/charts/costs?from=now-4h&to=now&group_by=state").json()

    assert [part["name"] for part in figure["data"]] == ["Useful", "Idle", "Free"]
    assert explorer.get("/charts/costs?group_by=nap").status_code == 404


def test_the_lines_by_state_are_the_parts_of_the_chart(explorer):
    Entry.objects.filter(start=Entry.objects.earliest("start").start).update(
        efficiency_source="none"
    )
    figure = explorer.get("/charts/costs?from=now-4h&to=now&group_by=state").json()
    answer = explorer.get("/costs?from=now-4h&to=now&group_by=state&sort=cost")
    of_parts = {
        state: explorer.get(f"/costs?from=now-4h&to=now&state={state}").context["seen"].whole
        for state in ("useful", "unverified")
    }

    lines = {line.key: (line.label, line.totals.cost_usd) for line in answer.context["lines"]}
    assert lines == {
        part["meta"]["token"]: (part["name"], sum(part["customdata"])) for part in figure["data"]
    }
    assert lines["unverified"] == ("Busy, unverified", 2)
    assert set(answer.context["opened"]) == {"useful", "unverified", "idle", "free"}
    for state, whole in of_parts.items():
        assert whole.totals.cost_usd == lines[state][1]


def test_less_useful_time_is_not_shown_as_good_nor_more_free_time_as_bad(explorer):
    """Of two hours $2 each of idle and free time, of the two before $4 of useful time."""
    page = page_of(explorer, f"/costs?{TWO_HOURS}&group_by=state")

    changes = re.findall(r"<span( class=\"\w+\")?>([+−])<span title=\"([^\"]+)", page)
    assert {(colour.strip(), sign + usd) for colour, sign, usd in changes} == {
        ("", "−$4.000000"),
        ("", "+$2.000000"),
        ('class="up"', "+$2.000000"),
    }


def test_the_eighth_group_is_one_of_the_others(admin):
    factories.rate("2.00")
    for number in range(9):
        gpu = factories.gpu(factories.node(f"n{number}"), hours=2)
        held = factories.job(f"slurm/della/{number}", team=f"team-{number}")
        ms = 360_000 * (9 - number)
        factories.entry(gpu, hours_ago=1, held_by=held, gpu_ms=ms).save()

    answer = admin.get("/charts/costs?from=now-1h&to=now&group_by=team")

    names = [part["name"] for part in answer.json()["data"]]
    assert names == [*(f"team-{number}" for number in range(7)), "All others"]
    # of $2 an hour: 0.2 h and 0.1 h
    assert answer.json()["data"][-1]["y"] == [0.6]


def test_the_files_have_every_line_and_no_formula(explorer):
    taken = explorer.get("/costs.csv?from=now-4h&to=now&group_by=user").content.decode()
    book = explorer.get("/costs.xlsx?from=now-4h&to=now&group_by=user").content

    rows = list(csv.DictReader(io.StringIO(taken)))
    assert [(row["user"], row["cost_usd"]) for row in rows] == [
        (f"'{FORGED}", "6.000000"),
        ("", "2.000000"),
    ]
    columns, *lines = sheets(book)["Costs"]
    facts = {row[0]: row[1] for row in sheets(book)["Cover"] if len(row) > 1}
    assert columns == [
        "User",
        "Id",
        "Cost, US dollars",
        "Change, US dollars",
        "Before, US dollars",
        "GPU-hours",
        "Share of cost",
        "US dollars per GPU-hour",
        "Wasted, US dollars",
    ]
    assert lines[0][:2] == [FORGED, FORGED]
    assert lines[-1][:3] == ["Total", 8, 4]  # compared with nothing
    assert (facts["Filters"], facts["Cost"]) == ("none: all GPUs, used or not", 8)


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/costs.pdf", 404),
        ("/costs.csv?group_by=nap", 422),
        ("/costs.csv?from=never", 422),
        ("/costs.csv?nap=1", 422),
        ("/costs.csv?cmp=nap", 422),
    ],
)
def test_a_file_that_can_not_be_made_is_refused(explorer, address, status):
    assert explorer.get(address).status_code == status


def test_jobs_come_25_a_page_the_dearest_first_and_lead_on(admin):
    factories.rate("2.00")
    node = factories.node()
    for number in range(26):
        gpu = factories.gpu(node, index=number, hours=2)
        job = factories.job(f"slurm/della/{number:02}")
        factories.entry(gpu, hours_ago=1, held_by=job, gpu_ms=HOUR_MS - number * 60_000).save()

    first = admin.get(f"/costs?{TWO_HOURS}&group_by=job").context
    after = first["pager"].after
    second = admin.get(f"/costs?{TWO_HOURS}&group_by=job&after={after}").context

    assert [line.key for line in first["lines"]] == [f"slurm/della/{n:02}" for n in range(25)]
    assert [line.key for line in second["lines"]] == ["slurm/della/25"]
    assert (first["seen"].others.count, second["seen"].others.count) == (1, 25)
    assert second["pager"].after == ""


def test_nodes_stand_by_what_they_wasted(explorer):
    assert explorer.get(f"/costs?{TWO_HOURS}&group_by=node").context["sort"] == "waste"


def test_what_no_rule_maps_leads_to_the_rules(explorer):
    page = page_of(explorer, f"/costs?{TWO_HOURS}&group_by=project")

    line = page.split("no project: no rule matched")[1].split("</tr>")[0]
    assert 'href="/settings/mappings">map</a>' in line


@pytest.mark.parametrize(
    ("now", "says"),
    [
        ("200.99", "within half a per cent of $200"),
        ("200.40", "unchanged at $200"),
        ("201.00", "+ $1.00 +0.5 % from $200"),
    ],
)
def test_two_figures_that_read_differently_are_not_called_unchanged(now, says):
    line = Change("", Decimal(now), Decimal(200))

    part = render_to_string("dashboard/_change_from.html", {"line": line, "usd": Decimal(200)})

    assert in_text(part).strip() == says


def test_lines_of_jobs_have_their_ids_and_their_chart_is_of_the_dearest_alone(admin):
    """Eight runs of one name: the chart has seven, and no wall of all others and of free GPUs."""
    factories.rate("2.00")
    node = factories.node()
    for number in range(9):
        gpu = factories.gpu(node, index=number, hours=2)
        held_by = factories.job(f"slurm/della/{number}", name="train") if number else None
        factories.entry(gpu, hours_ago=1, held_by=held_by).save()

    page = in_text(admin.get(f"/costs?{TWO_HOURS}&group_by=job").content.decode())
    chart = admin.get(f"/charts/costs?{TWO_HOURS}&group_by=job").json()

    assert all(f"slurm/della/{number}" in page for number in range(1, 9))
    assert "Dollars per hour of the jobs that cost most" in page
    assert [each["name"] for each in chart["data"]] == ["train"] * 7


def test_the_chart_of_jobs_says_what_it_leaves_out_and_what_that_sums_to(admin):
    """Nine jobs of $2 and less each, dearest first, and one GPU that no job held."""
    factories.rate("2.00")
    node = factories.node()
    for number in range(10):
        gpu = factories.gpu(node, index=number, hours=2)
        held_by = factories.job(f"slurm/della/{number}") if number else None
        factories.entry(gpu, hours_ago=1, held_by=held_by, gpu_ms=HOUR_MS // (number + 1)).save()

    page = in_text(admin.get(f"/costs?{TWO_HOURS}&group_by=job").content.decode())

    assert "7 of 9 jobs drawn; left out: 2 others, $0.42 ; what no job held, $2.00" in page
    assert "drawn" not in in_text(admin.get(f"/costs?{TWO_HOURS}").content.decode())
