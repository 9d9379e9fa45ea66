"""The rate book's pages: imports by admins, looked at before they are done."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from fleetwatch.costs.models import Rate
from fleetwatch.costs.rate_csv import MAX_BYTES
from tests.dashboard import factories

pytestmark = pytest.mark.django_db

PAGES = ["/settings/rates/import"]
FILE = "gpu_model,price,valid_from\nH100 SXM,3,2026-11-01\n"


def text_of(response):
    return response.content.decode()


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_stranger_is_sent_to_the_log_in(client, page, method):
    assert getattr(client, method)(page)["Location"].startswith("/accounts/login/")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_viewer_is_refused(viewer, page, method):
    assert getattr(viewer, method)(page).status_code == 403


def test_a_file_is_shown_in_dollars_and_set_by_the_next_step(admin):
    gpu = factories.gpu(factories.node())
    factories.rate("2.00")
    factories.entry(gpu, hours_ago=48, held_by=factories.job(team="nlp")).save()

    shown = admin.post("/settings/rates/import", {"file": SimpleUploadedFile("rates.csv", FILE.encode())})

    assert shown.status_code == 200
    assert "$1.00" in text_of(shown)
    assert "Set 1 rate<" in text_of(shown)
    assert Rate.objects.count() == 1
    done = admin.post("/settings/rates/import", {"do": "import", "text": shown.context["text"]}, follow=True)
    assert "1 rates were set; 0 stood already." in text_of(done)
    assert Rate.objects.count() == 2


def test_bad_lines_are_listed_and_the_text_stays(admin):
    response = admin.post("/settings/rates/import", {"text": "gpu_model,price,valid_from\n<b>,x,2026-11-01\n"})

    assert response.status_code == 422
    assert '<td class="num">2</td><td><code>price</code></td>' in text_of(response)
    assert "&lt;b&gt;,x" in text_of(response)
    assert "<b>,x" not in text_of(response)


def test_a_file_that_is_too_large_is_refused_and_not_repeated(admin):
    file = SimpleUploadedFile("rates.csv", b"x" * (MAX_BYTES + 1))

    response = admin.post("/settings/rates/import", {"file": file})

    assert response.status_code == 422
    assert "larger than 1,000,000 bytes" in text_of(response)
    assert len(response.content) < 100_000


def test_what_can_no_longer_be_set_is_said_by_the_second_step_too(admin):
    response = admin.post("/settings/rates/import", {"do": "import", "text": "node,price,valid_from\nmoon,1,beginning\n"})

    assert response.status_code == 422
    assert "There is no node" in text_of(response)
