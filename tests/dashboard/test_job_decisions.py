"""A job's page: whose job it is, who leads the team and operators decide there about its findings;
what was decided stands there for everybody.
"""

from datetime import timedelta

import pytest

from fleetwatch.accounts.models import Identity, Team, User
from fleetwatch.accounts.people import Name, give_name, join
from fleetwatch.diagnosis.models import Finding, Said
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.dashboard import factories
from tests.diagnosis.told import NOW, cause, finding, job, rate
from tests.markup import tight

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_frozen")]
JOB = "/jobs/slurm/della/7"
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def wasted() -> Finding:
    """An open finding of a job of the Unix user "vera", of the team nlp."""
    rate("2.40")
    nlp = Team.objects.create(slug="nlp", name="Language")
    of = job(user="vera", account="nlp", team=nlp)
    cause(of=of, start=NOW - timedelta(hours=2))
    return finding(of, first_ms=to_ms(NOW) - 2 * HOUR_MS, last_ms=to_ms(NOW) - HOUR_MS)


def person(role: str, *, owns: str = "", leads: str = "") -> User:
    user = factories.user(role=role, username=f"{role}-1")
    if owns:
        give_name(user, Name("unix", owns), source=Identity.Source.ADMIN, now=NOW)
    if leads:
        join(user, Team.objects.get(slug=leads), since=NOW - timedelta(days=1))
    return user


def page(client, address: str = JOB) -> str:
    answer = client.get(address, follow=True)
    assert answer.status_code == 200
    return tight(answer.content.decode())


def decides(text: str, finding: Finding) -> list[str]:
    actions = ("accept", "fixed", "snooze", "dismiss", "assign")
    return [action for action in actions if f'"/findings/{finding.pk}/{action}"' in text]


@pytest.mark.parametrize(
    ("role", "facts"),
    [("engineer", {"owns": "vera"}), ("lead", {"leads": "nlp"}), ("operator", {}), ("admin", {})],
)
def test_who_decides_about_the_finding_has_its_buttons_on_the_jobs_page(
    client, wasted, role, facts
):
    client.force_login(person(role, **facts))

    seen = page(client)

    assert decides(seen, wasted) == ["accept", "fixed", "snooze", "dismiss", "assign"]
    assert "Assign to me" in seen
    assert "Why it is not waste" in seen


@pytest.mark.parametrize(
    ("role", "facts"), [("engineer", {"owns": "bo"}), ("lead", {}), ("finance", {})]
)
def test_who_does_not_has_none(client, wasted, role, facts):
    client.force_login(person(role, **facts))

    for address in (JOB, f"/findings/{wasted.pk}", "/findings"):
        seen = page(client, address)
        assert decides(seen, wasted) == []
        assert "Assign to me" not in seen


@pytest.mark.parametrize("address", [JOB, "/findings"])
@pytest.mark.parametrize(
    ("action", "sent", "status"),
    [
        ("fixed", {}, "fixed"),
        ("snooze", {"days": "7"}, "snoozed"),
        ("dismiss", {"note": "a benchmark"}, "dismissed"),
    ],
)
def test_the_owner_decides_and_is_led_back(client, wasted, address, action, sent, status):
    client.force_login(person("engineer", owns="vera"))

    answer = client.post(f"/findings/{wasted.pk}/{action}", sent | {"back": address})

    assert (answer.status_code, answer["Location"]) == (302, address)
    assert Finding.objects.get().status == status


def test_not_waste_needs_a_reason(client, wasted):
    client.force_login(person("engineer", owns="vera"))

    answer = client.post(f"/findings/{wasted.pk}/dismiss", {"note": " ", "back": JOB})

    assert answer.status_code == 422
    assert "A reason helps" in answer.content.decode()
    assert not Said.objects.exists()


@pytest.mark.parametrize("place", [JOB, "/findings", "/me", "finding"])
def test_the_owner_takes_it_over_with_one_button_wherever_it_stands(client, wasted, place):
    vera = person("engineer", owns="vera")
    client.force_login(vera)
    address = f"/findings/{wasted.pk}" if place == "finding" else place
    button = f'name="assignee"value="{vera.username}"'
    assert button in page(client, address).replace('" value', '"value')

    client.post(f"/findings/{wasted.pk}/assign", {"assignee": vera.username, "back": address})

    assert Finding.objects.get().assignee == vera
    seen = page(client, address)
    assert "Assign to me" not in seen
    assert "given to engineer-1" in seen


def test_the_owner_gives_it_to_a_colleague_on_the_jobs_page(client, wasted):
    vera, colleague = person("engineer", owns="vera", leads="nlp"), person("lead", leads="nlp")
    stranger = person("finance")
    client.force_login(vera)
    seen = page(client)
    assert f'value="{colleague.username}"' in seen
    assert f'value="{stranger.username}"' not in seen
    sent = {"assignee": colleague.username, "back": JOB}

    answer = client.post(f"/findings/{wasted.pk}/assign", sent)

    assert answer["Location"] == JOB
    assert Finding.objects.get().assignee == colleague
    assert "given to lead-1" in page(client)


def test_what_was_taken_over_is_taken_over_by_somebody_else_too(client, wasted):
    Finding.objects.update(assignee=person("engineer", owns="vera"))
    client.force_login(person("operator"))

    assert "Assign to me" in page(client)


@pytest.mark.parametrize("status", ["fixed", "dismissed"])
def test_what_is_done_is_not_to_be_taken_over(client, wasted, status):
    Finding.objects.update(status=status, decided_at=NOW)
    client.force_login(person("operator"))

    assert "Assign to me" not in page(client)


def test_who_did_what_stands_on_the_jobs_page_for_everybody(client, wasted):
    vera = person("engineer", owns="vera")
    client.force_login(vera)
    client.post(f"/findings/{wasted.pk}/assign", {"assignee": vera.username})
    client.post(f"/findings/{wasted.pk}/dismiss", {"note": HOSTILE})
    client.force_login(person("finance"))

    seen = page(client)

    assert "<b>assigned</b>by engineer-1: to engineer-1" in seen
    assert "<b>agreed as not waste</b>by engineer-1: &lt;script&gt;" in seen
    assert HOSTILE not in seen
    assert seen.index("<b>agreed as not waste</b>") < seen.index("<b>assigned</b>")


@pytest.mark.parametrize(
    ("role", "facts", "tells"),
    [
        ("operator", {}, True),
        ("lead", {"leads": "nlp"}, True),
        ("engineer", {"owns": "vera"}, False),
        ("finance", {}, False),
    ],
)
def test_who_decides_and_is_not_the_owner_can_tell_the_owner(client, wasted, role, facts, tells):
    client.force_login(person(role, **facts))

    assert ("Tell the owner" in page(client)) is tells
