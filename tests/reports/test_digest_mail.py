"""A weekly digest as a mail: what it names leads to its page, and what helps is to be copied."""

from decimal import Decimal
from types import SimpleNamespace

import pytest

from fleetwatch.figures.totals import nothing
from fleetwatch.notify.message import Message
from fleetwatch.notify.transports.email import compose
from fleetwatch.reports import digest
from tests.reports.test_digest_words import weekly

BASE = "https://hub.example"
REPORT = f"{BASE}/reports/9"
WIDEST = 78


def a_job(number: int, low: str, high: str, **fields) -> dict:
    usual = {
        "cause": "idle_held",
        "title": "Idle: still held",
        "name": "sweep-7",
        "owner": "ann (NLP)",
        "low_usd": Decimal(low),
        "high_usd": Decimal(high),
        "step": "End the job: what it did since its last checkpoint is lost.",
        "command": f"scancel {number}",
        "job": f"slurm/della/{number}",
        "finding": number,
    }
    return usual | fields


NODE = {
    "cause": "gpu_fault",
    "title": "GPU slowed",
    "name": "h100-01",
    "owner": "operators",
    "low_usd": Decimal(1),
    "high_usd": Decimal(1),
    "step": "Check airflow.",
    "command": "",
    "node": "h100-01",
    "finding": 8,
}


def a_team(number: int, **fields) -> dict:
    usual = {"slug": f"team-{number}", "is_team": True, "name": f"Team {number}"}
    return usual | {"cost_usd": Decimal(100 - number), "wasted_usd": Decimal(10)} | fields


def mail(kind: str = digest.FLEET, *, unsubscribe: str = "", **fields):
    made = weekly(this=nothing(), before=None, kind=kind, **fields)
    message = digest.message(made, url=REPORT, base=BASE)
    return composed(message)


def composed(message: Message):
    envelope = SimpleNamespace(message=message, identity="x", thread="t")
    return compose(envelope, sender="fleetwatch@hub.example", recipients=["a@b.example"])


def text(**fields) -> str:
    return mail(**fields).body


def html(**fields) -> str:
    [(content, kind)] = mail(**fields).alternatives
    assert kind == "text/html"
    return " ".join(content.split())


def test_it_begins_with_what_could_be_saved_in_a_month():
    """$5 to 10 and $1 of a week, of 7 of the 30 days of a month: $26 to 47."""
    body = text(causes=[a_job(7, "5", "10"), NODE])

    assert body.splitlines()[2].startswith("The 2 fixes below could have saved $6.00–11, $26–47 in")
    assert "could have saved" not in text(causes=[])
    twice = [a_job(7, "5", "10"), a_job(8, "5", "10"), NODE]
    assert "The 3 fixes below" in text(causes=twice)  # as many as are listed
    alike = [a_job(7, "5", "10"), a_job(8, "5", "10") | {"command": "scancel 7"}, NODE]
    assert "The 2 fixes below" in text(causes=alike)
    assert text(causes=alike).count("scancel 7\n") == 1
    assert "The same fix as of sweep-7, above." in text(causes=alike)
    assert "For its next run: End" in text(causes=[a_job(7, "5", "10") | {"is_over": True}])
    assert "The fix below" in text(causes=[NODE])
    assert "could have saved" not in text(causes=[a_job(7, "0", "0")])


def test_a_job_is_named_with_its_number_its_pages_and_the_command_to_copy():
    body = text(causes=[a_job(7, "5", "10")])

    assert body.split("--------------------\n")[1].startswith(
        "$5.00–10  sweep-7\n"
        "  slurm/della/7, ann (NLP)\n"
        "  Idle: still held\n"
        "  End the job: what it did since its last checkpoint is lost.\n"
        "\n"
        "      scancel 7\n"
        "\n"
        "  https://hub.example/findings/7\n"
        "  https://hub.example/jobs/slurm/della/7\n"
    )


