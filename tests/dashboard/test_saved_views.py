"""Saved views: who finds them, where they lead, and that they lead nowhere else."""

from html import unescape
from urllib.parse import urlsplit

import pytest

from fleetwatch.accounts import saved_views
from fleetwatch.accounts.models import AuditEntry, OthersShown, SavedView, User
from fleetwatch.accounts.visibility import set_others_shown
from fleetwatch.dashboard.page_addresses import address_in_words
from tests.dashboard import factories
from tests.markup import tight

pytestmark = pytest.mark.django_db
ADDRESS = "/jobs?from=now-7d&to=now&team=nlp&tz=America%2FNew_York"


def save(client, name="Mine", address=ADDRESS, **more):
    return client.post("/v/save", {"name": name, "address": address, **more})


def another(client, role="lead", username="lea"):
    """Somebody else, logged in by the same browser."""
    client.force_login(factories.user(role=role, username=username))
    return client


def text(answer):
    return tight(unescape(answer.content.decode()))


def listed(client):
    """The list, without what was said of the last form."""
    return text(client.get("/v")).partition('id="views"')[2]


def test_a_view_leads_to_where_it_was_saved_and_what_was_relative_stays_so(admin):
    answer = save(admin, name="  H100s of nlp  ")
    view = SavedView.objects.get()

    assert (answer.status_code, answer["Location"]) == (302, ADDRESS)
    assert view.name == "H100s of nlp"
    assert admin.get(f"/v/{view.slug}")["Location"] == ADDRESS
    assert f'href="/v/{view.pk}-h100s-of-nlp"' in text(admin.get("/v"))


def test_only_what_the_page_knows_is_kept_and_no_place_in_a_list(admin):
    save(admin, address="/jobs?team=nlp&after=1~2&next=https://evil.example&odd=1")

    assert SavedView.objects.get().address == "/jobs?team=nlp"


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/jobs",
        "//evil.example/jobs",
        "/\\evil.example",
        "http://[",
        "jobs?team=nlp",
        "javascript:alert(1)",
        "",
        "/nowhere",
        "/settings",  # no period
        "/charts/spend?from=now-7d",  # no page
        "/waste.csv?from=now-7d",
        "/worst?team=nlp",
        "/v/1-mine",
        "/theme",
    ],
)
def test_nothing_but_a_page_with_a_period_is_kept(admin, address):
    answer = save(admin, address=address)

    assert answer.status_code == 422
    assert "Only a page with a period can be saved." in text(answer)
    assert not SavedView.objects.exists()


def test_a_view_whose_page_is_gone_leads_nowhere(admin):
    view = SavedView.objects.create(
        owner=User.objects.get(),
        name="old",
        path="//evil.example/",
        query="",
        saved_at=factories.NOW,
    )

    assert admin.get(f"/v/{view.slug}").status_code == 404


def test_a_job_with_odd_letters_in_its_key_is_found_again(admin):
    factories.job("slurm/della/a b?c")
    address = "/jobs/slurm/della/a%20b%3Fc?from=now-7d&to=now"
    save(admin, address=address)

    assert urlsplit(SavedView.objects.get().address).path == "/jobs/slurm/della/a%20b%3Fc"
    assert admin.get(f"/v/{SavedView.objects.get().slug}", follow=True).status_code == 200


def test_the_same_name_again_is_the_same_view(admin):
    save(admin)
    save(admin, address="/waste?from=now-30d&to=now", shared="on")

    view = SavedView.objects.get()
    assert (view.address, view.is_shared) == ("/waste?from=now-30d&to=now", True)


@pytest.mark.parametrize("name", ["", "   ", "x" * 61, "a\nb", "bell\x07"])
def test_a_name_that_is_none_is_said_and_the_form_kept(admin, name):
    answer = save(admin, name=name)

    assert answer.status_code == 422
    assert "A name of at most 60 characters, please." in text(answer)
    assert f'name="address" value="{ADDRESS}"' in text(answer)
    assert save(admin, name="x" * 60).status_code == 302


def test_a_hostile_name_is_text(admin):
    save(admin, name="<script>alert(1)</script>")

    page = admin.get("/v").content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_private_view_is_its_owners_alone_an_admins_neither(client, admin):
    save(another(client))
    view = SavedView.objects.get()

    for role in ("engineer", "finance", "admin"):
        other = another(client, role, f"other-{role}")
        assert other.get(f"/v/{view.slug}").status_code == 404
        assert other.post(f"/v/{view.pk}/drop").status_code == 404
        assert "Mine" not in listed(other)
    assert SavedView.objects.exists()


