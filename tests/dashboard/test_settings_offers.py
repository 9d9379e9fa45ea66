"""What settings offer and mark by themselves: links, tokens that nobody uses, whom to invite."""

from datetime import timedelta

import pytest

from fleetwatch.accounts.models import ApiToken
from fleetwatch.accounts.services import create_api_token
from tests.dashboard import factories

pytestmark = pytest.mark.django_db


def text_of(response):
    return response.content.decode()


def test_a_token_that_never_ends_and_nobody_used_is_marked(admin):
    user = factories.user(username="ben")
    for used_at, ends_at in (
        (None, None),
        (factories.NOW, None),
        (None, factories.NOW + timedelta(days=1)),
    ):
        create_api_token(user, scope="read", now=factories.NOW)
        newest = ApiToken.objects.order_by("pk").last()
        ApiToken.objects.filter(pk=newest.pk).update(last_used_at=used_at, expires_at=ends_at)

    page = text_of(admin.get("/settings/tokens"))
    assert page.count(">unused</span>") == 1
    assert (
        page.partition(">unused</span>")[0].rpartition("data-label=")[2].startswith('"Last used"')
    )


def test_a_ready_link_is_offered_and_kept_with_ones_own_host(admin):
    page = text_of(admin.get("/settings/links"))
    sent = {"title": "TensorBoard", "template": "https://your-tensorboard/?runFilter={job_id}"}

    assert 'value="TensorBoard"' in page
    assert admin.post("/settings/link", sent).status_code == 422
    sent["template"] = sent["template"].replace("your-tensorboard", "tb.example")
    assert admin.post("/settings/link", sent).status_code == 302


def test_who_runs_services_alone_is_invited_nowhere(admin):
    gpu = factories.gpu(factories.node("n1"))
    for hours_ago, (user, kind) in enumerate((("svc-web", "service"), ("robert", "batch")), 20):
        of = factories.job(f"kubernetes/prod/{user}", user=user, kind=kind)
        factories.entry(gpu, hours_ago=hours_ago, held_by=of).save()

    page = text_of(admin.get("/settings/people"))

    listed = page[page.index('id="accountless"') : page.index('id="invite"')]
    assert listed.count('href="#invite"') == 1
    assert ">service</span>" in listed.partition("svc-web")[2].partition("</tr>")[0]
