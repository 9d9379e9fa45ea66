"""The page of a file of people: the difference first, then the same text."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from fleetwatch.accounts.models import Identity, User
from tests.markup import tight

pytestmark = pytest.mark.django_db

PAGE = "/settings/people/import"
TEXT = "user,name,role\ncy,cyril,lead\nann,<b>ann</b>,\n"


def text(answer) -> str:
    return tight(answer.content.decode())


def test_a_file_is_looked_at_then_imported(admin):
    file = SimpleUploadedFile("people.csv", TEXT.encode())
    shown = admin.post(PAGE, {"file": file})
    assert "Set 2 users" in text(shown)
    assert "&lt;b&gt;ann&lt;/b&gt;" in text(shown)
    assert not User.objects.filter(username="cy").exists()

    done = admin.post(PAGE, {"do": "import", "text": shown.context["text"]}, follow=True)

    assert "2 users were set; 0 stood already." in text(done)
    assert done.redirect_chain == [("/settings/people#users", 302)]
    assert User.objects.get(username="cy").role == "lead"
    assert Identity.objects.count() == 2


def test_a_wrong_file_says_where(admin):
    page = text(admin.post(PAGE, {"text": "user,role\ncy,king\n"}))

    assert "Nothing was set" in page
    assert "there is no role" in page
    assert not User.objects.filter(username="cy").exists()


def test_nothing_is_there_to_set_of_a_file_that_is_so_already(admin):
    page = text(admin.post(PAGE, {"text": "user\nann\n"}))

    assert "Everything in the file is set already." in page
    assert "1 of the file stand already" in page