def test_a_stranger_is_asked_to_log_in(client):
    for answer in (client.get("/v"), client.get("/v/1-x"), save(client), client.post("/v/1/drop")):
        assert answer["Location"].startswith("/accounts/login/")


@pytest.mark.parametrize("role", ["lead", "finance", "operator", "admin"])
def test_a_shared_view_is_everybodys_and_its_owners_or_an_admins_to_delete(client, role):
    save(another(client, role, "owner"), shared="on")
    view = SavedView.objects.get()

    engineer = another(client, "engineer", "eve")
    assert engineer.get(f"/v/{view.slug}")["Location"] == ADDRESS
    assert "of owner" in text(engineer.get("/v"))
    assert "Delete" not in text(engineer.get("/v"))
    assert engineer.post(f"/v/{view.pk}/drop").status_code == 404

    assert another(client, "admin", "ada").post(f"/v/{view.pk}/drop").status_code == 302
    assert not SavedView.objects.exists()


def test_an_engineer_keeps_views_to_himself(viewer):
    assert "for everybody" not in text(viewer.get("/me"))
    assert save(viewer, shared="on").status_code == 422
    assert save(viewer).status_code == 302


def test_who_does_not_see_everything_finds_the_own_views_alone(client, admin):
    save(admin, name="Waste of a team that has a name", shared="on")
    shared = SavedView.objects.get()
    set_others_shown(OthersShown.OWN_TEAMS)

    engineer = another(client, "engineer", "eve")
    save(engineer, name="Own")

    assert "Waste of a team" not in listed(engineer)
    assert engineer.get(f"/v/{shared.slug}").status_code == 404
    assert engineer.get(f"/v/{SavedView.objects.get(name='Own').slug}")["Location"] == ADDRESS


@pytest.mark.parametrize("slug", ["x", "0", "999-x", "9" * 40, "1²-x"])
def test_no_such_view_is_not_found(admin, slug):
    assert admin.get(f"/v/{slug}").status_code == 404


def test_one_keeps_so_many_and_no_more(admin, monkeypatch):
    monkeypatch.setattr(saved_views, "MAX_VIEWS", 2)

    assert [save(admin, name=name).status_code for name in "ab"] == [302, 302]
    assert save(admin, name="c").status_code == 422
    assert save(admin, name="b").status_code == 302  # it is there already
    assert SavedView.objects.count() == 2


def test_an_address_that_is_too_long_is_not_kept_in_part(admin):
    answer = save(admin, address=f"/jobs?label={'x' * 2000}")

    assert answer.status_code == 422
    assert "The address is too long to be kept." in text(answer)


def test_saving_and_deleting_stand_in_the_audit_log(admin):
    save(admin, shared="on")
    admin.post(f"/v/{SavedView.objects.get().pk}/drop")

    rows = AuditEntry.objects.filter(action__startswith="view.").order_by("pk")
    assert [(row.action, row.subject) for row in rows] == [
        ("view.save", "Mine"),
        ("view.drop", "Mine"),
    ]
    assert rows[0].detail == {"to": ADDRESS, "shared": True}
    assert rows[1].detail == {"owner": "ann", "shared": True}


def test_the_menu_of_a_page_saves_it_as_it_stands(admin):
    factories.gpu(factories.node())
    page = text(admin.get(ADDRESS))

    form = page.partition('action="/v/save"')[2].partition("</form>")[0]
    assert f'name="address" value="{ADDRESS}"' in form
    assert 'type="checkbox" name="shared"' in form
    assert 'action="/v/save"' not in text(admin.get("/charts/spend?as=table"))


@pytest.mark.parametrize(
    ("path", "query", "words"),
    [
        ("/", "", "Overview"),
        (
            "/costs",
            "team=nlp&group_by=cost_centre&range=7d",
            "Costs · last 7 days · team nlp · by cost centre",
        ),
        ("/waste", "from=now-30d&to=now&state=idle", "Waste · last 30 days · state idle"),
        ("/teams/nlp", "from=now-3d&tz=Asia%2FTokyo", "Teams nlp · now-3d to now"),
    ],
)
def test_a_view_says_what_it_shows(path, query, words):
    assert address_in_words(path, query) == words
