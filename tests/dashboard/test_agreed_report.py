"""The waste report says of its lines, of all and in its file what of the waste is agreed as none."""

import csv
import io
import re
from datetime import timedelta

import pytest
import time_machine

from tests.costs.factories import an_entry
from tests.diagnosis.told import NOW, cause, finding, gpu, job, rate
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db
LINE = "of it agreed as not waste"


@pytest.fixture
def agreed(admin):
    """At $2: ann's two GPUs idled for an hour, which somebody closed as no waste, and one of bob's
    for two, which is open; of ann's another cause took an hour.
    """
    rate()
    for user, number, hours_ago, code in (
        ("ann", 0, 2, "idle_held"),
        ("ann", 1, 2, "idle_held"),
        ("ann", 0, 3, "hung"),
        ("bob", 2, 2, "idle_held"),
        ("bob", 2, 3, "idle_held"),
    ):
        of = job(f"slurm/della/{user}", user=user)
        start = NOW - timedelta(hours=hours_ago)
        cause(code, of=of, on=gpu(number), start=start)
        an_entry(gpu(number), "idle", job=of, start=start, tier="certain")
    finding(job("slurm/della/ann"), status="dismissed")
    finding(job("slurm/della/bob"))
    with time_machine.travel(NOW, tick=False):
        yield admin


def page(client, query: str) -> str:
    return in_text(tight(client.get(f"/waste?from=now-6h&to=now&{query}").content.decode()))


def lines(client, query: str) -> dict[str, str]:
    """By name of each line its text."""
    markup = tight(client.get(f"/waste?from=now-6h&to=now&{query}").content.decode())
    rows = re.findall(r"<tr.*?</tr>", markup.partition("<tbody>")[2], re.DOTALL)
    every = [in_text(row) for row in rows]
    return {text.split()[0]: text for text in every if text}


def test_the_card_parts_what_was_wasted_into_what_is_agreed_and_what_is_not(agreed):
    """$10 in all, of which ann's $4 are agreed."""
    assert "of it agreed as not waste: $4.00 ; not agreed, or too new to be judged: $6.00" in page(
        agreed, "group_by=team"
    )


@pytest.mark.parametrize("group_by", ["user", "job"])
def test_a_line_says_how_much_of_its_waste_is_agreed(agreed, group_by):
    shown = page(agreed, f"group_by={group_by}").partition("Could be saved")[2]

    assert f"$6.00 100 % $4.00 {LINE}" in shown  # ann's
    assert f"$10.00 100 % $4.00 {LINE}" in shown  # all
    assert shown.count(LINE) == 2


def test_a_line_of_a_team_says_it_too(agreed):
    shown = page(agreed, "group_by=team").partition("Could be saved")[2]

    assert f"$10.00 100 % $4.00 {LINE}" in shown
    assert shown.count(LINE) == 2  # no team's, and all


def test_a_cause_says_how_much_of_what_it_wasted_is_agreed(agreed):
    by_name = lines(agreed, "group_by=cause")

    assert f"$8.00 80 % $4.00 {LINE}" in by_name["Idle:"]
    assert LINE not in by_name["Stuck"]
    assert f"$10.00 100 % of cost $4.00 {LINE}" in by_name["Total"]


def test_of_another_cause_nothing_is_agreed(agreed):
    assert LINE not in page(agreed, "group_by=user&cause=hung")
    assert f"$4.00 $4.00 {LINE}" in page(agreed, "group_by=user&cause=idle_held")


def test_of_one_state_nothing_is_said_of_what_is_agreed(agreed):
    """A finding's time is of several."""
    assert "agreed as not waste" not in page(agreed, "group_by=user&state=idle")


@pytest.mark.parametrize(
    ("query", "agreed_usd"),
    [
        ("group_by=user", {"ann": "4.000000", "bob": "0.000000"}),
        ("group_by=cause", {"idle_held": "4.000000", "hung": "0.000000"}),
        ("group_by=user&cause=hung", {"ann": "0.000000"}),
        ("group_by=user&state=idle", {"ann": None, "bob": None}),
    ],
)
def test_the_file_has_what_is_agreed_as_a_column_where_that_is_known(agreed, query, agreed_usd):
    answer = agreed.get(f"/waste.csv?from=now-6h&to=now&{query}").content.decode()
    rows = list(csv.DictReader(io.StringIO(answer)))
    key = query.partition("=")[2].partition("&")[0]

    assert {row[key]: row.get("agreed_not_waste_usd") for row in rows} == agreed_usd
