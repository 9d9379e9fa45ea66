"""What people and scripts see when the database says no: that it is the database, and when to come
again.
"""

import re

import pytest
from django.db import OperationalError, connection
from django.test import Client
from psycopg import errors

from fleetwatch.accounts.models import OthersShown
from fleetwatch.accounts.visibility import set_others_shown
from tests.dashboard import factories
from tests.dashboard.shown_incidents import incident
from tests.diagnosis.told import finding, job

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]


# of each answer anew
SECRETS = re.compile(
    r'nonce="[^"]*"|name="csrfmiddlewaretoken" value="[^"]*"|"X-CSRFToken": "[^"]*"'
)


def refusing(cause):
    """Each statement fails as that error of Postgres does."""

    def refuse(execute, sql, params, many, context):
        raise OperationalError("it says no") from cause

    return connection.execute_wrapper(refuse)


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (errors.DiskFull(), "The disk of the database is full"),
        (errors.QueryCanceled(), "The database took too long"),
        (errors.LockNotAvailable(), "Others write the same rows"),
        (None, "The database is not available"),
    ],
)
def test_a_page_says_what_is_wrong_with_the_database(admin_client, cause, text):
    admin_client.raise_request_exception = False
    with refusing(cause):
        answer = admin_client.get("/status")

    assert (answer.status_code, answer["Retry-After"]) == (503, "10")
    assert text in answer.content.decode()


def test_the_api_says_it_in_json():
    client = Client(raise_request_exception=False)
    with refusing(errors.DiskFull()):
        answer = client.get("/api/v1/nodes", headers={"authorization": "Bearer fw_any"})

    assert answer.status_code == 503
    assert answer.json() == {"error": "the disk of the database is full", "field": None}


def test_a_log_in_says_that_redis_is_away(settings, tmp_path):
    settings.CACHES = {
        "default": {**settings.CACHES["default"], "LOCATION": f"unix://{tmp_path}/nobody.sock"}
    }
    client = Client(raise_request_exception=False)

    answer = client.post("/accounts/login/", {"login": "ada", "password": "wrong"})

    assert (answer.status_code, answer["Retry-After"]) == (503, "10")
    assert "Redis does not answer" in answer.content.decode()
    assert client.get("/accounts/login/").status_code == 200


def test_what_breaks_otherwise_stays_an_error(admin_client, monkeypatch):
    admin_client.raise_request_exception = False
    monkeypatch.setattr("fleetwatch.dashboard.views.status.task_lines", lambda _: 1 // 0)

    answer = admin_client.get("/status")

    assert answer.status_code == 500
    assert "Something broke on our side" in answer.content.decode()


def test_who_may_not_is_told_who_may_and_keeps_the_navigation(client):
    client.force_login(factories.user(role="finance"))

    opened = client.get("/settings/people")
    changed = client.post("/settings/channel", {})

    assert (opened.status_code, changed.status_code) == (403, 403)
    assert "<h1>Only admins can open People</h1>" in opened.content.decode()
    assert "Your role is finance." in opened.content.decode()
    assert 'href="/costs' in opened.content.decode()
    assert "<h1>Only operators and admins can change this</h1>" in changed.content.decode()


def test_who_does_not_see_a_finding_as_his_is_told_so_in_its_words(client):
    client.force_login(factories.user(role="engineer"))
    of_a_job = finding(job())

    refused = client.post(f"/findings/{of_a_job.pk}/accept")

    assert refused.status_code == 403
    assert "<h1>You can’t change this</h1>" in refused.content.decode()
    assert "It is for whose job it is, who leads the team" in refused.content.decode()


@pytest.mark.parametrize(
    ("address", "heading", "searched"),
    [
        ("/nodes/nope-01", "No node nope-01", "nope-01"),
        ("/agents/nope-01", "No node nope-01", "nope-01"),
        ("/gpus/GPU-0", "No GPU GPU-0", "GPU-0"),
        ("/jobs/slurm/della/9", "No job slurm/della/9", "slurm/della/9"),
        ("/teams/nosuch", "No team nosuch", "nosuch"),
        ("/nosuchpage", "Page not found", ""),
    ],
)
def test_what_is_not_there_is_named_and_looked_for(admin_client, address, heading, searched):
    answer = admin_client.get(address)

    page = answer.content.decode()
    assert answer.status_code == 404
    assert f">{heading}</h1>" in page
    assert f'value="{searched}"' in page.partition("<h1")[2]
    assert 'href="/fleet"' in page
    assert ('href="/settings/agents">Add a node' in page) is ("nope-01" in page or "GPU-0" in page)


@pytest.mark.parametrize(
    ("address", "sentence", "listed"),
    [
        ("/findings/999999", "There is no finding 999999,", '/findings">savings inbox'),
        ("/incidents/9999", "There is no incident 9999,", '/alerts">alerts'),
        ("/alerts/rules/999", "There is no rule 999,", '/alerts/rules">rules'),
    ],
)
def test_of_a_finding_incident_or_rule_that_is_not_there_the_list_is_named_and_no_agent(
    admin_client, address, sentence, listed
):
    page = admin_client.get(address).content.decode()

    assert sentence in page
    assert listed in page.partition("<h1")[2]
    assert "agent has reported" not in page


def test_a_name_that_is_not_there_is_no_markup_and_is_cut(admin_client):
    page = admin_client.get(f"/nodes/<b>{'x' * 300}").content.decode()

    assert f"No node &lt;b&gt;{'x' * 56}…</h1>" in page
    assert "<b>x" not in page


@pytest.mark.parametrize("role", ["engineer", "lead"])
def test_what_a_reader_may_not_see_reads_as_what_is_not_there(client, role):
    set_others_shown(OthersShown.OWN_TEAMS)
    client.force_login(factories.user(role=role, username="vera"))
    node = factories.node("n-of-others")
    gpu = factories.gpu(node)
    of_others = job("slurm/della/1", user="ann")
    key = of_others.key

    for there, nowhere in (
        ("/nodes/n-of-others", "/nodes/absent"),
        (f"/gpus/{gpu.uuid}", "/gpus/GPU-absent-0"),
        (f"/jobs/{key}", "/jobs/slurm/della/2"),
        (f"/findings/{finding(of_others, pk=888_888).pk}", "/findings/999999"),
        (f"/incidents/{incident(of_others.key, pk=888_888).pk}", "/incidents/999999"),
    ):
        answers = [client.get(address) for address in (there, nowhere)]
        names = [address.partition("s/")[2] for address in (there, nowhere)]
        pages = [
            answer.content.decode().replace(name, "it")
            for answer, name in zip(answers, names, strict=True)
        ]
        assert [answer.status_code for answer in answers] == [404, 404]
        there_is, there_is_not = (SECRETS.sub("", page) for page in pages)
        assert there_is == there_is_not
