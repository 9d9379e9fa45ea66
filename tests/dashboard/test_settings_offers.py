"""What settings offer and mark by themselves: ready templates of links, tokens that nobody uses."""

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

    assert text_of(admin.get("/settings/tokens")).count(">unused</span>") == 1


def test_a_ready_link_is_offered_and_kept_with_ones_own_host(admin):
    page = text_of(admin.get("/settings/links"))
    sent = {"title": "TensorBoard", "template": "https://your-tensorboard/?runFilter={job_id}"}

    assert 'value="TensorBoard"' in page
    assert admin.post("/settings/link", sent).status_code == 422
    sent["template"] = sent["template"].replace("your-tensorboard", "tb.example")
    assert admin.post("/settings/link", sent).status_code == 302