def test_in_html_the_same_are_links():
    page = html(causes=[a_job(7, "5", "10"), NODE])

    for address, name in (
        ("/jobs/slurm/della/7", "sweep-7"),
        ("/findings/7", "Idle: still held"),
        ("/nodes/h100-01", "h100-01"),
        ("/findings/8", "GPU slowed"),
    ):
        assert f'<a class="link" href="{BASE}{address}" style="color:#2563eb">{name}</a>' in page
    assert ">scancel 7</code>" in page
    assert "slurm/della/7, ann (NLP)" in page


@pytest.mark.parametrize("part", [text, html])
def test_every_team_is_named_with_what_it_spent_and_its_page(part):
    teams = [a_team(number) for number in range(7)]
    teams.append(a_team(7, slug="", is_team=False, name="unallocated GPUs"))

    shown = part(teams=teams)

    for number in range(7):
        assert f"{BASE}/teams/team-{number}" in shown
        assert f"Team {number}" in shown
    assert "unallocated GPUs" in shown
    assert shown.count("/teams/") == 7
    assert "more" not in shown.split("Teams")[1].split("Weeks begin")[0]
    assert "Total" in shown


@pytest.mark.parametrize("part", [text, html])
def test_beyond_25_teams_the_others_are_one_sum_with_the_way_to_all(part):
    """27 teams: what the last two spent is 75 + 74."""
    shown = part(teams=[a_team(number) for number in range(27)])

    assert "and 2 more" in shown
    assert "$149" in shown
    assert "/teams/team-24" in shown
    assert "/teams/team-25" not in shown
    assert REPORT in shown


def test_where_there_is_no_room_for_all_teams_the_others_are_a_sum():
    """Seven: what the last two spent is 95 + 94."""
    made = weekly(this=nothing(), before=None, teams=[a_team(number) for number in range(7)])

    assert dict(digest.message(made, url="").fields)["Teams"].endswith(
        "Team 4 $96.00 and 2 more, $189"
    )


def test_its_lines_are_no_wider_than_a_mail_but_for_what_is_copied():
    long = "End the job, whose GPUs did nothing since it began to wait for its data. " * 3
    command = "kubectl delete pod -n a-namespace-with-a-rather-long-name -- " + "p" * 40
    notes = {"causes": [a_job(7, "5", "10", step=long.strip(), command=command)]}

    body = text(teams=[a_team(1, name="A team " * 12)], **notes)

    wide = [line.strip() for line in body.splitlines() if len(line) > WIDEST]
    assert wide == [command]
    assert " | " not in body


@pytest.mark.parametrize("part", [text, html])
@pytest.mark.parametrize(
    ("kind", "address"),
    [
        (digest.FLEET, "/settings/channels"),
        (digest.TEAM, "/alerts/routes"),
        (digest.PERSON, "/me#notifications"),
    ],
)
def test_at_its_end_is_where_to_change_or_stop_it(part, kind, address):
    end = part(kind=kind, causes=[a_job(7, "5", "10")])[-600:]

    assert "Change or stop it" in end
    assert f"{BASE}{address}" in end


def test_a_persons_own_names_no_owner():
    assert "ann (NLP)" not in text(kind=digest.PERSON, causes=[a_job(7, "5", "10")])


def test_names_of_hosts_are_text():
    hostile = a_job(7, "5", "10", name="<b>x</b>\nSubject: y", job="slurm/a b/<i>")
    page = html(causes=[hostile])

    assert "<b>x</b>" not in page
    assert "/jobs/slurm/a%20b/%3Ci%3E" in page
    assert "\nSubject: y" not in text(causes=[hostile])


def test_with_nothing_before_it_a_week_says_nothing_of_a_comparison():
    body = text()

    assert "ompared with the week before" not in body
    assert "nothing to compare" not in body


def test_the_teams_of_a_mail_have_a_total():
    shown = text(teams=[a_team(0), a_team(1)])

    assert "$199  Total" in shown
    assert "$20.00 wasted" in shown.split("Total")[1]
